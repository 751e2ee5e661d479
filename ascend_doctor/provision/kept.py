"""What a prefix keeps: stacks, wheels and git objects; and taking away what is not in use."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.lock import Lock, Prefix
from ascend_doctor.provision.running import exclusively

# Rename before removal: half a stack would look whole.
_REMOVING = ".removing-"


class KeptStack(msgspec.Struct, frozen=True, kw_only=True):
    """``lock`` is None until the setup has ended."""

    id: str
    in_use: bool
    size: int
    changed: float
    lock: Lock | None


class KeptWheel(msgspec.Struct, frozen=True, kw_only=True):
    """``changed`` is when it was kept; the locks of ``stacks`` name it."""

    file: Path
    size: int
    changed: float
    stacks: tuple[str, ...]


def list_stacks(prefix: Prefix) -> tuple[KeptStack, ...]:
    """The stacks, youngest first. Raises DataError for a lock that does not load."""
    current = prefix.current()
    stacks = (
        KeptStack(
            id=folder.name,
            in_use=folder == current,
            size=measure_folder(folder),
            changed=folder.stat().st_mtime,
            lock=locks.read(folder) if (folder / locks.FILE).is_file() else None,
        )
        for folder in _folders(prefix)
    )
    return tuple(sorted(stacks, key=lambda stack: -stack.changed))


def list_wheels(prefix: Prefix, stacks: Sequence[KeptStack]) -> tuple[KeptWheel, ...]:
    """The wheels by name. An unfinished setup may need any of them."""
    users: dict[str, list[str]] = {}
    for stack in stacks:
        for wheel in stack.lock.wheels if stack.lock else ():
            users.setdefault(wheel.sha256, []).append(stack.id)
    files = sorted(prefix.wheels.glob("*/*.whl"), key=lambda file: file.name)
    return tuple(
        KeptWheel(
            file=file,
            size=file.stat().st_size,
            changed=file.stat().st_mtime,
            stacks=tuple(users.get(file.parent.name, ())),
        )
        for file in files
    )


def use_stack(prefix: Prefix, name: str) -> Lock:
    """Puts a stack in use. Raises DataError for one that is absent, unfinished or failed."""
    with exclusively(prefix.exclusion):
        folder = _folder(prefix, name)
        if not (folder / locks.FILE).is_file():
            raise DataError(f"the setup of {name} has not ended; run it again")
        lock = locks.read(folder)
        if lock.failed:
            raise DataError(f"{name} is not put in use: {lock.proof_summary}")
        prefix.switch(name)
    return lock


def remove_stacks(prefix: Prefix, names: Sequence[str]) -> None:
    """Raises DataError for one that is in use or absent, before any goes."""
    with exclusively(prefix.exclusion):
        current = prefix.current()
        folders = {name: _folder(prefix, name) for name in names}
        for name in names:
            if folders[name] == current:
                raise DataError(f"{name} is in use; put another one in use first: stack use ID")
        for name in names:
            folders[name].rename(folders[name].with_name(f"{_REMOVING}{name}"))
        for folder in (prefix.root / "stacks").glob(f"{_REMOVING}*"):
            shutil.rmtree(folder)


def remove_unused_wheels(prefix: Prefix) -> tuple[KeptWheel, ...]:
    """Remove the wheels that no lock names. Raises DataError if a setup may need them."""
    with exclusively(prefix.exclusion):
        stacks = list_stacks(prefix)
        if begun := [stack.id for stack in stacks if stack.lock is None]:
            raise DataError(
                f"the setup of {', '.join(begun)} has not ended and may need any wheel; "
                "finish it, or remove that stack first"
            )
        unused = tuple(wheel for wheel in list_wheels(prefix, stacks) if not wheel.stacks)
        for wheel in unused:
            shutil.rmtree(wheel.file.parent)
    return unused


def measure_folder(folder: Path) -> int:
    """Bytes of all files below; files that vanish meanwhile count 0."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def _folder(prefix: Prefix, name: str) -> Path:
    folders = {folder.name: folder for folder in _folders(prefix)}
    if name not in folders:
        known = ", ".join(folders) or "none"
        raise DataError(f"{prefix.root} has no stack {name}; there are: {known}")
    return folders[name]


def _folders(prefix: Prefix) -> Iterator[Path]:
    for folder in sorted((prefix.root / "stacks").glob("*")):
        if folder.is_dir() and not folder.is_symlink() and not folder.name.startswith("."):
            yield folder
