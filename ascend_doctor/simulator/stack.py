"""A stack that setup built, as the thing to rehearse."""

from __future__ import annotations

from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.provision.lock import FILE, Prefix, environment_of, read


def folder_of(prefix: str | None, megatron: str | None) -> Path:
    """The folder of the stack in use below a prefix, or of the newest one with this Megatron.

    ``prefix`` may itself be the folder of a stack. Raises DataError where there is none.
    """
    if prefix and (Path(prefix) / FILE).is_file():
        return Path(prefix).absolute()
    prefix_ = Prefix.of(prefix)
    if megatron:
        locks = {file.parent: read(file) for file in prefix_.root.glob(f"stacks/*/{FILE}")}
        fitting = [path for path, lock in locks.items() if lock.wish.get("megatron") == megatron]
        if not fitting:
            raise DataError(
                f"{prefix_.root}: no stack with Megatron {megatron} was set up here; "
                f"ascend-doctor setup --megatron {megatron} builds one"
            )
        return max(fitting, key=lambda path: locks[path].created_at)
    current = prefix_.current()
    if current is None:
        raise DataError(f"{prefix_.root}: no setup has ended here; see ascend-doctor setup --help")
    return current


def interpreter_of(folder: Path) -> str:
    """The interpreter of a stack. Raises DataError where its lock cannot be read."""
    return str(environment_of(folder, read(folder)) / "bin" / "python")
