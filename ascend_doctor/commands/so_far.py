"""The report of a run that has to end before its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ascend_doctor.exits import EXIT_INTERRUPTED
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, Check
from ascend_doctor.report import Report, assemble, verdict

if TYPE_CHECKING:
    from ascend_doctor.commands.check import Wish
    from ascend_doctor.commands.options.output import Output
    from ascend_doctor.commands.options.target import Examination


class SoFar(msgspec.Struct, frozen=True, kw_only=True):
    """``chosen`` are the requested checks; ``start`` is of time.monotonic."""

    examination: Examination
    output: Output
    wish: Wish
    chosen: Sequence[Check]
    start: float

    def last_words(self, why: str, code: int) -> int:
        """Report, and give the exit code that the process ends with; for a watchdog."""
        interrupted = code == EXIT_INTERRUPTED
        report = self.write(why, interrupted=interrupted)
        return code if interrupted else report.verdict.exit_code

    def write(self, why: str, *, interrupted: bool) -> Report:
        facts, hidden = self.examination.so_far(why)
        levels = self.wish.levels(facts, replayed=self.examination.replayed)
        levels = tuple(
            msgspec.structs.replace(level, ran=False, reason=why)
            if level.level and level.ran
            else level
            for level in levels
        )
        report = assemble(
            Case(
                facts=facts,
                catalog=self.examination.catalog,
                device=self.wish.judged_device,
                nproc=self.wish.nproc,
                expected=self.wish.expected,
            ),
            # Higher levels read probes, and none has finished.
            [check for check in self.chosen if not check.level],
            levels=levels,
            fail_on=self.output.fail_on,
            seconds=time.monotonic() - self.start,
            interrupted=interrupted,
            acknowledged=self.output.acknowledged,
        )
        early = Finding(
            check="early-end",
            level=Level.UNKNOWN,
            title=f"The run ended early: {why}",
            because="What was not collected or not judged by then is not known.",
        )
        findings = (early, *report.findings)
        report = msgspec.structs.replace(
            report,
            findings=findings,
            verdict=verdict(findings, fail_on=self.output.fail_on, levels=levels),
        )
        self.output.reachable_first().write(report, hidden)
        return report
