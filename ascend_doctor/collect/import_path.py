"""Which copies of the packages that decide a training stack would be imported."""

import re
import sys
from collections.abc import Iterator

import msgspec

from ascend_doctor.collect.checkout import checkout
from ascend_doctor.collect.package_copies import bare_copies, copies, is_installed
from ascend_doctor.facts import GitState, ImportName, ImportPath, PackageCopy, Python
from ascend_doctor.machine.live import Machine, exists, read_or_none
from ascend_doctor.patterns import patterns_of

NAMES = (
    *("megatron", "mindspeed", "megatron_adaptor", "mcore_bridge"),
    *("transformer_engine", "apex", "triton", "torch", "torch_npu"),
)
_USUAL = ("version.py", "_version.py", "__init__.py")
_VERSION, _PRE_RELEASE = patterns_of(__file__)
_NUMBERS = ("MAJOR", "MINOR", "PATCH")
_OF_PYTHON = sys.stdlib_module_names - {*sys.builtin_module_names}


def parse_version(source: str) -> str | None:
    """The version that a Python source gives as a constant, without running it.

    ``__version__ = "1.2"``, setup.py's ``version="1.2"``, numbers in megatron/core/package_info.py.
    """
    match = _VERSION.search(source)
    if match is not None:
        return match.group(1)
    numbers = [
        re.search(rf"^{name}[ \t]*=[ \t]*(\d{{1,9}})\b", source, re.MULTILINE) for name in _NUMBERS
    ]
    if not all(numbers):
        return None
    suffix = _PRE_RELEASE.search(source)
    return ".".join(number.group(1) for number in numbers if number) + (
        suffix.group(1) if suffix else ""
    )


def import_path(machine: Machine, python: Python) -> ImportPath:
    copies_of = copies(machine, python.sys_path, NAMES)
    states: dict[str, GitState | None] = {}
    value = machine.env.get("PYTHONPATH", "")
    entries = tuple(value.split(":")) if value else ()
    return ImportPath(
        source=python.executable,
        pythonpath=entries,
        absent=tuple(
            entry for entry in dict.fromkeys(entries) if entry and not exists(machine, entry)
        ),
        names=tuple(
            ImportName(
                name=name,
                copies=tuple(
                    _with_metadata(machine, name, copy, states) for copy in copies_of[name]
                ),
            )
            for name in NAMES
            if copies_of[name]
        ),
        hidden=tuple(_list_hidden(machine, python)),
    )


def _list_hidden(machine: Machine, python: Python) -> Iterator[ImportName]:
    """Packages and Python's modules that a module outside of the installed ones stands in for."""
    names = [name for name in python.importable if "." not in name and name not in NAMES]
    # The standard library begins with its archive.
    archives = (at for at, entry in enumerate(python.sys_path) if entry.endswith(".zip"))
    standard = bare_copies(machine, python.sys_path[: next(archives, 0)], [*_OF_PYTHON])
    for name, copies_found in (standard | bare_copies(machine, python.sys_path, names)).items():
        first = copies_found[0] if copies_found else None
        if not first or first.kind == "namespace" or "/opp/built-in/" in first.path:
            continue
        if not is_installed(first.path):
            yield ImportName(name=name, copies=copies_found)


def _with_metadata(
    machine: Machine, name: str, copy: PackageCopy, states: dict[str, GitState | None]
) -> PackageCopy:
    if copy.path not in states:
        states[copy.path] = _state(machine, copy.path, states)
    return msgspec.structs.replace(
        copy, versions=_versions(machine, name, copy), git=states[copy.path]
    )


def _state(machine: Machine, path: str, known: dict[str, GitState | None]) -> GitState | None:
    """Several names may share a checkout; this asks git once."""
    for state in known.values():
        if state is not None and f"{path}/".startswith(f"{state.root}/"):
            return state
    return checkout(machine, path)


def _versions(machine: Machine, name: str, copy: PackageCopy) -> dict[str, str]:
    """Megatron-LM has its version in a sub-package, MindSpeed in setup.py alone."""
    part = name
    if copy.kind == "module":
        paths = [copy.path]
    elif name == "megatron":
        part, paths = "core", [f"{copy.path}/core/package_info.py"]
    else:
        paths = [f"{copy.path}/{file}" for file in _USUAL]
        if not is_installed(copy.path):
            paths.append(f"{copy.path.rpartition('/')[0]}/setup.py")
    versions = (parse_version(read_or_none(machine, path) or "") for path in paths)
    version = next(filter(None, versions), None)
    return {part: version} if version else {}
