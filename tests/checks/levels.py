"""Checks over a machine that must give one finding, of the level that the function names."""

import functools

from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, Remedy
from tests.checks.machine import run
from tests.present import present


def check_level(
    level: Level, identity: str, facts: Snapshot, *words: str, device: str = "npu"
) -> Finding:
    """The one finding of a check; it has this level, and these words are in it."""
    findings = run(identity, facts, device)
    assert len(findings) == 1, findings
    assert findings[0].check == identity
    assert findings[0].level is level, findings[0]
    text = (
        f"{findings[0].title} {findings[0].observed} {findings[0].required} {findings[0].because}"
    )
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"
    return findings[0]


passes = functools.partial(check_level, Level.OK)
skips = functools.partial(check_level, Level.SKIPPED)
cannot_tell = functools.partial(check_level, Level.UNKNOWN)
warns = functools.partial(check_level, Level.WARNING)
fails = functools.partial(check_level, Level.ERROR)


def remedy_of(finding: Finding) -> Remedy:
    return present(finding.remedy)
