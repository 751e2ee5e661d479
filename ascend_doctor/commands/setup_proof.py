"""Runs the stack that setup built: the check at a level, and the import checks of documents."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ascend_doctor import timestamps
from ascend_doctor.checks import all_checks
from ascend_doctor.commands.check import Wish, has_npu, make_report
from ascend_doctor.commands.env import environment
from ascend_doctor.commands.options.output import Output
from ascend_doctor.commands.options.probe_scope import NOTHING_ASKED, ProbeScope
from ascend_doctor.commands.options.target import Examination
from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.expectations import Expectation
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.recorded import OverlayMachine
from ascend_doctor.machine.waiting import MORE
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_records.training import SmokeTrainRecord
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.lock import Lock, Proof, environment_of
from ascend_doctor.report import Report

REHEARSE = "rehearse"
_REHEARSED = 3
# Two kinds of groups at once, as tensor and data, need four.
_RANKS = 4
_IMPORT = 600.0
_TIMES = {0: 300.0, 1: 900.0}
_ANY_NPUS = Expectation(key="npus", operator=">=", value="0")
_TIME = 3600.0


def level_of(name: str) -> int:
    """The level of ``--prove``; a rehearsal has level 3."""
    return _REHEARSED if name == REHEARSE else int(name)


@dataclass(kw_only=True)
class Prover:
    """Runs a stack at ``level``. ``exit_code`` is that of the check, once run."""

    level: int
    simulated: bool
    overlays: tuple[str, ...]
    quiet: bool
    exit_code: int = 0

    @classmethod
    def of(cls, name: str, facts: Snapshot, *, overlays: tuple[str, ...], quiet: bool) -> "Prover":
        """For ``--prove``: without an NPU everything above level 0 is simulated."""
        level = level_of(name)
        simulated = name == REHEARSE or (level > 0 and not has_npu(facts))
        return cls(level=level, simulated=simulated, overlays=overlays, quiet=quiet)

    def __call__(self, folder: Path, lock: Lock) -> Proof:
        proof = Proof(level=self.level, simulated=self.simulated, date=timestamps.now())
        if lock.failed:  # or the check finds that proof in the lock, and fails for it again
            locks.write(folder / locks.FILE, msgspec.structs.replace(lock, proof=None))
        try:
            return self._prove(proof, folder, lock)
        except DataError:
            raise
        except DoctorError as error:  # as where there is no compiler for the stand-in CANN
            return msgspec.structs.replace(proof, unknown=(f"could not be run: {error}",))

    def _prove(self, proof: Proof, folder: Path, lock: Lock) -> Proof:
        python = str(environment_of(folder, lock) / "bin" / "python")
        examination = self.examine(folder, python, lock)
        output = Output(
            targets=(("text", None),),
            fail_on=Level.ERROR,
            color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
            redact=False,
            verbose=False,
            quiet=self.quiet,
        )
        wish = Wish(
            level=self.level,
            device="npu" if self.simulated else "auto",
            nproc=_RANKS if self.simulated else None,
            timeout=_TIMES.get(self.level, _TIME),
            # Without NPUs a stack is simulated from level 1 on.
            expected=() if self.simulated else (_ANY_NPUS,),
            asked=ProbeScope(sizes={}, small=True) if self.simulated else NOTHING_ASKED,
        )
        report = make_report(examination, output, wish, only=(), skip=())
        if report.interrupted:
            raise KeyboardInterrupt  # nothing is proven, and the lock says nothing
        self.exit_code = report.verdict.exit_code
        passed, failed, late = self._imports(
            examination.catalog, python, examination.machine.env, lock
        )
        runs = report.snapshot.probes
        return msgspec.structs.replace(
            proof,
            probes=tuple(dict.fromkeys(run.probe for run in runs if run.exit_code == 0)),
            imports=passed,
            failed=(
                *_findings(report, lambda each: each.accepted or each.level is Level.ERROR),
                *failed,
            ),
            unknown=(
                *_levels_not_run(report),
                *_findings(report, lambda each: each.level is Level.UNKNOWN),
                *late,
            ),
            losses=_losses(runs),
        )

    def examine(self, folder: Path, python: str, lock: Lock) -> Examination:
        """A real or simulated machine whose shell sourced the stack's variables."""
        file = str(folder / locks.FILE)
        if not self.simulated:
            machine = LiveMachine(environment(LiveMachine(), folder, lock))
            return Examination(machine, python=python, overlays=self.overlays, lock=file)
        return Examination(
            _simulate_server(folder, python, lock),
            python=python,
            overlays=self.overlays,
            lock=file,
            simulated=True,
        )

    def _imports(
        self, rows: Catalog, python: str, env: Mapping[str, str], lock: Lock
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Components whose documented import check passed, failed, and had no end."""
        passed, failed, late = list[str](), list[str](), list[str]()
        for name, code in _import_checks(rows, lock) if self.level else ():
            machine, seconds = LiveMachine(env), _IMPORT
            done = machine.run([python, "-c", code], deadline=seconds)
            if done.timed_out:
                seconds *= MORE
                done = machine.run([python, "-c", code], deadline=seconds)
            if done.exit_code == 0:
                passed.append(name)
            elif done.timed_out:
                load = f"; machine busy, {done.load}" if done.load else ""
                late.append(
                    f"the documented import check of {name} has no end within {seconds:.0f} s, at "
                    f"the second try{load}"
                )
            else:
                last = next(reversed(done.stderr.strip().splitlines()), "it ended without a word")
                failed.append(f"the documented import check of {name} fails: {last}")
        return tuple(passed), tuple(failed), tuple(late)


def _import_checks(rows: Catalog, lock: Lock) -> Iterator[tuple[str, str]]:
    for name, version in lock.rows.items():
        check = rows.component(name).import_check(version)
        if check is not None:
            yield name, check.code


def _levels_not_run(report: Report) -> Iterator[str]:
    """A level that did not run proves nothing."""
    for level in report.levels:
        if level.asked and not level.ran:
            yield f"level {level.level} did not run: {level.reason}"


def _findings(report: Report, counts: Callable[[Finding], bool]) -> Iterator[str]:
    probing = {check.id for check in all_checks() if check.probe} | {"stack-lock", "early-end"}
    for finding in report.findings:
        if finding.check in probing and counts(finding):
            title = finding.title.removeprefix(f"{finding.check}: ")
            yield f"{finding.check}: {title}"


def _losses(runs: Iterable[ProbeRun]) -> dict[str, tuple[float, ...]]:
    losses = dict[str, tuple[float, ...]]()
    for run in runs:
        if run.probe != "smoke-train" or not run.ranks:
            continue
        record = run.ranks[0].record_or_none(SmokeTrainRecord)
        for name, layout in record.layouts.items() if record else ():
            steps = [loss for loss in layout.losses if isinstance(loss, float)]
            if steps and len(steps) == len(layout.losses):
                losses[f"{run.probe} {name}"] = tuple(round(loss, 5) for loss in steps)
    return losses


def _simulate_server(folder: Path, python: str, lock: Lock) -> OverlayMachine:
    from ascend_doctor.simulator import CANN, build, machine

    server, live = machine("a2-8"), LiveMachine()
    tree = build(Path(python), cann=lock.system.get("cann") or CANN)
    recording = server.record()
    bare = OverlayMachine(recording, live, server.environment(tree, os.environ, []))
    return OverlayMachine(recording, live, environment(bare, folder, lock))
