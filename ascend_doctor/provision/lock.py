"""The lock of a stack that was built, and where a prefix keeps what.

PREFIX/.lock                          held while a setup works here
PREFIX/objects/<component>.git        git objects that all stacks share
PREFIX/wheels/<sha256>/<file>         wheels that all stacks share
PREFIX/stacks/<id>/src/<component>    checkouts, detached at the commit of the lock
PREFIX/stacks/<id>/venv               the environment, unless another was named
PREFIX/stacks/<id>/ascend-doctor.lock written last: a stack without it is not complete
PREFIX/current -> stacks/<id>         the stack in use, switched by one rename
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.loading import data_folder, load

FILE = "ascend-doctor.lock"
SCHEMA = 1

_Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
_Commit = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}(?:[0-9a-f]{24})?$")]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Piece(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A piece of a lock file; unknown keys are errors."""


class Checkout(_Piece, frozen=True, kw_only=True):
    """A component from git. ``tree`` is git's hash of its files, ``url`` has no credentials.

    ``version`` is the row's of the matrix; ``moving``: the ref is a branch. ``editable``:
    installed into the environment by reference. ``provides`` are distributions that come with it
    and that pip must not bring.
    """

    name: _Name
    version: str
    ref: str
    commit: _Commit
    tree: _Commit = ""
    url: str
    moving: bool = False
    editable: bool = False
    provides: dict[str, str] = {}

    @property
    def path(self) -> str:
        """Where it lies, relative to the stack's folder."""
        return f"src/{self.name}"


class Source(_Piece, frozen=True, kw_only=True):
    """The source distribution that a wheel was built from."""

    file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.+!-]+$")]
    sha256: _Hash


class Wheel(_Piece, frozen=True, kw_only=True):
    """A wheel of the environment. ``sha256`` is of the file that was installed.

    Where the index has no wheel it was built from ``source``, and may have another hash where it
    is built again.
    """

    name: _Name
    version: str
    file: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.+!-]+\.whl$")]
    sha256: _Hash
    source: Source | None = None

    @property
    def exact(self) -> str | None:
        """The hash that it has everywhere; None where it was built."""
        return None if self.source else self.sha256


class Setting(_Piece, frozen=True, kw_only=True):
    """An environment variable of the stack and why. ``path``: relative to the stack's folder."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: str
    why: str
    path: bool = False


class BasePython(_Piece, frozen=True, kw_only=True):
    """The interpreter that the environment was made of. ``tag``: cp311; ``arch``: x86_64."""

    version: str
    tag: str
    arch: str


class Lock(_Piece, frozen=True, kw_only=True):
    """A stack to the last commit and wheel.

    ``wish`` is what was asked for (megatron, framework). ``rows`` are the matrix rows used,
    versions by component; ``stacks`` the documented combinations among them. ``system`` are
    versions that the stack needs and setup never installs (cann, driver ...). ``pythonpath``:
    paths relative to the stack's folder, in order. ``venv``: "venv", or the full path of the
    environment that was named.
    """

    schema: int = SCHEMA
    tool_version: str
    id: _Name
    created_at: str
    wish: dict[str, str]
    python: BasePython
    checkouts: tuple[Checkout, ...]
    wheels: tuple[Wheel, ...]
    settings: tuple[Setting, ...] = ()
    pythonpath: tuple[str, ...] = ()
    rows: dict[str, str] = {}
    stacks: tuple[str, ...] = ()
    system: dict[str, str] = {}
    venv: str = "venv"


@dataclass(frozen=True)
class Prefix:
    """The folder that stacks are built in."""

    root: Path

    @classmethod
    def of(cls, path: str | None) -> Prefix:
        """The folder named, else ASCEND_DOCTOR_PREFIX, else the user's data folder."""
        named = path or os.environ.get("ASCEND_DOCTOR_PREFIX")
        place = named or data_folder()
        return cls(Path(os.path.abspath(os.path.expanduser(place))))

    @property
    def exclusion(self) -> Path:
        return self.root / ".lock"

    @property
    def objects(self) -> Path:
        return self.root / "objects"

    @property
    def wheels(self) -> Path:
        return self.root / "wheels"

    @property
    def link(self) -> Path:
        return self.root / "current"

    def stack(self, identity: str) -> Path:
        return self.root / "stacks" / identity

    def current(self) -> Path | None:
        """The folder of the stack in use; None before the first setup has ended."""
        try:
            target = os.readlink(self.link)
        except OSError:
            return None
        return self.root / target

    def switch(self, identity: str) -> None:
        """Make a stack the one in use; whoever looks sees the old one or the new one."""
        scratch = self.root / f".current.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            scratch.unlink()
        scratch.symlink_to(Path("stacks") / identity)
        scratch.replace(self.link)


def environment_of(stack: Path, lock: Lock) -> Path:
    """The folder of the stack's Python environment; its interpreter is bin/python in it."""
    return stack / lock.venv


def read(path: Path) -> Lock:
    """The lock in a file, or in the folder of a stack. Raises DataError naming file and place."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{file}: there is no such lock; ascend-doctor setup writes it")
    lock = load(file, Lock)
    if lock.schema != SCHEMA:
        raise DataError(f"{file}: schema {lock.schema}; this ascend-doctor reads schema {SCHEMA}")
    return lock


def write(path: Path, lock: Lock) -> None:
    """Write a lock whole, and durably, or not at all. Raises OSError."""
    import yaml  # noqa: PLC0415 - only to write

    head = "# Written by ascend-doctor setup. setup --locked builds the same again.\n"
    # The schema is always told, though it has a default.
    content = {"schema": lock.schema, **msgspec.to_builtins(lock)}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(head + text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
