"""``ascend-doctor diagnose``: known failures in logs, the root cause first."""

import sys
import time
from collections.abc import Sequence

import click
import msgspec

from ascend_doctor.collect.python import active
from ascend_doctor.commands.options import flag, repeated
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.options.verdict import (
    VerdictOptions,
    exit_code_of,
    show_verdict,
    verdict_options,
)
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.diagnosis.job import JobOptions, read_job
from ascend_doctor.diagnosis.logs import Log, Skipped, find, read_around
from ascend_doctor.diagnosis.next_step import PLOGS, choose_next
from ascend_doctor.diagnosis.result import Diagnosis, NotRead
from ascend_doctor.diagnosis.stall_files import read_stall_files
from ascend_doctor.diagnosis.suspects import find_suspects
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_INTERRUPTED
from ascend_doctor.findings import Finding
from ascend_doctor.machine.kinds import (
    ARCHIVE,
    HEAD_BYTES,
    LOG,
    REPORT_ARCHIVE,
    refuse_other_content,
)
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.redact import Redactor, ours
from ascend_doctor.render import diagnosis as page
from ascend_doctor.render.formats.json import pretty

_AROUND = 6  # lines on each side of the cause
_USUAL = "verdict exit_verdict history nodes now good formats files redact verbose fail_on"


@click.command("diagnose", cls=ShortHelpCommand, usual=_USUAL)
@click.argument(
    "logs", metavar="LOG...|DIR|-", nargs=-1, type=InputFile(LOG, ARCHIVE, REPORT_ARCHIVE)
)
@flag(
    "--check",
    "now",
    help="Ask whether this machine shows the cause now: static checks, packages of a traceback.",
)
@click.option(
    "--node-rank",
    type=click.IntRange(0),
    help="The number of the node whose logs these are, where they do not say it.",
)
@click.option(
    "--exit-status",
    metavar="N",
    type=int,
    help="What the run ended with. Not 0: no step after an error says that it was got over.",
)
@repeated(
    "--good",
    metavar="LOG|DIR",
    type=InputFile(LOG, ARCHIVE),
    help="Logs of a good run of the same job: list the lines that only the failed run has.",
)
@verdict_options
@matrix_option
@output_options
def command(
    *,
    logs: tuple[str, ...],
    now: bool,
    good: tuple[str, ...],
    asked: VerdictOptions,
    overlays: tuple[str, ...],
    output: Output,
    **known: int | None,
) -> int:
    """Find known failures in logs: the root cause, the guilty rank, and what to do.

    Takes files, folders (of torchrun, Ray, Kubernetes, CANN's plog), archives (tar, zip), gzip,
    xz, bzip2 and zstd, and - for standard input. A folder may have what was gathered of a hang:
    dumps of the flight recorder of torch_npu or PyTorch, and stacks of the ranks. The verdict says
    what a scheduler should do: restart, exclude NODE, stop, or unknown.

    \b
    Exit codes: 0 nothing known found and the run got on, 1 a known failure at or above --fail-on,
    2 bad usage or a log that cannot be read, 3 an error that is not in the catalogue, or nothing
    that shows a run getting on, 130 interrupted. With --exit-verdict: 75 restart, 69 exclude, 78
    stop, 3 could not tell, 0 no failure.
    """
    if not logs:
        raise click.UsageError("give a log, a folder of logs, or - for standard input")
    if "-" in logs:
        refuse_other_content(_peek_input(), "-", LOG, ARCHIVE, REPORT_ARCHIVE)
    if good and "-" in (*logs, *good):
        raise click.UsageError("--good compares files and folders, not standard input")
    asked.check_targets(output)
    return conduct(logs, asked=asked, overlays=overlays, output=output, now=now, good=good, **known)


def conduct(
    logs: tuple[str, ...],
    *,
    asked: VerdictOptions,
    overlays: tuple[str, ...],
    output: Output,
    now: bool = False,
    good: tuple[str, ...] = (),
    **known: int | None,
) -> int:
    """Diagnose and report; gives the exit code."""
    start = time.monotonic()
    matrix = catalog(overlays)
    stalled = read_stall_files(logs)
    named, skipped = find(logs, without=frozenset(stalled.paths))
    skipped += [Skipped(name=name, reason=why) for name, why in stalled.unreadable]
    machine = LiveMachine() if now else None
    options = JobOptions(
        fail_on=output.fail_on,
        nodes=asked.nodes,
        history=asked.history,
        stall=stalled.judge(),
        machine=machine,
        interpreter=(active(machine) or "") if machine else "",
        **known,
    )
    reader = read_job(matrix, options)
    diagnosis = reader.diagnose(
        named, skipped, conceal=lambda node: ours(others=(node,)).apply(node)
    )
    if not diagnosis.bytes and diagnosis.stall is None:
        raise _explain_nothing(logs, diagnosis.not_read)
    if good:
        suspects = find_suspects(named, find(good)[0])
        diagnosis = msgspec.structs.replace(diagnosis, suspects=suspects)
    if "html" in dict(output.targets):
        diagnosis = _add_excerpt(diagnosis, named)
    # A scheduler needs true names, whatever the page hides.
    real = diagnosis.verdict
    hidden = ours(others=_names(diagnosis))
    diagnosis = _finish(diagnosis, hidden, overlays if now else None, output, start)
    following = _choose_next(diagnosis, logs, hidden, output)
    _emit(diagnosis, asked, output, following)
    if asked.line and real:
        show_verdict(diagnosis.verdict if asked.redact and diagnosis.verdict else real)
    output.show_hidden(hidden)
    if reader.interrupted:
        return EXIT_INTERRUPTED
    return exit_code_of(diagnosis) if asked.exit_verdict else diagnosis.exit_code


def _add_excerpt(diagnosis: Diagnosis, logs: Sequence[Log]) -> Diagnosis:
    seen = page.first_evidence(diagnosis)
    log = next((log for log in logs if seen and log.name == seen.file), None)
    rows = read_around(log, seen.line, _AROUND) if log and seen else ()
    return msgspec.structs.replace(diagnosis, excerpt=tuple(rows))


def _peek_input() -> bytes:
    """The first bytes of standard input, left unread; none of some streams."""
    peek = getattr(sys.stdin.buffer, "peek", None)
    return peek(HEAD_BYTES) if peek else b""


def _emit(diagnosis: Diagnosis, asked: VerdictOptions, output: Output, following: str) -> None:
    asked.report(output).emit(
        page.as_report(diagnosis, output.fail_on),
        lambda name, to_file: _render(name, diagnosis, output, following, to_file=to_file),
        code=diagnosis.exit_code,
    )


def _finish(
    diagnosis: Diagnosis,
    hidden: Redactor,
    overlays: tuple[str, ...] | None,
    output: Output,
    start: float,
) -> Diagnosis:
    """The diagnosis as shown; with ``overlays`` plus what this machine shows now."""
    if output.redact:
        diagnosis = msgspec.structs.replace(hidden.apply(diagnosis), redacted=True)
    else:
        diagnosis = hidden.without_secrets(diagnosis)
    if overlays is not None:
        diagnosis = msgspec.structs.replace(
            diagnosis, now=_now(diagnosis, overlays, redact=output.redact)
        )
    return msgspec.structs.replace(
        diagnosis, paste=page.paste(diagnosis), seconds=round(time.monotonic() - start, 3)
    )


def _choose_next(
    diagnosis: Diagnosis, logs: Sequence[str], hidden: Redactor, output: Output
) -> str:
    text = choose_next(diagnosis, logs)
    return hidden.apply(text) if output.redact else text


def _names(diagnosis: Diagnosis) -> tuple[str, ...]:
    verdict = diagnosis.verdict
    if verdict is None:
        return diagnosis.nodes
    remembered = {node for attempt in verdict.attempts for node in attempt.nodes}
    remembered |= set(diagnosis.guilty.serials if diagnosis.guilty else ())
    return (*diagnosis.nodes, *verdict.nodes, *verdict.suspects, *sorted(remembered))


def _explain_nothing(logs: Sequence[str], skipped: Sequence[NotRead]) -> DataError:
    for log in skipped:
        if log.name in set(logs):
            return DataError(f"{log.name}: {log.reason}")
    return DataError(
        f"{logs[0]}: there is nothing in it to read; "
        f"`ascend-doctor diagnose {PLOGS}` reads what CANN wrote"
    )


def _now(diagnosis: Diagnosis, overlays: tuple[str, ...], *, redact: bool) -> tuple[Finding, ...]:
    from ascend_doctor.checks import all_checks
    from ascend_doctor.commands.options.target import Examination
    from ascend_doctor.judging.judge import Case, judge

    ids = {name for cause in diagnosis.causes for name in cause.caught_by}
    chosen = [check for check in all_checks() if check.id in ids and check.level == 0]
    if not chosen:
        return ()
    examination = Examination(LiveMachine(), overlays=overlays)
    facts, hidden = examination.collect()
    findings = judge(Case(facts=facts, catalog=examination.catalog), chosen)
    clean = hidden.apply if redact else hidden.without_secrets
    return tuple(clean(finding) for finding in findings)


def _render(
    name: str, diagnosis: Diagnosis, output: Output, next_step: str, *, to_file: bool
) -> str:
    if name == "json":
        return pretty(diagnosis)
    if name == "text":
        paper = output.paper(to_file=to_file)
        return page.render(diagnosis, verbose=output.verbose, next_step=next_step, **paper)
    if name == "html":
        from ascend_doctor.render import diagnosis_html

        return diagnosis_html.render(diagnosis, next_step=next_step)
    return output.render(name, page.as_report(diagnosis, output.fail_on), to_file=to_file)
