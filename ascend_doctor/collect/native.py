"""What the installed torch_npu will ask of the loader, told from ELF files without loading them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ascend_doctor.collect.elf import Elf, NotElf
from ascend_doctor.collect.loader import find, places
from ascend_doctor.facts import Library, MissingSymbol, Native, Needed, Python
from ascend_doctor.system import Machine, exists, is_directory

# The interpreter itself exports these.
_OF_PYTHON = re.compile(rb"_?Py[A-Z_]")
# Mangled names whose outermost namespace is one of torch's (Itanium C++ ABI).
_OF_TORCH = re.compile(rb"_Z(?:T[ISTV])?N?[KR]*(?:2at|3c10|5torch|6caffe2|8pybind11)")
_FILES_LIMIT = 500


def native(machine: Machine, python: Python) -> Native:
    """ELF facts of the torch_npu that this interpreter would import; "" where there is none."""
    folders = (f"{entry}/torch_npu" for entry in python.sys_path)
    folder = next((one for one in folders if is_directory(machine, one)), None)
    if folder is None:
        return Native(torch_npu="")
    objects = [
        f"{folder}/{name}" for name in machine.value(f"objects:{folder}", lambda: _objects(folder))
    ]
    closure = _Closure(machine, search=places(machine), torch=f"{_parent(folder)}/torch/lib")
    for path in objects:
        closure.add(path)
    closure.follow()
    loaded = closure.at_import()
    absent = [name for name, place in closure.found.items() if place is None]
    symbols = machine.value(
        f"symbols:{folder}", lambda: _missing(objects, [*closure.headers], absent)
    )
    return Native(
        source=folder,
        torch_npu=folder,
        machine=next((one["machine"] for one in closure.headers.values()), None),
        libraries=len(objects),
        needed=closure.needed(loaded),
        missing_symbols=tuple(
            MissingSymbol(name=name, wanted_by=path, owner=owner, at_import=path in loaded)
            for name, path, owner in symbols["missing"]
        ),
        symbols_checked=symbols["checked"],
        hal=_library(machine, "libascend_hal.so", closure.search),
        atb=_library(machine, "libatb.so", closure.search),
    )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _objects(folder: str) -> list[str]:
    """Relative paths of the shared objects below a folder."""
    found = [
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, names in os.walk(folder)
        for name in names
        if name.endswith(".so") or ".so." in name
    ]
    return sorted(found)[:_FILES_LIMIT]


def _library(machine: Machine, name: str, search: Iterable[tuple[str, str]]) -> Library:
    path, by = find(machine, name, tuple(search)) or (None, "")
    return Library(name=name, path=path, by=by)


@dataclass
class _Closure:
    """All objects that would be loaded with torch_npu. ``found`` maps a name to (path, rule)."""

    machine: Machine
    search: tuple[tuple[str, str], ...]
    torch: str
    headers: dict[str, dict[str, Any]] = field(default_factory=dict)
    found: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    wanted_by: dict[str, list[str]] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)

    def add(self, path: str) -> None:
        """An object of torch_npu itself."""
        if self._read(path):
            self.own[path.rpartition("/")[2]] = path

    def _read(self, path: str) -> bool:
        if path not in self.headers:
            try:
                self.headers[path] = self.machine.value(f"elf:{path}", lambda: _headers(path))
            except (OSError, NotElf):
                return False
        return True

    def follow(self) -> None:
        """Look up what is needed, and what that needs, until nothing new comes.

        Breadth first from the extension module on, so that ``found`` has the loader's order.
        """
        waiting = sorted(self.headers, key=lambda path: not _is_extension(path))
        for path in waiting:
            for name in self.headers[path]["needed"]:
                self.wanted_by.setdefault(name, []).append(path)
                if name in self.found:
                    continue
                place = self.found[name] = self._place(name, path)
                if place and place[0] not in self.headers and self._read(place[0]):
                    waiting.append(place[0])

    def _place(self, name: str, wanted_by: str) -> tuple[str, str] | None:
        """The file that answers, in the order of ld.so(8); what is loaded already comes first."""
        if name in self.own:
            return self.own[name], "torch_npu"
        if exists(self.machine, f"{self.torch}/{name}"):
            return f"{self.torch}/{name}", "torch"
        head = self.headers[wanted_by]
        origin = _parent(wanted_by)
        old = [] if head["runpath"] else [(_expand(one, origin), "RPATH") for one in head["rpath"]]
        new = [(_expand(one, origin), "RUNPATH") for one in head["runpath"]]
        paths = [one for one in self.search if one[1] == "LD_LIBRARY_PATH"]
        others = [one for one in self.search if one[1] != "LD_LIBRARY_PATH"]
        return find(self.machine, name, (*old, *paths, *new, *others))

    def at_import(self) -> frozenset[str]:
        """The objects that ``import torch_npu`` loads: its extension module and what that needs.

        Others (ATB operators, torchair) are loaded when they are used.
        """
        waiting = [path for path in self.own.values() if _is_extension(path)]
        for path in waiting:
            places = (self.found.get(name) for name in self.headers[path]["needed"])
            paths = (place[0] for place in places if place and place[0] in self.headers)
            waiting.extend(one for one in paths if one not in waiting)
        return frozenset(waiting)

    def needed(self, loaded: frozenset[str]) -> tuple[Needed, ...]:
        rows = []
        for name, place in self.found.items():
            path, by = place or (None, "")
            wanted_by = tuple(self.wanted_by[name])
            rows.append(
                Needed(
                    name=name,
                    path=path,
                    by=by,
                    wanted_by=wanted_by,
                    at_import=not loaded.isdisjoint(wanted_by),
                )
            )
        return tuple(rows)


def _is_extension(path: str) -> bool:
    """Whether this is ``torch_npu._C``."""
    return path.rpartition("/")[2].startswith("_C.")


def _headers(path: str) -> dict[str, Any]:
    with Elf(path) as elf:
        return elf.headers()


def _expand(path: str, origin: str) -> str:
    return path.replace("${ORIGIN}", origin).replace("$ORIGIN", origin).rstrip("/")


def _missing(
    objects: Iterable[str], loaded: Iterable[str], absent: Iterable[str]
) -> Mapping[str, Any]:
    """Symbols of ``objects`` that no loaded object exports, with their owner.

    A symbol that is not torch's is only told of an object whose libraries are all there: what a
    missing library would have exported cannot be known.
    """
    elves: dict[str, Elf] = {}
    missing: list[tuple[str, str, str]] = []
    checked = 0
    gone = set(absent)
    try:
        for path in loaded:
            with contextlib.suppress(OSError, NotElf):
                elves[path] = Elf(path)
        wanted: dict[bytes, str] = {}
        for path in objects:
            for name in elves[path].undefined() if path in elves else ():
                if not _OF_PYTHON.match(name):
                    wanted.setdefault(name, path)
        for name, path in wanted.items():
            torch = bool(_OF_TORCH.match(name))
            if not torch and gone & _all_needed(path, elves):
                continue
            checked += 1
            if not any(elf.defines(name) for elf in elves.values()):
                missing.append(
                    (name.decode("utf-8", "replace"), path, "torch" if torch else "cann")
                )
    finally:
        for elf in elves.values():
            elf.close()
    return {"checked": checked, "missing": sorted(missing)}


def _all_needed(path: str, elves: Mapping[str, Elf]) -> set[str]:
    """Names that an object needs, itself or through other objects of the same folder tree."""
    by_name = {one.rpartition("/")[2]: one for one in elves}
    waiting, seen = [path], set[str]()
    for one in waiting:
        for name in elves[one].headers()["needed"]:
            if name not in seen:
                seen.add(name)
                if name in by_name:
                    waiting.append(by_name[name])
    return seen
