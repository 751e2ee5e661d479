"""Which files the dynamic loader would load for a shared object, by ld.so(8), without loading."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ascend_doctor.collect.loader import library_path, loader_folders
from ascend_doctor.machine.elf import Elf, NotElf
from ascend_doctor.machine.live import Machine, NotRecorded, exists

_INTERFACE = re.compile(r"(GLIBC|GLIBCXX|CXXABI)_([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})")


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the loader reads first. ``error`` says why the file is not a library, else "".

    ``versions``: the newest of each C and C++ library interface that it needs.
    """

    machine: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    error: str = ""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded file, the rule that found it, and its first requester."""

    path: str
    by: str
    header: Header
    parent: "Loaded | None" = None


class Linker:
    """The libraries of one process. Later linked objects see those of earlier ones.

    ``preloaded``: (folder, rule) of loaded ones; ``read`` reads a header;
    ``missing``: why no file fits, "" without one.
    """

    def __init__(self, machine: Machine, preloaded: Iterable[tuple[str, str]] = ()) -> None:
        self._machine = machine
        self.read: Callable[[str], dict[str, Any]] = read_header
        self._library_path = library_path(machine)
        self._configured = loader_folders(machine)
        self._preloaded = tuple(preloaded)
        self._processor = ""
        self.loaded: dict[str, Loaded] = {}
        self.missing: dict[str, str] = {}
        self.needed_by: dict[str, list[str]] = {}

    @property
    def files(self) -> dict[str, Loaded]:
        return {loaded.path: loaded for loaded in self.loaded.values()}

    def link(self, path: str, by: str) -> Header:
        """Load a file and, breadth first as the loader does, all that it needs."""
        header = self.header(path)
        self._processor = self._processor or header.machine
        first = Loaded(path=path, by=by, header=header)
        self._keep(os.path.basename(path), first)
        waiting = [first]
        for loaded in waiting:
            for name in loaded.header.needed:
                self.needed_by.setdefault(name, []).append(loaded.path)
                target = None if name in self.loaded else self._find(name, loaded)
                if target is not None:
                    self._keep(name, target)
                    waiting.append(target)
        return header

    def lacking(self, path: str) -> frozenset[str]:
        """Missing names that a loaded file needs, itself or through others."""
        waiting, seen = [path], set[str]()
        files = self.files
        for library in waiting:
            fresh = set(files[library].header.needed) - seen
            seen |= fresh
            waiting.extend(self.loaded[name].path for name in fresh if name in self.loaded)
        return frozenset(seen & self.missing.keys())

    def look_up(self, name: str) -> Loaded | None:
        """The result of dlopen for the program of the first linked file."""
        first = next(iter(self.loaded.values()))
        return self.loaded.get(name) or self._find(name, first)

    def header(self, path: str) -> Header:
        """The header of a file. A file missing in a recording counts as a library without needs."""
        try:
            value = self._machine.value(f"elf:{path}", lambda: self.read(path))
        except NotRecorded:
            return Header()
        return msgspec.convert(value, Header)

    def _keep(self, name: str, loaded: Loaded) -> None:
        """The loader knows a library by the requested name and by the name inside."""
        for known in (name, loaded.header.soname):
            if known:
                self.loaded.setdefault(known, loaded)
                self.missing.pop(known, None)

    def _find(self, name: str, asking: Loaded) -> Loaded | None:
        if name in self.missing:
            return None
        refused = ""
        for path, rule in self._places(name, asking):
            if not exists(self._machine, path):
                continue
            header = self.header(path)
            if not header.error and header.machine in ("", self._processor):
                return Loaded(path=path, by=rule, header=header, parent=asking)
            refused = refused or f"{path}: {header.error or f'for {header.machine}'}"
        self.missing[name] = refused
        return None

    def _places(self, name: str, asking: Loaded) -> Iterator[tuple[str, str]]:
        """Paths in the loader's order: RPATH is inherited, and void beside a RUNPATH."""
        if "/" in name:
            yield name, "path"
            return
        yield from ((f"{folder}/{name}", rule) for folder, rule in self._preloaded)
        loaded: Loaded | None = asking
        # Up the chain of requesters, as in ld.so(8): a requester's RUNPATH disables all RPATHs.
        while loaded is not None and not asking.header.runpath:
            if not loaded.header.runpath:
                yield from _join(loaded, loaded.header.rpath, name, "RPATH")
            loaded = loaded.parent
        yield from ((f"{folder}/{name}", "LD_LIBRARY_PATH") for folder in self._library_path)
        yield from _join(asking, asking.header.runpath, name, "RUNPATH")
        yield from ((f"{folder}/{name}", "loader configuration") for folder in self._configured)


def newest(versions: Iterable[str]) -> tuple[str, ...]:
    """The newest version of each interface of the C and the C++ library."""
    newest_of: dict[str, tuple[tuple[int, ...], str]] = {}
    for version in versions:
        if match := _INTERFACE.fullmatch(version):
            number = tuple(int(part) for part in match[2].split("."))
            newest_of[match[1]] = max(newest_of.get(match[1], ((), "")), (number, version))
    return tuple(name for _, name in sorted(newest_of.values(), key=lambda pair: pair[1]))


def _join(
    loaded: Loaded, folders: Iterable[str], name: str, rule: str
) -> Iterator[tuple[str, str]]:
    origin = os.path.dirname(loaded.path)
    for folder in folders:
        whole = folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        yield os.path.normpath(f"{whole}/{name}"), rule


def read_header(path: str) -> dict[str, Any]:
    """The fields of a header, as plain values."""
    try:
        with Elf(path) as elf:
            header = Header(
                machine=elf.machine,
                soname=elf.soname,
                needed=tuple(elf.needed),
                rpath=tuple(elf.rpath),
                runpath=tuple(elf.runpath),
                versions=newest(elf.versions),
            )
    except (OSError, NotElf) as error:
        header = Header(error=getattr(error, "strerror", None) or str(error))
    plain: dict[str, Any] = msgspec.to_builtins(header)
    return plain
