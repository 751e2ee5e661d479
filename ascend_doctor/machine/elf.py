"""What the loader reads of a shared library: its dynamic section and its symbols, by elf(5).

Both processors that CANN exists for are 64 bit, little endian. A symbol is looked up in the hash
table of the library, as the loader does. elftools takes 25 times as long.
"""

import mmap
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MACHINES = {62: "x86_64", 183: "aarch64"}  # EM_X86_64, EM_AARCH64
_LOAD, _DYNAMIC = 1, 2  # program headers
_STATIC, _DYNSYM = 2, 11  # section headers
_NEEDED, _HASH, _STRTAB, _SYMTAB, _SONAME, _RPATH, _RUNPATH = 1, 4, 5, 6, 14, 15, 29
_GNU_HASH = 0x6FFFFEF5
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
_LOCAL, _GLOBAL = 0, 1
_U16, _U32, _U64 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
_SEGMENT = struct.Struct("<IIQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_TAG = struct.Struct("<qQ")
_GNU_HEAD = struct.Struct("<IIII")
_VERSIONS = struct.Struct("<HHIII")  # Elf64_Verneed
_VERSION = struct.Struct("<IHHII")  # Elf64_Vernaux
# Bounds for damaged or malicious files: mangled names of torch_npu are far shorter.
_NAME_LIMIT = 8192
_MOST_VERSIONS = 4096
_LONGEST_CHAIN = 65536


class NotElf(Exception):  # noqa: N818 - what the file is
    """The file is not a shared object of a 64-bit little-endian machine, or is damaged."""


class Symbol(NamedTuple):
    """A name with its hash of the GNU table."""

    name: bytes
    hash: int


class Elf:
    """An open library. Raises OSError and NotElf."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as empty:
                raise NotElf(f"{path}: {empty}") from empty
        # Magic number, class (64 bit) and byte order (little endian) of e_ident, elf(5).
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise NotElf(f"{path}: no ELF file of 64 bit, little endian")
        self._loads, dynamic = self._segments()
        self._tags = self._dynamic(dynamic)
        # Without tables the end of the file replaces them: nothing to read.
        self._table, self._names = (
            len(self._data) if (offset := self._offset(tag)) is None else offset
            for tag in (_SYMTAB, _STRTAB)
        )
        self._kind = _DYNSYM if self._tags else _STATIC
        if self._kind == _STATIC and (section := self._section(_STATIC)):
            self._table, _, self._names = section
        machine = self._number(_U16, 18)
        self.machine = MACHINES.get(machine, str(machine))

    def __enter__(self) -> "Elf":  # noqa: PYI034 - typing has Self from 3.11 on
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()

    @property
    def needed(self) -> list[str]:
        return self._texts(_NEEDED)

    @property
    def soname(self) -> str:
        return next(iter(self._texts(_SONAME)), "")

    @property
    def rpath(self) -> list[str]:
        return [word for text in self._texts(_RPATH) for word in text.split(":") if word]

    @property
    def runpath(self) -> list[str]:
        return [word for text in self._texts(_RUNPATH) for word in text.split(":") if word]

    @property
    def versions(self) -> list[str]:
        """Versions that it needs of other libraries: GLIBC_2.17, GLIBCXX_3.4.29 ..."""
        offset = self._offset(_VERNEED)
        count = next((value for tag, value in self._tags if tag == _VERNEEDNUM), 0)
        versions: list[str] = []
        for _ in range(count if offset is not None else 0):
            _, names, _, first, following = self._numbers(_VERSIONS, offset or 0)
            at = (offset or 0) + first
            if len(versions) + names > _MOST_VERSIONS:
                raise NotElf("damaged: its list of versions has no end")
            for _ in range(names):
                _, _, _, name, step = self._numbers(_VERSION, at)
                versions.append(self._text(self._names + name).decode("utf-8", "replace"))
                at += step
            if not following:  # the last one; a damaged count goes on for ever
                break
            offset = (offset or 0) + following
        return versions

    def undefined(self) -> Iterator[bytes]:
        """Names that another library must define; weak ones may stay open."""
        for name, info, section in self._symbols():
            if section == 0 and info >> 4 == _GLOBAL and name:
                yield self._text(self._names + name)

    def defined(self) -> Iterator[bytes]:
        for name, info, section in self._symbols():
            if section and info >> 4 != _LOCAL:
                yield self._text(self._names + name)

    def without(self, symbols: Iterable[Symbol]) -> list[Symbol]:
        table = self._offset(_GNU_HASH)
        if table is None:
            defined = set(self.defined())
            return [symbol for symbol in symbols if symbol.name not in defined]
        return self._without(table, list(symbols))

    def _without(self, table: int, symbols: list[Symbol]) -> list[Symbol]:
        """The GNU hash table: a Bloom filter that rejects nearly all, buckets and chains."""
        count, first, words, shift = self._numbers(_GNU_HEAD, table)
        buckets = table + _GNU_HEAD.size + 8 * words
        content = self._data[buckets - 8 * words : buckets]
        if not count or not words:
            return symbols
        if len(content) != 8 * words:
            raise NotElf("damaged: its hash table is cut off")
        bloom = memoryview(content).cast("Q")
        answered = set()
        for symbol in symbols:
            name, value = symbol
            word = bloom[(value >> 6) % words]
            # The name needs both bits; other names may set the pair, too.
            if word >> (value & 63) & word >> ((value >> shift) & 63) & 1:
                index = self._number(_U32, buckets + 4 * (value % count))
                chains = buckets + 4 * (count - first)
                if index >= first and self._in_chain(chains, index, symbol):
                    answered.add(name)
        return [symbol for symbol in symbols if symbol.name not in answered]

    def _in_chain(self, chains: int, index: int, symbol: Symbol) -> bool:
        for at in range(index, index + _LONGEST_CHAIN):
            value = self._number(_U32, chains + 4 * at)
            if value | 1 == symbol.hash | 1 and self._is(at, symbol.name):
                return True
            if value & 1:
                return False
        raise NotElf("damaged: a chain of its hash table has no end")

    def _is(self, index: int, name: bytes) -> bool:
        name_at, _, _, section, _, _ = self._numbers(_SYMBOL, self._table + index * _SYMBOL.size)
        start = self._names + name_at
        return bool(section) and self._data[start : start + len(name) + 1] == name + b"\0"

    def _symbols(self) -> Iterator[tuple[int, int, int]]:
        """(place of the name, binding and type, section) of all dynamic symbols."""
        end = min(self._table + self._symbol_count() * _SYMBOL.size, len(self._data))
        whole = max(end - self._table, 0) // _SYMBOL.size * _SYMBOL.size
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(
            self._data[self._table : self._table + whole]
        ):
            yield name, info, section

    def _symbol_count(self) -> int:
        """By the section header, which survives stripping, else by the old hash table."""
        if section := self._section(self._kind):
            return section[1] // _SYMBOL.size
        old = self._offset(_HASH)
        return self._number(_U32, old + 4) if old is not None else 0

    def _section(self, kind: int) -> tuple[int, int, int] | None:
        """Offset and size of a symbol table, and the offset of its names."""
        start, size, count = (
            # e_shoff, e_shentsize and e_shnum of Elf64_Ehdr.
            self._number(_U64, 40),
            self._number(_U16, 58),
            self._number(_U16, 60),
        )
        for number in range(start, start + size * count, size or 1):
            if self._number(_U32, number + 4) == kind:
                names = start + size * self._number(_U32, number + 40)
                offset, length = self._number(_U64, number + 24), self._number(_U64, number + 32)
                return offset, length, self._number(_U64, names + 24)
        return None

    def _segments(self) -> tuple[list[tuple[int, int, int]], tuple[int, int]]:
        """(address, size, offset) of loaded segments, and (offset, size) of the dynamic section."""
        start, size, count = (
            # e_phoff, e_phentsize and e_phnum of Elf64_Ehdr.
            self._number(_U64, 32),
            self._number(_U16, 54),
            self._number(_U16, 56),
        )
        loads, dynamic = [], (0, 0)
        for index in range(count):
            kind, _, offset, address, _, length = self._numbers(_SEGMENT, start + index * size)
            if kind == _LOAD:
                loads.append((address, length, offset))
            elif kind == _DYNAMIC:
                dynamic = (offset, length)
        return loads, dynamic

    def _dynamic(self, section: tuple[int, int]) -> list[tuple[int, int]]:
        offset, length = section
        tags = []
        for at in range(offset, min(offset + length, len(self._data)) - 15, 16):
            tag, value = self._numbers(_TAG, at)
            if tag == 0:
                break
            tags.append((tag, value))
        return tags

    def _offset(self, tag: int) -> int | None:
        """The file offset of a tag's table. Tags hold addresses in memory."""
        address = next((value for tag_of, value in self._tags if tag_of == tag), None)
        if address is None:
            return None
        for start, size, offset in self._loads:
            at = address - start + offset
            if start <= address < start + size and at < len(self._data):
                return at
        return None

    def _texts(self, tag: int) -> list[str]:
        return [
            self._text(self._names + value).decode("utf-8", "replace")
            for tag_of, value in self._tags
            if tag_of == tag
        ]

    def _text(self, start: int) -> bytes:
        if start > len(self._data):
            raise NotElf("damaged: a name stands behind its end")
        end = self._data.find(b"\0", start, start + _NAME_LIMIT)
        return self._data[start : end if end >= 0 else start + _NAME_LIMIT]

    def _number(self, form: struct.Struct, at: int) -> int:
        return self._numbers(form, at)[0]

    def _numbers(self, form: struct.Struct, at: int) -> tuple[int, ...]:
        try:
            return form.unpack_from(self._data, at)
        except (struct.error, OverflowError) as damaged:
            raise NotElf(f"damaged: {damaged}") from damaged


def symbol(name: bytes) -> Symbol:
    """The hash is Bernstein's: h * 33 + c, from 5381, in 32 bits."""
    value = 5381
    for byte in name:
        value = value * 33 + byte & 0xFFFFFFFF
    return Symbol(name, value)
