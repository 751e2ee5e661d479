"""Locks of extensions that torch compiles."""

from functools import partial
from typing import Any

import msgspec

from ascend_doctor.facts import BuildLock, BuildLocks
from ascend_doctor.machine.build_locks import examine, folder, locks
from ascend_doctor.machine.live import Machine, NotRecorded


def build_locks(machine: Machine) -> BuildLocks:
    """All build locks; the age is None if the search for a holder failed."""
    root = folder(machine.env)
    there = locks(root, machine.names) if root.startswith("/") else ()
    seen = [lock for path in there if (lock := _lock(machine, path))]
    return BuildLocks(source=root, locks=tuple(seen))


def _lock(machine: Machine, path: str) -> BuildLock | None:
    try:
        answer: dict[str, Any] = machine.value(f"build_lock:{path}", partial(examine, path))
    except FileNotFoundError:  # whoever held it has finished
        return None
    except (NotRecorded, OSError):
        return BuildLock(path=path)
    return msgspec.convert({"path": path, **answer}, BuildLock)
