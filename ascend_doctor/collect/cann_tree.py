"""Where toolkits of CANN lie, under how many names, and which path leads into which."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ascend_doctor.collect.loader import library_path
from ascend_doctor.machine.live import Machine, matches

# Every toolkit has one of these. "latest" of the old layout is a folder of links to them.
_COMPONENTS = ("runtime", "compiler", "opp", "toolkit")


class CannTree(NamedTuple):
    """A folder with several names. ``root`` is the one that the environment uses."""

    root: str
    spellings: tuple[str, ...]


def bases(machine: Machine) -> tuple[str, ...]:
    """Folders that installers and images put CANN into."""
    home = machine.env.get("HOME", "")
    own = (f"{home.rstrip('/')}/Ascend",) if home.startswith("/") else ()
    usual = ("/usr/local/Ascend", *own, "/home/ma-user/Ascend", "/opt/conda/Ascend")
    return tuple(dict.fromkeys(usual))


def toolkits(machine: Machine) -> tuple[CannTree, ...]:
    """Possible toolkits, each once however many links lead there."""
    return _merge((root, _identity(machine, root)) for root in _candidates(machine))


def nnals(machine: Machine) -> tuple[CannTree, ...]:
    """Possible NNAL installs, the one of ATB_HOME_PATH first."""
    roots = [*ancestors(machine.env.get("ATB_HOME_PATH", ""))]
    for base in bases(machine):
        folder = f"{base}/nnal/atb"
        roots += [f"{folder}/latest", *matches(machine, folder, "[0-9]*")]
    return _merge((root, _target(machine, root)) for root in roots)


def ancestors(path: str) -> Iterator[str]:
    """ATB_HOME_PATH is ``<root>/atb/cxx_abi_N``: itself and the three folders above."""
    for _ in range(4):
        if path.count("/") <= 1:  # not the root folder
            return
        yield path.rstrip("/")
        path = os.path.dirname(path.rstrip("/"))


def respell(machine: Machine, trees: Iterable[CannTree], path: str) -> tuple[CannTree, str] | None:
    """The tree that a path leads into and the path below its ``root``."""
    known = sorted(
        ((spelling, tree) for tree in trees for spelling in tree.spellings),
        key=lambda pair: -len(pair[0]),
    )
    for prefix in (path.rstrip("/"), _target(machine, path) or ""):
        for spelling, tree in known:
            if f"{prefix}/".startswith(f"{spelling}/"):
                return tree, tree.root + prefix[len(spelling) :]
    return None


def _candidates(machine: Machine) -> Iterator[str]:
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        yield machine.env.get(name, "")
    for entry in library_path(machine):
        yield re.sub(r"/lib64/*$", "", entry) if re.search(r"/lib64/*$", entry) else ""
    for base in bases(machine):
        yield f"{base}/cann"
        yield from matches(machine, base, "cann-*")
        for product in ("ascend-toolkit", "nnae"):
            yield f"{base}/{product}/latest"
            yield from matches(machine, f"{base}/{product}", "[0-9]*")


def _merge(pairs: Iterable[tuple[str, str | None]]) -> tuple[CannTree, ...]:
    names: dict[str, list[str]] = {}
    for root, identity in pairs:
        if identity is not None:
            names.setdefault(identity, []).append(root.rstrip("/"))
    return tuple(
        CannTree(root=spellings[0], spellings=tuple(dict.fromkeys((*spellings, identity))))
        for identity, spellings in names.items()
    )


def _identity(machine: Machine, root: str) -> str | None:
    """The real place of a toolkit's components."""
    if not root.startswith("/"):
        return None
    for name in _COMPONENTS:
        target = _target(machine, f"{root.rstrip('/')}/{name}")
        if target is not None:
            return os.path.dirname(target) if os.path.basename(target) == name else target
    return None


def _target(machine: Machine, path: str) -> str | None:
    try:
        return machine.status(path).target or path.rstrip("/")
    except OSError:
        return None
