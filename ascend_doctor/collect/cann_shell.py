"""What the environment says about CANN, in the words that the installs are listed with."""

import os
from collections.abc import Iterable, Iterator, Sequence

from ascend_doctor.collect.cann_tree import CannTree, respell
from ascend_doctor.collect.loader import library_path
from ascend_doctor.facts import CannShell
from ascend_doctor.machine.live import Machine, exists, is_directory, matches
from ascend_doctor.patterns import patterns_of

_FOLDERS = (
    *("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH"),
    "ATB_HOME_PATH",
)
# `import torch_npu` ends without them (torch_npu 2.13.0:_init/registry/registry_manager.py).
_IMPORTED = ("runtime", "compiler")
_BELOW, _OF_VENDOR, _OF_DRIVER = patterns_of(__file__)
_OF_SHELL = ("PWD", "OLDPWD", "_")
_LISTS = ("LD_LIBRARY_PATH", "PYTHONPATH")


def shell(machine: Machine, trees: Sequence[CannTree], nnals: Sequence[CannTree]) -> CannShell:
    """The variables of set_env.sh. Paths into a known install begin with its ``root``."""
    env = machine.env
    libraries = library_path(machine)
    modules = [word for word in env.get("PYTHONPATH", "").split(":") if word]
    return CannShell(
        home=_spell(machine, trees, env.get("ASCEND_HOME_PATH")),
        toolkit_home=_spell(machine, trees, env.get("ASCEND_TOOLKIT_HOME")),
        opp=_spell(machine, trees, env.get("ASCEND_OPP_PATH")),
        atb=_spell(machine, nnals, env.get("ATB_HOME_PATH")),
        library_roots=_roots(machine, trees, libraries),
        python_roots=_roots(machine, trees, modules),
        named=dict(_named(machine, (*trees, *nnals))),
        in_front=tuple(_in_front(machine, (*trees, *nnals), libraries)),
        stale=tuple(dict.fromkeys(_stale(machine, (*libraries, *modules)))),
    )


def _named(machine: Machine, trees: Sequence[CannTree]) -> Iterator[tuple[str, str]]:
    """(variable, root of the first tree that it leads into)."""
    for name, text in sorted(machine.env.items()):
        paths = (path for path in text.split(":") if name in _LISTS or _OF_VENDOR.search(path))
        if name not in _OF_SHELL and (roots := _roots(machine, trees, filter(None, paths))):
            yield name, roots[0]


def _in_front(machine: Machine, trees: Sequence[CannTree], entries: Sequence[str]) -> Iterator[str]:
    """Files that the loader takes instead of CANN's."""
    others: dict[str, str] = {}
    for entry in entries:
        names = [os.path.basename(path) for path in matches(machine, entry, "lib*.so")]
        if respell(machine, trees, entry):
            yield from (others[name] for name in names if name in others)
        elif not _OF_DRIVER.search(entry):
            others = {name: f"{entry}/{name}" for name in names} | others


def _spell(machine: Machine, trees: Sequence[CannTree], path: str | None) -> str | None:
    match = respell(machine, trees, path) if path else None
    return match[1] if match else path or None


def _roots(machine: Machine, trees: Sequence[CannTree], paths: Iterable[str]) -> tuple[str, ...]:
    matches = (respell(machine, trees, path) for path in paths)
    return tuple(dict.fromkeys(match[0].root for match in matches if match))


def _stale(machine: Machine, entries: Iterable[str]) -> Iterator[str]:
    """Missing CANN folders whose toolkit is gone, too: set_env.sh also names others (tools/aml)."""
    for name in _FOLDERS:
        path = machine.env.get(name)
        if path and not exists(machine, path):
            yield path
    home = machine.env.get("ASCEND_HOME_PATH", "").rstrip("/")
    if home and exists(machine, home):
        folders = [f"{home}/{part}" for part in _IMPORTED]
        folders += machine.env.get("ASCEND_CUSTOM_OPP_PATH", "").split(":")
        yield from (folder for folder in folders if folder and not exists(machine, folder))
    for entry in entries:
        inside = _BELOW.fullmatch(entry)
        if inside and not _OF_DRIVER.search(entry) and not is_directory(machine, inside.group(1)):
            yield entry
