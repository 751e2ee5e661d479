"""Reads a YAML file as a strict struct, and keeps what was read well in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from ascend_doctor.errors import DataError

T = TypeVar("T")


def cache_folder() -> Path:
    """What may be lost: ``$XDG_CACHE_HOME/ascend-doctor``."""
    return _folder("XDG_CACHE_HOME", ".cache")


def data_folder() -> Path:
    """What has to stay: ``$XDG_DATA_HOME/ascend-doctor``."""
    return _folder("XDG_DATA_HOME", ".local/share")


def _folder(variable: str, otherwise: str) -> Path:
    """By the XDG Base Directory Specification, which calls a relative path invalid."""
    named = os.environ.get(variable, "")
    base = Path(named) if os.path.isabs(named) else Path.home() / otherwise
    return base / "ascend-doctor"


def load(path: Path, shape: type[T]) -> T:
    """A YAML file as a strict struct. Raises DataError that names file and place.

    What was read well once is kept in the user's cache: YAML takes ten times as long to read.
    """
    kept = Kept.of(path)
    found = kept.get() if kept else None
    if found is not None:
        return shaped(path, found, shape)
    read = read_yaml(path)
    whole = shaped(path, read, shape)
    if kept:
        kept.put(read)
    return whole


@dataclass(frozen=True)
class Kept:
    """Cached content; that of a file is valid for one time stamp and size of it."""

    place: Path
    stamp: tuple[int, int]

    @classmethod
    def of(cls, path: Path) -> Kept | None:
        """None where there is no such file."""
        try:
            status = path.stat()
        except OSError:
            return None
        name = hashlib.blake2b(os.fsencode(path.resolve()), digest_size=12).hexdigest()
        return cls.named("matrix", name, (status.st_mtime_ns, status.st_size))

    @classmethod
    def named(cls, kind: str, name: str, stamp: tuple[int, int] = (0, 0)) -> Kept:
        """A place in the user's cache."""
        return cls(cache_folder() / kind / f"{name}.msgpack", stamp)

    def get(self) -> object | None:
        try:
            stamp, content = msgspec.msgpack.decode(self.place.read_bytes())
        except (OSError, ValueError, TypeError, msgspec.MsgspecError):
            return None
        return content if tuple(stamp) == self.stamp else None

    def put(self, content: object) -> None:
        """Keep it whole or not at all; a cache that cannot be written is none."""
        scratch = self.place.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError, TypeError, msgspec.MsgspecError):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_bytes(msgspec.msgpack.encode((self.stamp, content)))
            scratch.replace(self.place)


def read_yaml(path: Path) -> object:
    """The plain values of a YAML file. Raises DataError."""
    import yaml  # noqa: PLC0415 - seldom needed, see load

    try:
        return yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: {error}") from error


def shaped(path: Path, read: object, shape: type[T]) -> T:
    """Plain values as a strict struct. Raises DataError that names ``path`` and place."""
    try:
        return msgspec.convert(read, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise DataError(f"{path}: {error}") from error
