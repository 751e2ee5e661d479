"""Headers and symbols of shared objects, read without loading them.

Everything comes from the dynamic segment, as the loader reads it (System V ABI, and the GNU hash
table), because level 0 has no time for the tables of libtorch_cpu.so.
"""

from __future__ import annotations

import functools
import mmap
import struct
from collections.abc import Iterator
from typing import Any

_SEGMENT = struct.Struct("<IIQQQQQQ")
_TAG = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 6, 14, 15, 29
_DT_GNU_HASH, _DT_VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
_UNDEFINED, _GLOBAL, _UNVERSIONED, _HIDDEN = 0, 1, 1, 0x7FFF
_MACHINES = {62: "x86_64", 183: "aarch64"}
_LONGEST_NAME = 1 << 16


class NotElf(Exception):  # noqa: N818 - a file of another kind is an answer
    """The file is no readable 64-bit little-endian ELF object; the message says why."""


class Elf:
    """One shared object, as a context manager. Raises NotElf, OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:  # an empty file
                raise NotElf(f"{path}: {error}") from error
        try:
            self._read()
        except (struct.error, IndexError, KeyError, OverflowError) as error:
            self._data.close()
            raise NotElf(f"{path}: damaged: {error}") from error
        except NotElf:
            self._data.close()
            raise

    def __enter__(self) -> Elf:  # noqa: PYI034 - Self is newer than Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._data.close()

    def _read(self) -> None:
        data = self._data
        if data[:6] != b"\x7fELF\x02\x01":
            raise NotElf(f"{self.path}: not a 64-bit little-endian ELF object")
        machine, at, size, count = struct.unpack_from("<18xH12xQ14xHH", data)
        self.machine = _MACHINES.get(machine, str(machine))
        segments = [_SEGMENT.unpack_from(data, at + size * place) for place in range(count)]
        self._loads = [(one[3], one[2], one[5]) for one in segments if one[0] == _PT_LOAD]
        self._tags: dict[int, list[int]] = {}
        for one in segments:
            if one[0] == _PT_DYNAMIC:
                for place in range(one[5] // _TAG.size):
                    tag, value = _TAG.unpack_from(data, one[2] + place * _TAG.size)
                    if tag == 0:
                        break
                    self._tags.setdefault(tag, []).append(value)
        self._strings = self._place(_DT_STRTAB)
        self._symbols = self._place(_DT_SYMTAB)
        self._versions = self._place(_DT_VERSYM)
        self._hash = self._place(_DT_GNU_HASH)
        if self._hash is not None:
            head = struct.unpack_from("<4I", data, self._hash)
            self._buckets, self._first, self._words, self._shift = head

    def _place(self, tag: int) -> int | None:
        """The file offset of the address that a tag holds."""
        address = self._tags.get(tag, [None])[0]
        for start, offset, size in self._loads:
            if address is not None and start <= address < start + size:
                return address - start + offset
        return None

    def _text(self, offset: int) -> bytes:
        if self._strings is None:
            raise NotElf(f"{self.path}: no string table")
        start = self._strings + offset
        end = self._data.find(b"\0", start, start + _LONGEST_NAME)
        return self._data[start : max(end, start)]

    def headers(self) -> dict[str, Any]:
        """Needed libraries, search paths, soname and machine, as JSON holds them."""

        def texts(tag: int) -> list[str]:
            return [self._text(one).decode("utf-8", "replace") for one in self._tags.get(tag, ())]

        return {
            "machine": self.machine,
            "soname": next(iter(texts(_DT_SONAME)), ""),
            "needed": texts(_DT_NEEDED),
            "rpath": [one for text in texts(_DT_RPATH) for one in text.split(":") if one],
            "runpath": [one for text in texts(_DT_RUNPATH) for one in text.split(":") if one],
        }

    def undefined(self) -> Iterator[bytes]:
        """Names that must be found elsewhere: global, not weak, and without a version.

        Versioned ones belong to the C library and its companions. Undefined symbols stand before
        the hashed ones, so an object without a GNU hash table has none to tell.
        """
        if self._hash is None or self._symbols is None:
            return
        for index in range(1, self._first):
            at = self._symbols + index * _SYMBOL.size
            name, info, _, section, _, _ = _SYMBOL.unpack_from(self._data, at)
            if section != _UNDEFINED or info >> 4 != _GLOBAL or not name:
                continue
            if self._versions is not None:
                (version,) = struct.unpack_from("<H", self._data, self._versions + 2 * index)
                if version & _HIDDEN > _UNVERSIONED:
                    continue
            yield self._text(name)

    def defines(self, name: bytes) -> bool:
        """Whether the object exports the symbol; False where it has no GNU hash table."""
        if self._hash is None or self._symbols is None or not self._buckets or not self._words:
            return False
        value = gnu_hash(name)
        bloom = self._hash + 16
        (word,) = struct.unpack_from("<Q", self._data, bloom + 8 * (value // 64 % self._words))
        mask = 1 << value % 64 | 1 << (value >> self._shift) % 64
        if word & mask != mask:
            return False
        buckets = bloom + 8 * self._words
        (index,) = struct.unpack_from("<I", self._data, buckets + 4 * (value % self._buckets))
        chains = buckets + 4 * self._buckets
        while index >= self._first:
            (chain,) = struct.unpack_from("<I", self._data, chains + 4 * (index - self._first))
            if chain | 1 == value | 1:
                at = self._symbols + index * _SYMBOL.size
                if self._text(struct.unpack_from("<I", self._data, at)[0]) == name:
                    return True
            if chain & 1:
                return False
            index += 1
        return False


@functools.cache
def gnu_hash(name: bytes) -> int:
    """The hash of the GNU symbol table (Bernstein's, 32 bits)."""
    value = 5381
    for byte in name:
        value = value * 33 + byte & 0xFFFFFFFF
    return value
