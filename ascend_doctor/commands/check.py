"""``ascend-doctor check``: collect, judge, probe, report."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.checks import all_checks
from ascend_doctor.collect.snapshot import SECTION_DEADLINE
from ascend_doctor.commands.options.check_filter import choose, selection_options
from ascend_doctor.commands.options.expectations import choose_expectations, expect_option, preset
from ascend_doctor.commands.options.launch import (
    device_option,
    level_option,
    nproc_option,
    patience_option,
    timeout_option,
)
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.options.probe_scope import (
    NOTHING_ASKED,
    ProbeScope,
    layout_options,
    node_options,
)
from ascend_doctor.commands.options.target import Examination, add_target_options
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.commands.so_far import SoFar
from ascend_doctor.facts import Snapshot
from ascend_doctor.judging.expectations import Expectation
from ascend_doctor.judging.judge import Case, Check
from ascend_doctor.machine import watchdog
from ascend_doctor.machine.kinds import SCRIPT, refuse_other
from ascend_doctor.machine.patience import patience
from ascend_doctor.matrix.catalog import folder, list_rows
from ascend_doctor.matrix.check_texts import read_all
from ascend_doctor.matrix.loading import CacheEntry
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.report import LEVELS, LevelRun, Report, assemble

if TYPE_CHECKING:
    from ascend_doctor.redact import Redactor

_NO_DEVICE = "no NPU on this machine; --device cpu or --device cuda says where to run instead"
# Groups need more than one, and ranks share the cores.
_CPU_RANKS = 2


# What a gate asks for; explicit options win.
PRESETS: dict[str, dict[str, object]] = {
    "prolog": {"level": 0, "timeout": 30.0},
    "ci": {"level": 1, "timeout": 300.0},
    "init": {"level": 2, "timeout": 600.0},
}
_PRESETS_EXPECT = ("npus>=1",)


def _preset(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name:
        context.default_map = {**PRESETS[name], "quiet": True, "silent": True}
        preset(context, _PRESETS_EXPECT)


_USUAL = "preset expect python level only device nproc timeout formats files verbose"


@click.command("check", cls=ShortHelpCommand, usual=_USUAL)
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    is_eager=True,
    expose_value=False,
    callback=_preset,
    help="For a gate: silent if all is well, and it expects an NPU. prolog: level 0 in 30 s."
    " ci: level 1 in 300 s. init: level 2 in 600 s.",
)
@expect_option
@add_target_options
@level_option("0 static, 1 imports, 2 one device, 3 collectives and a training step, 4 soak.")
@selection_options
@device_option("Where probes run; auto takes an NPU or says that there is none.")
@nproc_option("Ranks of level 3.  [default: every visible NPU; 2 on cpu, 1 on cuda]")
@timeout_option(
    "Seconds for the whole run; what is left over then is reported as not run.", whole=True
)
@patience_option()
@node_options
@layout_options
@output_options
@click.argument("launch", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    *,
    examination: Examination,
    launch: tuple[str, ...],
    expect: tuple[Expectation, ...],
    output: Output,
    level: int,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    device: str,
    nproc: int | None,
    scope: ProbeScope,
    nodes: tuple[int, int, str],
    timeout: float,
) -> int:
    """Collect, judge, probe and report whether this machine is able to train.

    A launch COMMAND behind -- is judged with the machine; it is not run.

    \b
    Exit codes: 0 nothing found, 1 findings at or above --fail-on, 2 bad usage or bad data,
    3 nothing worse than "could not tell" or something that was asked for did not run.
    """
    if launch:
        refuse_other(launch[0], SCRIPT)
    if len(launch) == 1 and not _is_program(launch[0]):
        raise _explain_no_launch(launch[0])
    wish = Wish(
        level=level,
        device=device,
        nproc=nproc,
        timeout=timeout,
        launch=launch,
        asked=msgspec.structs.replace(scope, nodes=nodes),
        expected=choose_expectations(output.expected, expect, examination.catalog),
    )
    return make_report(examination, output, wish, only=only, skip=skip).exit_code


def _is_program(word: str) -> bool:
    if os.path.isfile(word):
        return True
    import shutil

    return shutil.which(word) is not None


def _explain_no_launch(word: str) -> click.UsageError:
    if os.path.isdir(word):
        return click.UsageError(
            f"{word}: a folder, not a program; append a launch command after `--`"
        )
    if any(check.id == word for check in all_checks()):
        return click.UsageError(
            f"{word}: no such program; did you mean `ascend-doctor check --only {word}`?"
        )
    return click.UsageError(f"{word}: no such program; append a launch command after `--`")


def make_report(
    examination: Examination,
    output: Output,
    wish: Wish,
    *,
    only: tuple[str, ...],
    skip: tuple[str, ...],
) -> Report:
    start, factor = watchdog.start_of_run(), patience().factor
    chosen: list[Check] = []
    so_far = SoFar(examination=examination, output=output, wish=wish, chosen=chosen, start=start)

    def prepare() -> None:
        chosen.extend(choose(only, skip, level=wish.level, expected=wish.expected))
        import ascend_doctor.redact  # noqa: F401

    with watchdog.watch(wish.timeout, so_far.last_words):
        try:
            facts, hidden = examination.collect(
                command=wish.launch,
                deadline=min(wish.timeout, SECTION_DEADLINE) * factor,
                meanwhile=prepare,
            )
        except KeyboardInterrupt:
            click.echo("ascend-doctor: interrupted", err=True)
            return so_far.write("interrupted", interrupted=True)
        return _probe_and_report(examination, output, wish, chosen, (facts, hidden), start)


def _probe_and_report(
    examination: Examination,
    output: Output,
    wish: Wish,
    chosen: Sequence[Check],
    collected: tuple[Snapshot, Redactor],
    start: float,
) -> Report:
    facts, hidden = collected
    factor = patience().factor
    levels = wish.levels(facts, replayed=examination.replayed)
    ran = max((level.level for level in levels if level.ran), default=0)
    probing = Probing(facts=facts, wish=wish, env=dict(examination.machine.env))
    left = start + wish.timeout * factor - time.monotonic()
    runs, interrupted = probing.run(chosen, ran, total=left, quiet=output.quiet)
    if examination.simulated:
        runs = tuple(msgspec.structs.replace(run, simulated=True) for run in runs)
    case = Case(
        facts=msgspec.structs.replace(facts, probes=runs),
        catalog=examination.catalog,
        device=wish.judged_device,
        nproc=wish.nproc,
        expected=wish.expected,
    )
    if runs:
        hidden = examination.redactor(case.facts)  # they have met other machines
    report = assemble(
        case,
        [check for check in chosen if check.level <= ran],
        levels=levels,
        fail_on=output.fail_on,
        seconds=time.monotonic() - start,
        interrupted=interrupted,
        acknowledged=output.acknowledged,
    )
    hidden.trust(_own_texts(chosen))  # not in last words: the cache may hang
    output.write(report, hidden)
    return report


def _own_texts(chosen: Iterable[Check]) -> list[str]:
    """What checks say in any case: texts of their files, and constants of their modules."""
    from ascend_doctor.redact.trees import texts_of

    files = list_rows(folder("matrices") / "checks")
    texts = CacheEntry.recall("own", files, lambda: [*texts_of(read_all())])
    modules = [vars(sys.modules[name]) for name in {check.run.__module__ for check in chosen}]
    rows = (row for module in modules for row in module.items() if row[0][:2] != "__")
    return [*texts, *LEVELS, *(value for _, value in rows if isinstance(value, str))]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """``device`` auto never falls back to cpu or cuda."""

    level: int
    device: str
    nproc: int | None
    timeout: float
    launch: tuple[str, ...] = ()
    asked: ProbeScope = NOTHING_ASKED
    expected: tuple[Expectation, ...] = ()

    def levels(self, facts: Snapshot, *, replayed: bool) -> tuple[LevelRun, ...]:
        """Every level: whether it can run here, and why not."""
        stop = self._stop(facts, replayed=replayed) or (len(LEVELS), "")
        return tuple(
            LevelRun(
                level=number,
                adds=adds,
                asked=number <= self.level,
                ran=number <= self.level and number < stop[0],
                reason=stop[1] if stop[0] <= number <= self.level else "",
            )
            for number, adds in enumerate(LEVELS)
        )

    def _stop(self, facts: Snapshot, *, replayed: bool) -> tuple[int, str] | None:
        if replayed:
            return 1, "a recorded machine can only be judged by its facts"
        if facts.python is None:
            reasons = [gap.reason for gap in facts.gaps if gap.section == "python"]
            return 1, f"no interpreter to examine: {reasons[0] if reasons else 'not collected'}"
        if self.device == "auto" and not has_npu(facts):
            return 2, _NO_DEVICE
        return None

    @property
    def judged_device(self) -> str:
        """The device that checks judge for; checks report a missing NPU."""
        return "npu" if self.device == "auto" else self.device

    def ranks(self, facts: Snapshot) -> int:
        if self.nproc is not None:
            return self.nproc
        if self.device == "cpu":
            return _CPU_RANKS
        return max(visible_npus(facts), 1)


def has_npu(facts: Snapshot) -> bool:
    """Whether a device file or npu-smi shows an NPU."""
    return bool(
        (facts.driver is not None and facts.driver.devices)
        or (facts.npus is not None and facts.npus.devices)
    )


def visible_npus(facts: Snapshot) -> int:
    """Devices of this machine after ASCEND_RT_VISIBLE_DEVICES."""
    count = len(facts.driver.devices) if facts.driver is not None else 0
    listed = (
        facts.environment.variables.get("ASCEND_RT_VISIBLE_DEVICES")
        if facts.environment is not None
        else None
    )
    return (
        count if listed is None else min(count, len([word for word in listed.split(",") if word]))
    )


class Probing(msgspec.Struct, frozen=True, kw_only=True):
    facts: Snapshot
    wish: Wish
    env: dict[str, str]

    def run(
        self, chosen: Sequence[Check], level: int, *, total: float, quiet: bool
    ) -> tuple[tuple[ProbeRun, ...], bool]:
        """Probe runs for the chosen checks, and whether they were interrupted."""
        probe_names = {check.probe for check in chosen if check.probe and check.level <= level}
        if not probe_names or self.facts.python is None:
            return (), False
        gc.enable()  # probes take minutes
        from ascend_doctor.probing.schedule import plan, run_all
        from ascend_doctor.progress import ProbeDisplay

        nproc = self.wish.ranks(self.facts)
        requests = [
            request
            for request in plan(
                level,
                device=self.wish.judged_device,
                nproc=nproc,
                extent=self.wish.asked.extent(nproc),
                python=self.facts.python.executable,
                env=self.env,
            )
            if request.probe in probe_names
        ]
        with ProbeDisplay(quiet=quiet) as display:
            display.expect(requests)
            try:
                return run_all(requests, total=max(total, 1.0), watch=display), False
            except KeyboardInterrupt:
                return tuple(display.runs.values()), True
