"""Where the dynamic loader of an environment would find a shared library, by ld.so(8)."""

import re
from collections.abc import Iterator, Sequence

from ascend_doctor.machine.live import Machine, exists, matches, read_or_none

_DEFAULTS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_INCLUDE = re.compile(r"^\s*include\s+(\S+)\s*$")


def library_path(machine: Machine) -> tuple[str, ...]:
    """Folders of LD_LIBRARY_PATH in order; an empty entry is the current folder."""
    return tuple(
        word or "."
        # ld.so(8) takes semicolons as well.
        for word in re.split("[:;]", machine.env.get("LD_LIBRARY_PATH", ""))
        if machine.env.get("LD_LIBRARY_PATH")
    )


def loader_folders(machine: Machine) -> tuple[str, ...]:
    """Folders of ``/etc/ld.so.conf`` with its includes, then the multi-arch defaults."""
    folders = [*_lines(machine, "/etc/ld.so.conf")]
    folders += [f"{base}/{name}" for base in ("/lib", "/usr/lib") for name in _triplets(machine)]
    return tuple(dict.fromkeys((*folders, *_DEFAULTS)))


def places(machine: Machine) -> tuple[tuple[str, str], ...]:
    """(folder, rule) in the loader's order, without RPATH and RUNPATH."""
    return (
        *((folder, "LD_LIBRARY_PATH") for folder in library_path(machine)),
        *((folder, "loader configuration") for folder in loader_folders(machine)),
    )


def find(
    machine: Machine, name: str, searched: Sequence[tuple[str, str]]
) -> tuple[str, str] | None:
    """(path, rule) of the first folder with the library."""
    for folder, rule in searched:
        path = f"{folder}/{name}"
        if exists(machine, path):
            return path, rule
    return None


def find_library(machine: Machine, name: str) -> str | None:
    path = find(machine, name, places(machine))
    return path[0] if path else None


def _triplets(machine: Machine) -> tuple[str, ...]:
    folders = matches(machine, "/usr/lib", "*-linux-gnu")
    return tuple(folder.rpartition("/")[2] for folder in folders)


def _lines(machine: Machine, path: str, depth: int = 0) -> Iterator[str]:
    for line in (read_or_none(machine, path) or "").splitlines():
        text = line.partition("#")[0].strip()
        included = _INCLUDE.match(text)
        if included and depth < 4:  # noqa: PLR2004 - ldconfig nests one deep; this ends a cycle
            folder, _, pattern = included.group(1).rpartition("/")
            for name in matches(machine, folder or "/etc", pattern):
                yield from _lines(machine, name, depth + 1)
        elif text and not included:
            yield text
