"""What the environment says about CANN, in the words that the installs are listed with."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ascend_doctor.collect.cann_tree import CannTree, respell
from ascend_doctor.collect.loader import library_path
from ascend_doctor.facts import CannShell
from ascend_doctor.machine.live import Machine, exists, is_directory
from ascend_doctor.patterns import defer

_FOLDERS = (
    *("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH"),
    "ATB_HOME_PATH",
)
# `import torch_npu` ends without them (torch_npu 2.13.0:_init/registry/registry_manager.py).
_IMPORTED = ("runtime", "compiler")
# Below their root, what set_env.sh of CANN and NNAL adds to LD_LIBRARY_PATH and PYTHONPATH.
_BELOW = defer(
    r"(/.*(?:ascend|cann).*?)/(?:lib64(?:/plugin/(?:opskernel|nnengine))?|devlib"
    r"|tools/aml/lib64(?:/plugin)?|opp/built-in/.*|python/site-packages|atb/cxx_abi_[01]/lib)/*",
    re.IGNORECASE,
)
_OF_DRIVER = defer(r"/driver(?:/|$)")


def shell(machine: Machine, trees: Sequence[CannTree], nnals: Sequence[CannTree]) -> CannShell:
    """The variables of set_env.sh. Paths into a known install begin with its ``root``."""
    env = machine.env
    libraries = library_path(machine)
    modules = [word for word in env.get("PYTHONPATH", "").split(":") if word]
    return CannShell(
        home=_spell(machine, trees, env.get("ASCEND_HOME_PATH")),
        toolkit_home=_spell(machine, trees, env.get("ASCEND_TOOLKIT_HOME")),
        opp=_spell(machine, trees, env.get("ASCEND_OPP_PATH")),
        aicpu=_spell(machine, trees, env.get("ASCEND_AICPU_PATH")),
        atb=_spell(machine, nnals, env.get("ATB_HOME_PATH")),
        library_roots=_roots(machine, trees, libraries),
        python_roots=_roots(machine, trees, modules),
        devlib=any("devlib" in library.split("/") for library in libraries),
        stale=tuple(dict.fromkeys(_stale(machine, (*libraries, *modules)))),
    )


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
