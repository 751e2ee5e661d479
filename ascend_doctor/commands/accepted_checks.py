"""Checks with whose errors a user takes a stack: ``--accept ID``."""

from collections.abc import Iterable

import click

from ascend_doctor.checks import all_checks
from ascend_doctor.commands.options.check_filter import refuse_unknown
from ascend_doctor.provision.lock import Lock


def split_accepted(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Conflicts (WHO:WHAT) and check ids. Raises UsageError for an unknown or uncounted check."""
    conflicts = tuple(text for text in texts if ":" in text)
    names = tuple(dict.fromkeys(text for text in texts if ":" not in text))
    refuse_unknown(names)
    if other := sorted({*names} - _probing()):
        raise click.UsageError(f"--accept {other[0]}: no proof counts that check; leave it out")
    return conflicts, names


def flags_to_accept(lock: Lock) -> str:
    """Flags for a stack whose proof failed by checks alone; else empty."""
    names = {text.partition(":")[0] for text in lock.doubts}
    if lock.proof is None or lock.proof.unknown or not names <= _probing():
        return ""
    return " ".join(f"--accept {name}" for name in sorted({*lock.accepted_checks} | names))


def _probing() -> set[str]:
    return {check.id for check in all_checks() if check.probe}
