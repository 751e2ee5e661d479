"""A site's file: what it expects of its machines, and findings to live with for a while."""

import datetime as dt
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.expectations import CHECKS, Expectation, parse_expectations
from ascend_doctor.matrix.loading import load


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``id`` is a check, ``nodes`` a glob of host names, ``expires`` the last day (YYYY-MM-DD).

    With ``unknown`` the row covers what only root can see, of all checks if ``id`` is "*"; it
    need not expire.
    """

    id: str
    reason: str
    expires: str = ""
    nodes: str = "*"
    unknown: Literal["needs-root"] | None = None

    @property
    def last_day(self) -> dt.date:
        return dt.date.fromisoformat(self.expires) if self.expires else dt.date.max

    def about(self, finding: Finding) -> bool:
        """Whether this row covers a finding, never an expectation."""
        if finding.check in CHECKS or self.id not in {"*", finding.check}:
            return False
        if self.unknown is None:
            return finding.level in {Level.ERROR, Level.WARNING}
        return finding.level is Level.UNKNOWN and finding.needs == "root"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``ascend-doctor.yaml``."""

    acknowledged: tuple[Acknowledgement, ...] = ()
    expect: tuple[str, ...] = ()

    @property
    def expected(self) -> tuple[Expectation, ...]:
        return parse_expectations(self.expect, "expect[{}]")


def read_settings(path: str) -> Settings:
    """Raises DataError that names file and place."""
    if not Path(path).is_file():
        why = "a folder" if Path(path).is_dir() else "no such file"
        raise DataError(f"{path}: {why}; --config takes a file like docs/gates.md shows")
    settings = load(Path(path), Settings)
    for number, acknowledgement in enumerate(settings.acknowledged):
        if problem := _problem(acknowledgement):
            raise DataError(f"{path}: acknowledged[{number}].{problem}")
    try:
        _ = settings.expected
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return settings


def _problem(acknowledgement: Acknowledgement) -> str:
    try:
        _ = acknowledgement.last_day
    except ValueError as error:
        return f"expires: {error}"
    if not acknowledgement.reason.strip():
        return "reason: say why"
    if acknowledgement.id in CHECKS:
        return f"id: {acknowledgement.id} cannot be acknowledged; change what is expected (expect:)"
    if acknowledgement.unknown is None and not acknowledgement.expires:
        return "expires: the last day is missing, as 2026-12-01"
    if acknowledgement.unknown is None and acknowledgement.id == "*":
        return 'id: "*" goes with unknown: needs-root alone; else name a check'
    return ""


def acknowledge(
    findings: Sequence[Finding],
    rows: Sequence[Acknowledgement],
    *,
    host: str,
    today: dt.date | None = None,
) -> tuple[Finding, ...]:
    """The findings, known ones as skipped with the reason; each expired row adds a warning.

    ``host`` is the machine's real name, ``today`` the day in UTC. Unknown findings stay unknown:
    their result is unpredictable. Only those that need root can be acknowledged as not checked.
    """
    today = today or dt.datetime.now(dt.timezone.utc).date()
    mine = [acknowledgement for acknowledgement in rows if fnmatchcase(host, acknowledgement.nodes)]
    valid = [acknowledgement for acknowledgement in mine if acknowledgement.last_day >= today]
    parts = [
        _acknowledge(finding, next((row for row in valid if row.about(finding)), None))
        for finding in findings
    ]
    # A renewed row makes a reminder of the old one needless.
    renewed = {(acknowledgement.id, acknowledgement.unknown) for acknowledgement in valid}
    expired = [
        acknowledgement
        for acknowledgement in mine
        if acknowledgement.last_day < today
        and (acknowledgement.id, acknowledgement.unknown) not in renewed
    ]
    return (*parts, *(_expiry(acknowledgement) for acknowledgement in expired))


def _acknowledge(finding: Finding, row: Acknowledgement | None) -> Finding:
    if row is None:
        return finding
    what = "acknowledged" if row.unknown is None else "not checked, needs root; acknowledged"
    until = f" until {row.expires}" if row.expires else ""
    return msgspec.structs.replace(
        finding, level=Level.SKIPPED, title=f"{finding.title} ({what}{until}: {row.reason})"
    )


def _expiry(row: Acknowledgement) -> Finding:
    return Finding(
        check="acknowledged",
        level=Level.WARNING,
        title=f"An acknowledgement of {row.id} expired on {row.expires}",
        observed=row.reason,
        because="What was acceptable for a while counts again.",
    )
