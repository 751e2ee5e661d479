"""Findings that a site knows about and has decided to live with, for a while."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.findings import Finding, Level
from ascend_doctor.loading import load


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``id`` is a check, ``nodes`` a glob of host names, ``expires`` the last day (YYYY-MM-DD)."""

    id: str
    reason: str
    expires: str
    nodes: str = "*"

    @property
    def last_day(self) -> dt.date:
        return dt.date.fromisoformat(self.expires)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``ascend-doctor.yaml``."""

    acknowledged: tuple[Acknowledgement, ...] = ()


def read_settings(path: str) -> Settings:
    """Raises DataError that names file and place."""
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file; --config takes a file like docs/gates.md shows")
    found = load(Path(path), Settings)
    for number, one in enumerate(found.acknowledged):
        try:
            _ = one.last_day
        except ValueError as error:
            raise DataError(f"{path}: acknowledged[{number}].expires: {error}") from error
        if not one.reason.strip():
            raise DataError(f"{path}: acknowledged[{number}].reason: say why")
    return found


def acknowledge(
    findings: Sequence[Finding],
    rows: Sequence[Acknowledgement],
    *,
    host: str,
    today: dt.date | None = None,
) -> tuple[Finding, ...]:
    """The findings, known ones as skipped with the reason; an expired row is a warning of its own.

    ``host`` is the machine's real name, ``today`` the day in UTC.

    What could not be told stays so: nobody can know in advance what it would have been.
    """
    today = today or dt.datetime.now(dt.timezone.utc).date()
    mine = [one for one in rows if fnmatchcase(host, one.nodes)]
    valid = {one.id: one for one in mine if one.last_day >= today}
    told = [_known(one, valid.get(one.check)) for one in findings]
    expired = [one for one in mine if one.last_day < today and one.id not in valid]
    return (*told, *(_expired(one) for one in expired))


def _known(finding: Finding, row: Acknowledgement | None) -> Finding:
    if row is None or finding.level not in {Level.ERROR, Level.WARNING}:
        return finding
    return msgspec.structs.replace(
        finding,
        level=Level.SKIPPED,
        title=f"{finding.title} (acknowledged until {row.expires}: {row.reason})",
    )


def _expired(row: Acknowledgement) -> Finding:
    return Finding(
        check="acknowledged",
        level=Level.WARNING,
        title=f"An acknowledgement of {row.id} expired on {row.expires}",
        found=row.reason,
        because="What was acceptable for a while counts again.",
    )
