"""What a lock says and what lies where it speaks of."""

import os
from collections.abc import Iterator
from pathlib import Path

from ascend_doctor.collect.checkout import checkout
from ascend_doctor.errors import Unknown
from ascend_doctor.facts import LockedCheckout, LockedWheel, StackLock
from ascend_doctor.machine.kinds import LOCK, refuse_other
from ascend_doctor.machine.live import Machine, exists
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.installed import list_edited, read_installed


def stack_lock(machine: Machine, file: str) -> StackLock:
    """The comparison with a lock. Raises DataError.

    A lock copied from its stack means the stack in use under the default prefix.
    """
    refuse_other(file, LOCK)
    lock = locks.read(Path(file))
    stack = _stack(file, lock)
    environment = str(locks.environment_of(stack, lock))
    there = read_installed(machine, environment)
    return StackLock(
        source=file,
        present=True,
        stack=str(stack),
        environment=environment,
        checkouts=tuple(_checkouts(machine, str(stack), lock)),
        wheels=tuple(
            LockedWheel(
                name=wheel.name,
                version=wheel.version,
                sha256=wheel.sha256,
                built=wheel.source is not None,
                installed=there[wheel.name].version if wheel.name in there else "",
                found_sha256=there[wheel.name].sha256 if wheel.name in there else None,
            )
            for wheel in lock.wheels
        ),
        edited=_list_edited(machine, stack, environment, [wheel.name for wheel in lock.wheels]),
        proof=lock.proof_summary,
        proof_failed=lock.doubts,
        accepted_checks=lock.accepted_checks,
    )


def _list_edited(
    machine: Machine, stack: Path, environment: str, names: list[str]
) -> tuple[str, ...] | None:
    try:
        return tuple(list_edited(machine, environment, str(stack / locks.BUILT), names))
    except Unknown:
        return None


def _stack(file: str, lock: locks.Lock) -> Path:
    path = Path(os.path.abspath(file))
    beside = path if path.is_dir() else path.parent
    if any((beside / checkout.path).is_dir() for checkout in lock.checkouts):
        return beside
    return locks.Prefix.of(None).current() or beside


def _checkouts(machine: Machine, stack: str, lock: locks.Lock) -> Iterator[LockedCheckout]:
    for locked in lock.checkouts:
        path = f"{stack}/{locked.path}"
        state = checkout(machine, path)
        own = state is not None and os.path.realpath(path) == os.path.realpath(state.root)
        yield LockedCheckout(
            name=locked.name,
            path=path,
            ref=locked.ref,
            commit=locked.commit,
            exists=exists(machine, path),
            head=state.commit if state and own else None,
            dirty=state.dirty if state and own else None,
        )
