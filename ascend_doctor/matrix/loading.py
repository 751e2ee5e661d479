"""Reads a YAML file as a strict struct, and keeps what was read well in the user's cache."""

import contextlib
import os
import time
from _blake2 import blake2b  # hashlib loads OpenSSL
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.parsing import YAML_BYTES, yaml_of
from ascend_doctor.machine.private import read_mine, write_mine

T = TypeVar("T")
_TICK = 2_000_000_000  # nanoseconds; FAT has the longest


def cache_folder() -> Path:
    """What may be lost: ``$XDG_CACHE_HOME/ascend-doctor``."""
    return _folder("XDG_CACHE_HOME", ".cache")


def data_folder() -> Path:
    """What has to stay: ``$XDG_DATA_HOME/ascend-doctor``."""
    return _folder("XDG_DATA_HOME", ".local/share")


def _folder(variable: str, otherwise: str) -> Path:
    """By the XDG specification (no relative path). Raises DataError for a user without a home."""
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return Path(named) / "ascend-doctor"
    home = os.path.expanduser("~")
    if not os.path.isabs(home) or not os.path.isdir(home):
        raise DataError(f"there is no home folder; set HOME or {variable}")
    return Path(home) / otherwise / "ascend-doctor"


def load(path: Path, shape: type[T]) -> T:
    """A YAML file as a strict struct. Raises DataError that names file and place.

    Valid content stays in the user's cache: YAML takes ten times as long to read.
    """
    return decode(read_bytes(path, YAML_BYTES), path, shape)


def decode(data: bytes, path: Path, shape: type[T]) -> T:
    """The same for what was read of ``path`` already."""
    # By content, not name and time: nothing goes stale, and overlays share it.
    cached = CacheEntry.of("matrix", data)
    value = cached.get()
    if value is not None:
        return convert(path, value, shape)
    read = yaml_of(data, str(path))
    whole = convert(path, read, shape)
    cached.put(read)
    return whole


class CacheEntry(msgspec.Struct, frozen=True):
    """Content in the user's cache. ``name`` is a digest of all that decides it.

    What another user owns, or could have written, is not read: it would be obeyed.
    """

    kind: str
    name: str

    @classmethod
    def of(cls, kind: str, decisive: bytes) -> "CacheEntry":
        """The place of what is made of these bytes."""
        return cls(kind, blake2b(decisive, digest_size=16).hexdigest())

    @classmethod
    def recall(
        cls, kind: str, files: Iterable[str | Path], make: Callable[[], T], *more: object
    ) -> T:
        """What ``make`` gives of files, and of ``more``, until one of them changes."""
        stamps = [(str(file), *_stamp(file)) for file in files]
        entry = cls.of(kind, repr((stamps, more)).encode("utf-8", "replace"))
        content = entry.get()
        if content is None:
            entry.put(content := make())
        return cast("T", content)

    @property
    def path(self) -> Path:
        """Raises DataError where there is no home."""
        return cache_folder() / self.kind / f"{self.name}.msgpack"

    def get(self) -> object | None:
        try:
            data = read_mine(self.path)
            content: object = None if data is None else msgspec.msgpack.decode(data)
        except (DataError, ValueError, TypeError, msgspec.MsgspecError, RecursionError):
            return None
        return content

    def put(self, content: object) -> None:
        """Keep it whole or not at all; ignore an unwritable cache."""
        with contextlib.suppress(OSError, TypeError, DataError, msgspec.MsgspecError):
            write_mine(self.path, msgspec.msgpack.encode(content))


class KeptByPath:
    """What was made of files and folders, as one entry of the cache; each until it changes."""

    def __init__(self, kind: str, owner: str) -> None:
        self._entry = CacheEntry.of(kind, owner.encode("utf-8", "replace"))
        self._rows: dict[str, list[Any]] = {}
        self._earlier = self._entry.get()

    def ask(self, path: str, make: Callable[[str], Any]) -> Any:
        """What ``make`` gives of a path, as plain values."""
        stamp = list(_stamp(path))
        row = self._earlier.get(path) if isinstance(self._earlier, dict) else None
        if row is None or row[0] != stamp:
            row = [stamp, make(path)]
        # A change in the same tick of the file system's clock would not show.
        if stamp and time.time_ns() - stamp[0] > _TICK:
            self._rows[path] = row
        return row[1]

    def save(self) -> None:
        if self._rows != self._earlier:
            self._entry.put(self._rows)


def _stamp(path: str | Path) -> tuple[int, ...]:
    """A replacement file with the old file's time may keep time and size."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size


def convert(path: Path, read: object, shape: type[T]) -> T:
    """Plain values as a strict struct. Raises DataError that names ``path`` and place."""
    try:
        if isinstance(read, dict) and "read" in read:
            _date_sources(read, read.pop("read"))
        return msgspec.convert(read, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise DataError(f"{path}: {error}") from error


def _date_sources(node: object, day: object) -> None:
    """A file's sources without a date were read on its day, ``read``."""
    if isinstance(node, list):
        for each in node:
            _date_sources(each, day)
    elif isinstance(node, dict):
        for key, each in node.items():
            for source in each if key == "sources" and isinstance(each, list) else ():
                if isinstance(source, dict):
                    source.setdefault("date", day)
            _date_sources(each, day)
