"""The lock of a stack that was built, and where a prefix keeps what.

PREFIX/.lock                          held while a setup works here
PREFIX/objects/<component>.git        git objects that all stacks share
PREFIX/wheels/<sha256>/<file>         wheels that all stacks share
PREFIX/stacks/<id>/src/<component>    checkouts, detached at the commit of the lock
PREFIX/stacks/<id>/venv               the environment, unless another was named
PREFIX/stacks/<id>/ascend-doctor.lock written last: a stack without it is not complete
PREFIX/current -> stacks/<id>         the stack in use, switched by one rename
"""

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.findings import CheckId, quantity
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.parsing import YAML_BYTES
from ascend_doctor.matrix.loading import data_folder, decode
from ascend_doctor.timestamps import Timestamp

FILE = "ascend-doctor.lock"
# Written when the environment of a stack was complete.
BUILT = ".state/environment"
SCHEMA = 1
# msgspec's words for a value outside the pattern.
_PATTERN = re.compile(r"Expected `str` matching regex .*(?= - at )")


def _whole(pattern: str) -> msgspec.Meta:
    """A whole text that is a ``pattern``."""
    return msgspec.Meta(pattern=rf"\A(?:{pattern})\Z", max_length=4096)


# Each field becomes an argument of git or pip, a path, or a line of a shell or terminal.
_Hash = Annotated[str, _whole(r"[0-9a-f]{64}")]
_Commit = Annotated[str, _whole(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")]
_Name = Annotated[str, _whole(r"[A-Za-z0-9][A-Za-z0-9._-]*")]
_Archive = Annotated[str, _whole(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*")]
# gitcheck-ref-format(1), without what a command could take for an option.
REF = re.compile(r"(?!.*(?:\.\.|//|/\.|\.lock(?:/|\Z)))[A-Za-z0-9_][A-Za-z0-9._/+-]*")
_Ref = Annotated[str, _whole(REF.pattern)]
_Version = Annotated[str, _whole(r"[A-Za-z0-9_][A-Za-z0-9._/+!-]*")]
_Printed = Annotated[str, _whole(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")]
_Url = Annotated[
    str,
    _whole(
        # To ssh, a user or host with a leading dash is an option.
        r"(?:(?:https?|ssh|git)://(?:[A-Za-z0-9_][^\x00-\x20\x7f/@]*@)?[A-Za-z0-9\[][^\x00-\x20\x7f/@]*"
        r"(?:/[^\x00-\x1f\x7f]*)?"
        r"|file:///[^\x00-\x1f\x7f]*|/[^\x00-\x20\x7f-][^\x00-\x1f\x7f]*"
        r"|[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^\x00-\x20\x7f-][^\x00-\x1f\x7f]*)"
    ),
]
# A relative path without . or .. parts.
_INSIDE = r"(?!(?:.*/)?\.\.?(?:/|\Z))[A-Za-z0-9_.+@][A-Za-z0-9_.+@/-]*"
_Inside = Annotated[str, _whole(_INSIDE)]
_Environment = Annotated[str, _whole(r"venv|/[^\x00-\x1f\x7f:]*")]
# Only these: shells, loaders and interpreters take code from variables of many names.
SETTINGS = ("CUDA_DEVICE_MAX_CONNECTIONS", "USE_MCORE_GDN")
_Variable = Annotated[str, _whole("|".join(SETTINGS))]


class _Piece(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A piece of a lock file; unknown keys are errors."""


class Checkout(_Piece, frozen=True, kw_only=True):
    """A component from git. ``tree`` is git's hash of its files, ``url`` has no credentials.

    ``version`` is the matrix row's; ``moving``: the ref is a branch. ``editable``: installed by
    reference. ``provides`` are distributions that come with it and that pip must not bring.
    """

    name: _Name
    version: _Version
    ref: _Ref
    commit: _Commit
    tree: _Commit = ""
    url: _Url
    moving: bool = False
    editable: bool = False
    provides: dict[_Name, _Version] = {}

    @property
    def path(self) -> str:
        """Its path relative to the stack's folder."""
        return f"src/{self.name}"


class LockedSource(_Piece, frozen=True, kw_only=True):
    """The source distribution that a wheel was built from."""

    file: _Archive
    sha256: _Hash


class Wheel(_Piece, frozen=True, kw_only=True):
    """A wheel of the environment. ``sha256`` is of the installed file.

    If the index has no wheel, it was built from ``source``; a rebuild may have another hash.
    """

    name: _Name
    version: _Version
    file: Annotated[str, _whole(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.whl")]
    sha256: _Hash
    source: LockedSource | None = None

    @property
    def exact(self) -> str | None:
        """The hash that it has everywhere; None for a built one."""
        return None if self.source else self.sha256


class Setting(_Piece, frozen=True, kw_only=True):
    name: _Variable
    value: str  # shells get it quoted
    why: _Printed


class BasePython(_Piece, frozen=True, kw_only=True):
    """The environment's base interpreter. ``tag``: cp311; ``arch``: x86_64."""

    version: _Version
    tag: _Name
    arch: _Name


class Proof(_Piece, frozen=True, kw_only=True):
    """What was run with a stack after the build, on ``date`` (ISO 8601).

    ``level`` is that of the probes; ``simulated``: on a simulated NPU. ``probes`` ran, ``imports``
    are documented import checks that passed, ``failed`` did not pass and ``unknown`` could not be
    determined; each begins with its check id and a colon. ``losses`` are training losses by layout.
    """

    level: int
    simulated: bool = False
    date: _Printed
    probes: tuple[_Name, ...] = ()
    imports: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    losses: dict[_Printed, tuple[float, ...]] = {}

    def doubts(self, accepted: Collection[str] = ()) -> tuple[str, ...]:
        """Why it proves nothing, without errors of ``accepted`` checks; empty if it passed."""
        failed = (text for text in self.failed if text.partition(":")[0] not in accepted)
        return (*failed, *self.unknown)

    def summary(self, accepted: Collection[str] = ()) -> str:
        where = "on a simulated NPU" if self.simulated else "on this machine"
        ran = f"level {self.level} {where} on {self.date[:10]}"
        if doubts := self.doubts(accepted):
            return f"{ran}: {'; '.join(doubts)}"
        checks = quantity(len(self.imports), "documented import check")
        counts = f": {quantity(len(self.probes), 'probe')}, {checks}" if self.level else ""
        taken = f"; accepted: {'; '.join(self.failed)}" if self.failed else ""
        return f"{ran}{counts}{taken}"


class Lock(_Piece, frozen=True, kw_only=True):
    """A stack to the last commit and wheel. ``wish`` is the request (megatron, framework).

    ``rows`` are the matrix rows used, versions by component; ``stacks`` the documented combinations
    among them. ``system`` are versions that the stack needs and setup never installs (cann, driver
    ...), ``install`` the documented commands for them, by component. ``pythonpath``: paths relative
    to the stack's folder, in order. ``venv``: "venv", or the full path of a named environment.
    ``as_of``: the day after which files of indexes did not count; "" if all did. ``accepted`` are
    conflicts that the user accepted, as WHO:WHAT, and what they are; errors of ``accepted_checks``
    do not keep it from use. ``preserved`` are packages that setup found and left alone, in the file
    ``kept``. ``proof``: None before the first run.
    """

    schema: int = SCHEMA
    tool_version: _Printed
    id: _Name
    created_at: Timestamp
    wish: dict[_Name, _Printed]
    python: BasePython
    checkouts: tuple[Checkout, ...]
    wheels: tuple[Wheel, ...]
    settings: tuple[Setting, ...] = ()
    pythonpath: tuple[_Inside, ...] = ()
    rows: dict[_Name, _Printed] = {}
    stacks: tuple[_Name, ...] = ()
    system: dict[_Name, _Printed] = {}
    install: dict[_Name, tuple[_Printed, ...]] = {}
    venv: _Environment = "venv"
    as_of: _Printed = ""
    accepted: dict[_Printed, _Printed] = {}
    accepted_checks: tuple[CheckId, ...] = ()
    preserved: dict[_Name, _Printed] = msgspec.field(default_factory=dict, name="kept")
    proof: Proof | None = None

    @property
    def failed(self) -> bool:
        """Whether it was run and did not pass."""
        return bool(self.doubts)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why its proof proves nothing; empty if it passed or was never run."""
        return self.proof.doubts(self.accepted_checks) if self.proof else ()

    @property
    def proof_summary(self) -> str:
        return self.proof.summary(self.accepted_checks) if self.proof else "never run"


class Prefix(msgspec.Struct, frozen=True):
    root: Path

    @classmethod
    def of(cls, path: str | None) -> "Prefix":
        """The folder named, else ASCEND_DOCTOR_PREFIX, else the user's data folder."""
        named = path or os.environ.get("ASCEND_DOCTOR_PREFIX")
        folder = named or data_folder()
        return cls(Path(os.path.abspath(os.path.expanduser(folder))))

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

    def is_built(self, identity: str) -> bool:
        """Whether a stack has its lock, which is written last."""
        return (self.stack(identity) / FILE).is_file()

    def current(self) -> Path | None:
        """The folder of the stack in use; None before the first setup has ended."""
        try:
            target = os.readlink(self.link)
        except OSError:
            return None
        return self.root / target

    def switch(self, identity: str) -> None:
        """Atomically make a stack the one in use."""
        scratch = self.root / f".current.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            scratch.unlink()
        # Relative: a prefix may be moved, or mounted elsewhere.
        scratch.symlink_to(Path("stacks") / identity)
        scratch.replace(self.link)


def stack_in_use(prefix: str | None) -> Path | None:
    """The folder of one stack if named, else of the one in use below a prefix.

    None if no prefix was named and none was ever built. Raises DataError if a named one has none.
    """
    if prefix and (Path(prefix) / FILE).is_file():
        return Path(os.path.abspath(prefix))
    whole = Prefix.of(prefix)
    current = whole.current()
    if current is None and (prefix or os.environ.get("ASCEND_DOCTOR_PREFIX")):
        raise DataError(f"{whole.root}: no setup has ended here; see ascend-doctor setup --help")
    return current


def environment_of(stack: Path, lock: Lock) -> Path:
    """The folder of the stack's Python environment, with bin/python."""
    return stack / lock.venv


def read(path: Path) -> Lock:
    """The lock in a file or a stack's folder. Raises DataError naming file and place."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{file}: there is no such lock; ascend-doctor setup writes it")
    data = read_bytes(file, YAML_BYTES)
    try:
        lock = decode(data, file, Lock)
    except DataError as error:
        raise DataError(_PATTERN.sub("no value that setup writes", str(error))) from error
    if lock.schema != SCHEMA:
        raise DataError(f"{file}: schema {lock.schema}; this ascend-doctor reads schema {SCHEMA}")
    return lock


def write(path: Path, lock: Lock) -> None:
    """Write a lock whole and durably, or not at all. Raises OSError."""
    import yaml

    head = "# Written by ascend-doctor setup. setup --locked builds the same again.\n"
    # The schema is written although it has a default.
    content = {"schema": lock.schema, **msgspec.to_builtins(lock)}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(head + text)
        file.flush()
        # The content must reach the disk before the rename.
        os.fsync(file.fileno())
    scratch.replace(path)
