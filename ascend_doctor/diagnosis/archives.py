"""Archives of logs. What is in them is read where it lies; no file of theirs is made.

A packed tar and an archive in an archive are copied to a file without a name in a private folder:
both are read here and there.
"""

import functools
import io
import re
import struct
import tarfile
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ascend_doctor.diagnosis.packed import BLOCK, BROKEN, unpack
from ascend_doctor.errors import DoctorError
from ascend_doctor.machine import scratch

ENDING = re.compile(r"\.(?:zip|tar(?:\.(?:gz|xz|bz2|zst))?|tgz|txz|tbz2?|tzst)$", re.IGNORECASE)
DEPTH = 3
# An archive may unpack without end (a zip bomb).
MEMBERS = 20_000
BYTES = 8 << 30
# No header of an archive is longer; a tar may claim so.
_HEADER = 64 << 20
# The first header of a file, and the end of an archive without any (APPNOTE.TXT 4.3.7, 4.3.16).
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# Bit 0 of a member's flags (APPNOTE.TXT 4.4.4).
_ENCRYPTED = 1
# What zipfile and tarfile raise for damaged archives.
REFUSED = (
    *BROKEN,
    ValueError,
    RuntimeError,
    ArithmeticError,
    LookupError,
    struct.error,
    DoctorError,
)


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file of an archive. Opening raises what ``REFUSED`` names."""

    name: str
    opens: Callable[[], Any] | None = None
    refused: str = ""


@dataclass
class Archives:
    """Opens archives, together within the limits."""

    _members: int = 0
    _bytes: int = 0
    _folder: Path | None = field(default=None)

    def members(self, raw: Any, name: str, depth: int = 1) -> Iterator[Member]:
        """The files of an archive and of those in it, the names as paths below ``name``."""
        if depth > DEPTH:
            yield Member(name=name, refused=f"archives nested more than {DEPTH} deep")
            return
        # Open until no member is left to read.
        weakref.finalize(self, raw.close)
        try:
            plain = unpack(raw)
            seekable = plain if plain is raw and depth == 1 else self._copy(plain)
            zipped = seekable.read(len(_ZIP[0])) in _ZIP
            seekable.seek(0)
            guarded = _Guarded(seekable)
            for member in _of_zip(guarded) if zipped else _of_tar(guarded):
                self._members += 1
                if self._members > MEMBERS:
                    yield Member(name=name, refused=f"more than {MEMBERS:,} files in archives")
                    return
                yield from self._inside(member, f"{name}/{member.name}", depth)
        except REFUSED as error:
            yield Member(name=name, refused=f"not read to its end: {error}")

    def _inside(self, member: Member, name: str, depth: int) -> Iterator[Member]:
        opens = member.opens
        if opens is None:
            yield Member(name=name, refused=member.refused)
        elif ENDING.search(name):
            yield from self.members(self._limit(opens()), name, depth + 1)
        else:
            yield Member(name=name, opens=lambda: self._limit(opens()))

    def _limit(self, stream: Any) -> io.BufferedReader:
        return io.BufferedReader(_Limited(stream, self._spend), BLOCK)

    def _spend(self, count: int) -> None:
        self._bytes += count
        if self._bytes > BYTES:
            raise OSError(f"more than {BYTES >> 30} GiB in archives")

    def _copy(self, stream: Any) -> IO[bytes]:
        self._folder = self._folder or scratch.new_folder()
        copy = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed as ``raw`` is
        weakref.finalize(self, copy.close)
        try:
            while block := stream.read1(BLOCK):
                self._spend(len(block))
                copy.write(block)
            copy.seek(0)
        except BaseException:
            copy.close()  # and its place on the disk is free
            raise
        return copy


def _of_tar(raw: Any) -> Iterator[Member]:
    archive = tarfile.TarFile(fileobj=raw, encoding="utf-8", errors="replace")
    for info in archive:
        # Neither links nor devices: what they name is not in the archive.
        if info.isreg():
            yield Member(name=info.name, opens=functools.partial(archive.extractfile, info))


def _of_zip(raw: Any) -> Iterator[Member]:
    archive = zipfile.ZipFile(raw)
    for info in archive.infolist():
        if info.flag_bits & _ENCRYPTED:
            yield Member(name=info.filename, refused="encrypted")
        elif not info.filename.endswith("/"):
            yield Member(name=info.filename, opens=functools.partial(archive.open, info))


class _Guarded(io.RawIOBase):
    """A file whose headers cannot make anybody read all of it at once."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position: int = self._stream.seek(offset, whence)
        return position

    def tell(self) -> int:
        position: int = self._stream.tell()
        return position

    def read(self, size: int | None = -1) -> bytes:
        whole = size is None or size < 0
        data: bytes = self._stream.read(_HEADER if whole else min(size or 0, _HEADER))
        if len(data) == _HEADER:
            raise OSError("a header of more than 64 MiB")
        return data


class _Limited(io.RawIOBase):
    def __init__(self, stream: Any, spend: Callable[[int], None]) -> None:
        super().__init__()
        self._stream = stream
        self._spend = spend

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except REFUSED as error:
            raise OSError(str(error)) from error
        self._spend(len(data))
        buffer[: len(data)] = data
        return len(data)
