"""What the installed torch_npu will ask of the loader, told from ELF files without loading them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ascend_doctor.collect.host import newest_glibcxx
from ascend_doctor.collect.linking import Linker, newest, read_header
from ascend_doctor.collect.package_copies import bare_copies
from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Library, MissingSymbol, Native, Needed, PackageCopy, Python
from ascend_doctor.machine.elf import Elf, NotElf, symbol
from ascend_doctor.machine.live import Machine, matches
from ascend_doctor.matrix.loading import CacheEntry, KeptByPath
from ascend_doctor.patterns import patterns_of

_OF_TORCH, _OF_CANN, _OF_NNAL, _OF_PYTHON, _TORCH_LIBRARY = patterns_of(__file__)
_FILES_LIMIT = 500


def native(machine: Machine, python: Python) -> Native:
    """torch_npu's libraries and symbols. Raises Unknown if it has no readable module for Python."""
    copies_of = bare_copies(machine, python.sys_path, ("torch", "torch_npu"))
    torch, package = (next(iter(copies_of[name]), None) for name in ("torch", "torch_npu"))
    packages = ((torch, "torch"), (package, "torch_npu"))
    cache = KeptByPath("native", python.executable)
    linker = Linker(machine, [(f"{copy.path}/lib", rule) for copy, rule in packages if copy])
    linker.read = lambda path: cache.ask(path, read_header)
    linker.link(_real(machine, python.executable), "the interpreter")
    if package is None:
        return Native(torch_npu="", hal=_library(linker, "libascend_hal.so"))
    folder = package.path
    module = _module(machine, python, folder)
    if module is None:
        there = ", ".join(os.path.basename(path) for path in matches(machine, folder, "_C.*so"))
        name = f"_C for Python {python.version} (there: {there or 'none'})"
        return Native(
            source=folder,
            torch_npu=folder,
            needed=(Needed(name=name, wanted_by=(folder,), at_import=True),),
        )
    header = linker.link(module, "torch_npu")
    if not header.needed:
        raise Unknown(f"{module}: {header.error or 'what it needs could not be told'}")
    # The import loads what is linked so far; other objects load later, if at all.
    early = frozenset(linker.files)
    for path in _objects(machine, cache, folder):
        if path not in linker.files:
            linker.link(path, "torch_npu")
    cache.save()
    symbols = _symbols(machine, linker, folder, module)
    stdcxx = linker.look_up("libstdc++.so.6")
    return Native(
        source=folder,
        torch_npu=folder,
        machine=header.machine or None,
        needed=tuple(_needs(linker, folder, early)),
        missing_symbols=tuple(
            MissingSymbol(name=name, wanted_by=path, owner=owner(name), at_import=path in early)
            for name, path, _ in symbols["missing"]
        ),
        symbols_checked=symbols["checked"],
        hal=_library(linker, "libascend_hal.so"),
        atb=_library(linker, "libatb.so"),
        versions=_versions(linker, packages),
        libstdcxx=stdcxx.path if stdcxx else None,
        glibcxx=newest_glibcxx(machine, stdcxx.path) if stdcxx else None,
    )


def _versions(
    linker: Linker, packages: tuple[tuple[PackageCopy | None, str], ...]
) -> tuple[str, ...]:
    folders = tuple(f"{copy.path}/" for copy, _ in packages if copy)
    return newest(
        version
        for path, file in linker.files.items()
        if path.startswith(folders)
        for version in file.header.versions
    )


def _needs(linker: Linker, folder: str, early: frozenset[str]) -> Iterator[Needed]:
    for name, asking in linker.needed_by.items():
        own = [path for path in asking if path.startswith(f"{folder}/")]
        if own or name in linker.missing:
            loaded = linker.loaded.get(name)
            wanted_by = tuple(dict.fromkeys(own or asking))
            yield Needed(
                name=name,
                path=loaded.path if loaded else None,
                by=loaded.by if loaded else linker.missing.get(name, ""),
                wanted_by=wanted_by,
                at_import=not early.isdisjoint(wanted_by),
            )


def _symbols(machine: Machine, linker: Linker, folder: str, module: str) -> dict[str, Any]:
    """``checked`` and ``missing`` (name, requesting file, owner), recorded as one answer."""
    # An object may use the libraries of objects loaded with it.
    lacking = {
        path: linker.lacking(path) | linker.lacking(module)
        for path in linker.files
        if path.startswith(f"{folder}/")
    }
    value: dict[str, Any] = machine.value(
        f"symbols:{folder}", lambda: _compare_once(lacking, linker.files)
    )
    return value


def _compare_once(
    lacking: Mapping[str, frozenset[str]], libraries: Iterable[str]
) -> dict[str, Any]:
    """``compare`` with a cache: it is half of level 0, and files seldom change."""
    files = sorted(libraries)
    absent = sorted((path, sorted(symbols)) for path, symbols in lacking.items())
    return CacheEntry.recall("symbols", files, lambda: compare(lacking, files), absent)


def compare(lacking: Mapping[str, frozenset[str]], libraries: Iterable[str]) -> dict[str, Any]:
    """Look up every open name of the objects. ``lacking``: missing libraries, by object.

    Names of a missing library prove nothing. Ignores versions of symbols.
    """
    required: dict[bytes, str] = {}
    for path in lacking:
        for raw in _read_undefined(path):
            required.setdefault(raw, path)
    left = [symbol(raw) for raw in required]
    for path in sorted(libraries, key=_size, reverse=True):  # large ones have most of the names
        left = _without(path, left)
    missing = []
    for unresolved in left:
        name, path = unresolved.name.decode("utf-8", "replace"), required[unresolved.name]
        if _is_answer(name, lacking[path]):
            missing.append([name, path, owner(name)])
    return {"checked": len(required) - len(left) + len(missing), "missing": sorted(missing)}


def owner(name: str) -> str:
    """The owner of a symbol, by its name: torch, nnal, cann, or "" for none."""
    patterns = {"torch": _OF_TORCH, "nnal": _OF_NNAL, "cann": _OF_CANN}
    return next((owner for owner, pattern in patterns.items() if pattern.match(name)), "")


def _is_answer(name: str, lacking: Iterable[str]) -> bool:
    of_torch = {bool(_TORCH_LIBRARY.match(library)) for library in lacking}
    kind = owner(name)
    if kind:
        return (kind == "torch") not in of_torch
    return not of_torch and not _OF_PYTHON.match(name)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _read_undefined(path: str) -> list[bytes]:
    try:
        with Elf(path) as elf:
            return list(elf.undefined())
    except (OSError, NotElf):
        return []


def _without(path: str, symbols: list[Any]) -> list[Any]:
    try:
        with Elf(path) as elf:
            return elf.without(symbols)
    except (OSError, NotElf):
        return symbols


def _module(machine: Machine, python: Python, package: str) -> str | None:
    """``_C`` of a package for this Python: with its tag, or without any."""
    tag = "".join(python.version.split(".")[:2])
    paths = matches(machine, package, "_C.*so")
    tagged = [path for path in paths if f"cpython-{tag}-" in path]
    plain = [path for path in paths if "cpython-" not in os.path.basename(path)]
    return next(iter((*tagged, *plain)), None)


def _objects(machine: Machine, cache: KeptByPath, folder: str) -> tuple[str, ...]:
    names = machine.value(f"objects:{folder}", lambda: _walk(cache, folder))
    return tuple(f"{folder}/{name}" for name in names)


def _walk(cache: KeptByPath, folder: str) -> list[str]:
    paths: list[str] = []
    left = [""]
    for inside in left:
        folders, names = cache.ask(f"{folder}/{inside}", _list)
        left += [f"{inside}{name}/" for name in folders]
        paths += [f"{inside}{name}" for name in names]
    return sorted(paths)[:_FILES_LIMIT]


def _list(folder: str) -> tuple[list[str], list[str]]:
    """Names of folders and libraries. The C++ headers are most folders, and have no library."""
    _, folders, names = next(os.walk(folder), ("", [], []))
    inside = [name for name in folders if name not in {"include", "__pycache__"}]
    return (
        [name for name in inside if not os.path.islink(f"{folder}/{name}")],
        [name for name in names if name.endswith(".so") or ".so." in name],
    )


def _library(linker: Linker, name: str) -> Library:
    loaded = linker.look_up(name)
    return Library(
        name=name,
        path=loaded.path if loaded else None,
        by=loaded.by if loaded else linker.missing.get(name, ""),
    )


def _real(machine: Machine, path: str) -> str:
    try:
        return machine.status(path).target or path
    except OSError:
        return path
