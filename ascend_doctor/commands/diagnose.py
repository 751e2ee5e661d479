"""``ascend-doctor diagnose``: known failures in logs, the root cause first."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
import msgspec

from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.diagnosis.conclude import conclude
from ascend_doctor.diagnosis.ledger import Ledger
from ascend_doctor.diagnosis.logs import Skipped, find
from ascend_doctor.diagnosis.patterns import Patterns
from ascend_doctor.diagnosis.places import Places
from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.diagnosis.scan import read
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_INTERRUPTED
from ascend_doctor.findings import Finding
from ascend_doctor.redact import ours
from ascend_doctor.render import diagnosis as page
from ascend_doctor.render.json import pretty


@click.command("diagnose")
@click.argument("logs", metavar="LOG...|DIR|-", nargs=-1, required=True)
@click.option(
    "--check",
    "now",
    is_flag=True,
    help="Ask whether this machine shows the cause now: the static checks that look for it.",
)
@click.option(
    "--node-rank",
    type=click.IntRange(0),
    help="The number of the node whose logs these are, where they do not say it.",
)
@matrix_option
@output_options
def command(
    *,
    logs: tuple[str, ...],
    now: bool,
    node_rank: int | None,
    overlays: tuple[str, ...],
    output: Output,
) -> int:
    """Find known failures in logs: the root cause, the guilty rank, and what to do.

    Takes files, folders (of torchrun, Ray, Kubernetes, CANN's plog), archives (tar, zip), gzip,
    xz, bzip2 and zstd, and - for standard input.

    \b
    Exit codes: 0 nothing known found, 1 a known failure at or above --fail-on, 2 bad usage or a
    log that cannot be read, 3 an error that is not in the catalogue, 130 interrupted.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped
    start = time.monotonic()
    matrix = catalog(overlays)
    named, skipped = find(logs)
    failures = matrix.failures
    patterns = Patterns(failures.values())
    ledger = Ledger(places=Places(node_rank=node_rank))
    interrupted = False
    try:
        for log in named:
            skipped += read(log, patterns, failures, ledger)
    except KeyboardInterrupt:
        skipped += [
            Skipped(name=log.name, reason="interrupted") for log in named[ledger.files - 1 :]
        ]
        interrupted = True
    if not ledger.size:
        raise DataError(_why_nothing(logs, skipped))
    diagnosis = conclude(
        ledger, failures, matrix.error_codes, skipped=skipped, fail_on=output.fail_on
    )
    hidden = ours(others=diagnosis.nodes)
    if output.redact:
        diagnosis = msgspec.structs.replace(hidden.apply(diagnosis), redacted=True)
    else:
        diagnosis = hidden.without_secrets(diagnosis)
    if now:
        diagnosis = msgspec.structs.replace(
            diagnosis, now=_now(diagnosis, overlays, redact=output.redact)
        )
    diagnosis = msgspec.structs.replace(
        diagnosis, paste=page.paste(diagnosis), seconds=round(time.monotonic() - start, 3)
    )
    output.emit(
        page.as_report(diagnosis, output.fail_on),
        lambda name, to_file: _render(name, diagnosis, output, to_file=to_file),
        code=diagnosis.exit_code,
    )
    output.show_hidden(hidden)
    return EXIT_INTERRUPTED if interrupted else diagnosis.exit_code


def _why_nothing(logs: Sequence[str], skipped: Sequence[Skipped]) -> str:
    """Why no log could be read, by the first of those that were named."""
    reasons = [f"{log.name}: {log.reason}" for log in skipped if log.name in set(logs)]
    return reasons[0] if reasons else f"{logs[0]}: there is nothing in it to read"


def _now(diagnosis: Diagnosis, overlays: tuple[str, ...], *, redact: bool) -> tuple[Finding, ...]:
    """What the static checks that look for the causes find on this machine."""
    from ascend_doctor.checks import all_checks  # noqa: PLC0415 - all checks, only where asked for
    from ascend_doctor.commands.options.target import Examination  # noqa: PLC0415 - as above
    from ascend_doctor.judging.judge import Case, judge  # noqa: PLC0415 - as above
    from ascend_doctor.machine.live import LiveMachine  # noqa: PLC0415 - as above

    ids = {name for cause in diagnosis.causes for name in cause.caught_by}
    chosen = [check for check in all_checks() if check.id in ids and check.level == 0]
    if not chosen:
        return ()
    examination = Examination(LiveMachine(), overlays=overlays)
    facts, hidden = examination.collect()
    findings = judge(Case(facts=facts, catalog=examination.catalog), chosen)
    clean = hidden.apply if redact else hidden.without_secrets
    return tuple(clean(finding) for finding in findings)


def _render(name: str, diagnosis: Diagnosis, output: Output, *, to_file: bool) -> str:
    if name == "json":
        return pretty(diagnosis)
    if name == "text":
        return page.render(diagnosis, verbose=output.verbose, **output.paper(to_file=to_file))
    return output.render(name, page.as_report(diagnosis, output.fail_on), to_file=to_file)
