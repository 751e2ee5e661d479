"""``ascend-doctor fix``: the remedies of a check, shown, asked, applied, checked again."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Literal

import click
import msgspec

from ascend_doctor.commands.check import Wish, make_report
from ascend_doctor.commands.options import defaulted, flag
from ascend_doctor.commands.options.check_filter import selection_options
from ascend_doctor.commands.options.format_option import shape_option
from ascend_doctor.commands.options.launch import examined_option, patience_option
from ascend_doctor.commands.options.matrix import matrix_option
from ascend_doctor.commands.options.output import Output, redacts
from ascend_doctor.commands.options.target import Examination
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_INTERRUPTED
from ascend_doctor.findings import Level, quantity
from ascend_doctor.judging.repair import Action, RepairStep, change, steps
from ascend_doctor.language import say
from ascend_doctor.machine.live import LiveMachine, ProgramMissing
from ascend_doctor.redact import Redactor
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report

_TIMEOUT = 600.0
_PIP_DEADLINE = 1800.0
# pip's reason is its last line or two.
_TOLD = 400
_ROUNDS = 3
_CHANGED = ("repaired", "still there", "failed")
# Words behind a command; packages need none, as they are what is applied.
_KINDS = {
    "packages": "",
    "shell": "in your shell",
    "look": "to look",
    "root": "as root",
    "hand": "by hand",
}

Outcome = Literal["repaired", "still there", "failed", "skipped", "by hand", "not asked"]


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """``reason`` is the output of a failed command."""

    step: RepairStep
    outcome: Outcome
    reason: str = ""


class _RepairRun(msgspec.Struct, kw_only=True):
    python: str | None
    overlays: tuple[str, ...]
    level: int
    only: tuple[str, ...]
    skip: tuple[str, ...]
    env: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))
    lines: list[str] = []

    def check(self, *only: str) -> tuple[Report, Redactor]:
        """Check everything or some ids now. Raises DataError."""
        examination = Examination(LiveMachine(self.env), python=self.python, overlays=self.overlays)
        wish = Wish(level=self.level, device="auto", nproc=None, timeout=_TIMEOUT)
        output = Output(
            targets=(), fail_on=Level.ERROR, color=False, redact=False, verbose=False, quiet=True
        )
        # A step repeats its own checks, even skipped ones.
        skip = () if only else self.skip
        report = make_report(examination, output, wish, only=only or self.only, skip=skip)
        return report, examination.redactor(report.snapshot)

    def applicable(self, step: RepairStep) -> bool:
        env: Mapping[str, str] | None = self.env
        for action in step.actions:
            if action.kind == "shell" and env is not None:
                env = change(env, action)
        return step.applicable and env is not None

    def apply(self, actions: Iterable[Action]) -> str:
        """Apply actions; gives why a command failed."""
        for action in actions:
            if action.kind == "shell":
                self.env = change(self.env, action) or self.env
                self.lines.append(action.text)
            elif action.kind == "packages" and (why := _run(action)):
                return why
        return ""


def _run(action: Action) -> str:
    try:
        done = LiveMachine().run(list(action.argv), deadline=_PIP_DEADLINE)
    except ProgramMissing as error:
        return str(error)
    if done.exit_code == 0:
        return ""
    if done.timed_out:
        return f"not done within {_PIP_DEADLINE:g} s"
    last = (done.stderr.strip() or done.stdout.strip())[-_TOLD:]
    return f"exit code {done.exit_code}: {one_line(last)}"


@click.command("fix")
@flag("--dry-run", help="Only show the steps.  [default without a terminal]")
@flag("-y", "--yes", help="Apply what is safe without asking.")
@defaulted(
    "-l",
    "--level",
    type=click.IntRange(0, 3),
    default=1,
    help="How deep to check: 0 files, 1 imports, 2 one device, 3 groups and a training step.",
)
@selection_options
@examined_option
@shape_option
@patience_option()
@matrix_option
def command(
    *,
    dry_run: bool,
    yes: bool,
    level: int,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    python: str | None,
    shape: str,
    overlays: tuple[str, ...],
) -> int:
    """Show the remedies of a check as steps, apply what is safe, and check again.

    Packages of the examined environment are changed after a question each, variables are printed
    for your shell. Driver, firmware, CANN, devices and what needs root are never touched.

    \b
    Exit codes: 0 no error is left, 1 an error is left, 2 bad usage, 3 could not tell,
    130 interrupted.
    """
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other")
    repair = _RepairRun(python=python, overlays=overlays, level=level, only=only, skip=skip)
    report, hidden = repair.check()
    ask = sys.stdin.isatty() and sys.stderr.isatty() and not (dry_run or yes)
    clean = hidden.apply if redacts(None, shown=shape == "text") else hidden.without_secrets
    outcomes: list[StepOutcome] = []
    for _ in range(_ROUNDS):  # what is repaired may show what it hid
        rows = _new_steps(report, outcomes)
        taken = [
            _take(repair, step, clean(step), ask=ask, go=yes, quiet=shape == "json")
            for step in rows
        ]
        outcomes += taken
        if not any(outcome.outcome in _CHANGED for outcome in taken):
            break
        report, _ = repair.check()
    if shape == "json":
        rest = {"environment": repair.lines, "exit_code": report.verdict.exit_code}
        answer = {"schema": 1, "steps": clean(tuple(outcomes)), **rest}
        click.echo(pretty(answer), nl=False)
    else:
        _say_end(outcomes, repair.lines, report)
    code = EXIT_FINDINGS if report.verdict.error else report.verdict.exit_code
    return EXIT_INTERRUPTED if report.interrupted else code


def _new_steps(report: Report, outcomes: list[StepOutcome]) -> list[RepairStep]:
    python = report.snapshot.python
    done = {outcome.step.check for outcome in outcomes}
    rows = steps(
        (finding for finding in report.complaints if finding.check not in done),
        python=python.executable if python else "",
    )
    return [
        msgspec.structs.replace(step, number=len(outcomes) + number)
        for number, step in enumerate(rows, 1)
    ]


def _take(
    repair: _RepairRun, step: RepairStep, shown: RepairStep, *, ask: bool, go: bool, quiet: bool
) -> StepOutcome:
    if not quiet:
        _show(shown)
    if not repair.applicable(step):
        return _end(step, "by hand", quiet=quiet)
    if not (ask or go):
        return _end(step, "not asked", quiet=quiet)
    if ask and not click.confirm(f"   {say('Apply this?')}", default=False, err=True):
        return _end(step, "skipped", quiet=quiet)
    if why := repair.apply(step.actions):
        return _end(step, "failed", why, quiet=quiet)
    ids = [name for name in step.check.split(", ") if " " not in name]
    # Only the step's checks: a whole check may take minutes.
    again, _ = repair.check(*ids)
    left = [finding for finding in again.complaints if finding.level.value == step.level]
    return _end(step, "still there" if left else "repaired", quiet=quiet)


def _end(step: RepairStep, outcome: Outcome, reason: str = "", *, quiet: bool) -> StepOutcome:
    if not quiet and outcome not in {"by hand", "not asked"}:
        click.echo(f"   {say(outcome)}{f': {say(reason)}' if reason else ''}")
    return StepOutcome(step=step, outcome=outcome, reason=reason)


def _show(step: RepairStep) -> None:
    click.echo(f"\n{step.number}. {one_line(say(step.title))}  [{step.check}]")
    if step.summary:
        click.echo(f"   {one_line(say(step.summary))}")
    for action in step.actions:
        note = f"   # {say(_KINDS[action.kind])}" if _KINDS[action.kind] else ""
        first, *more = action.text.split("\n")
        click.echo(f"   $ {one_line(first)}{'' if more else note}")
        for line in more:
            click.echo(f"   > {one_line(line)}")


def _say_end(outcomes: list[StepOutcome], lines: list[str], report: Report) -> None:
    if lines or outcomes:
        click.echo()
    if lines:
        click.echo(say("Type in your shell, for this program cannot change it:"))
        for line in lines:
            click.echo(f"  {one_line(line)}")
        click.echo()
    if not outcomes:
        click.echo(
            say(
                "No command mends what was found; ascend-doctor check says what does"
                if report.complaints
                else "Nothing to fix; ascend-doctor check -v shows what was found"
            )
        )
    else:
        words = dict.fromkeys(outcome.outcome for outcome in outcomes)
        counts = [f"{sum(o.outcome == word for o in outcomes)} {say(word)}" for word in words]
        click.echo(f"{say(quantity(len(outcomes), 'step'))}: {', '.join(counts)}")
        if "not asked" in words:
            click.echo(
                say("apply what is safe: ascend-doctor fix --yes, or fix at a terminal to be asked")
            )
    click.echo(say(report.verdict.text()))
