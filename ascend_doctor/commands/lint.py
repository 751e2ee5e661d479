"""``ascend-doctor lint``: judge a launch as the user has it, without running it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor import __version__
from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.check_filter import choose, selection_options
from ascend_doctor.commands.options.launch import read_megatron
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import Output, output_options
from ascend_doctor.commands.options.stack import ExactLint, exact_options
from ascend_doctor.commands.short_help import ShortHelpCommand
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_UNKNOWN
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Excerpt, Finding, Level, Remedy, quantity
from ascend_doctor.language import say
from ascend_doctor.linting.documents import why_unread
from ascend_doctor.linting.exact import split_launch
from ascend_doctor.linting.fixing import Judgement, mend, show_changes
from ascend_doctor.linting.inputs import (
    MOST_BYTES,
    LintInput,
    decode,
    is_yaml,
    of_command,
    read,
    refuse_binary,
    subjects,
    walk,
)
from ascend_doctor.linting.launch_checks import findings, machine, unique
from ascend_doctor.linting.shellcheck import run_shellcheck
from ascend_doctor.machine.files import is_there, write_whole
from ascend_doctor.machine.kinds import CONFIGURATION, SCRIPT, refuse_other, refuse_other_content
from ascend_doctor.redact import Redactor, local_key
from ascend_doctor.render.notices import notice
from ascend_doctor.render.plain import one_line
from ascend_doctor.report import Report, verdict

if TYPE_CHECKING:
    from ascend_doctor.judging.judge import Check
    from ascend_doctor.matrix.catalog import Catalog

# Of a longer line an excerpt has the beginning.
_MOST_LINE = 1000
_USUAL = "megatron soc allow_unresolved fix hook here exact python prefix only formats files"
_MORE = "With a stack more is judged: ascend-doctor lint --exact --python PYTHON FILE"
_NO_LAUNCH = "No launch of a training is known here; shell and variables are judged."
_TO_GIVE = "give what starts the training, or append its command after `--`"


@click.command("lint", cls=ShortHelpCommand, usual=_USUAL)
@click.option("--megatron", default="", metavar="X", help="Version of Megatron-LM that it is for.")
@click.option("--soc", default="", metavar="S", help="Chip that it is for: Ascend910B3 or A3.")
@flag(
    "--allow-unresolved",
    help="Accept values that only the running shell knows; what needs them is not judged.",
)
@flag(
    "--fix",
    help="Mend slips of which one thing can be meant; show these, and other changes, as a diff.",
)
@click.option(
    "--stdin-filename", default="-", metavar="F", help="Name of what - reads, as editors give it."
)
@flag("--hook", help="For commit hooks: skip files without a launch; unknown values do not fail.")
@flag("--here", help="Judge it with the facts of this machine, too.")
@exact_options
@matrix_option
@selection_options
@output_options
@click.argument(
    "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[FILE|DIR...] [-- COMMAND...]"
)
def command(
    *,
    megatron: str,
    soc: str,
    here: bool,
    hook: bool,
    fix: bool,
    stdin_filename: str,
    allow_unresolved: bool,
    exact: ExactLint | None,
    overlays: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    output: Output,
    arguments: tuple[str, ...],
) -> int:
    """Judge launch scripts, configurations, pods and Python entry files; nothing is run.

    FILE is a shell script, YAML of verl or Kubernetes, or Python; - is a script from standard
    input. Of a folder all such files are judged, of Python those that are run by themselves. A
    COMMAND behind -- is judged as it stands.

    \b
    Exit codes: 0 nothing found, 1 findings at or above --fail-on, 2 bad usage or bad data,
    3 nothing worse than "could not tell", or values that the file leaves to its shell.
    """
    start = time.monotonic()
    sources, words = _split(arguments, sys.argv)
    files = _find_files(sources, words)
    rows = catalog(overlays)
    base = _machine(rows, read_megatron(megatron), soc, here=here)
    if fix and "-" in files:
        raise click.UsageError("--fix changes files, and - is none")
    chosen = tuple(check for check in choose(only, skip, level=0) if check.scope)
    if fix:
        _mend(files, rows, base, chosen)
    contents: dict[str, bytes] = {}
    judged = _of_files(files, stdin_filename, rows, contents, sources)
    inputs, unread = _divide(tuple(judged), hook=hook)
    inputs += of_command(words, rows) if words else ()
    inputs = exact.ask(inputs) if exact else inputs
    if hook and not inputs:
        return 0
    if contents and not words and not any(content.strip() for content in contents.values()):
        raise DataError(f"{files[0]}: nothing is in it; {_TO_GIVE}")
    if inputs and all(_is_of_shell(each) for each in inputs):
        click.echo(say(_NO_LAUNCH), err=True)
    unseen_ok = allow_unresolved or hook
    judge = functools.partial(findings, base=base, catalog=rows, chosen=chosen)
    by_input = (judge(each, allow_unresolved=unseen_ok) for each in inputs)
    shown = unique(tuple(itertools.chain.from_iterable(by_input)))
    _add_sourced(shown, contents)
    shown = _with_lines((*shown, *unread), contents)
    report = _report(shown, base, output, time.monotonic() - start)
    output.write(report, Redactor(key=local_key()))
    if not (exact or hook or output.quiet) and any(map(split_launch, inputs)):
        click.echo(say(_MORE), err=True)
    return 0 if hook and report.verdict.exit_code == EXIT_UNKNOWN else report.verdict.exit_code


def _divide(
    judged: Sequence[LintInput | Finding], *, hook: bool
) -> tuple[list[LintInput], list[Finding]]:
    inputs = [each for each in judged if isinstance(each, LintInput)]
    if not hook:
        return inputs, [each for each in judged if isinstance(each, Finding)]
    files = {
        each.file
        for each in inputs
        if not _is_of_shell(each) or (each.environment is not None and each.environment.variables)
    }
    return [each for each in inputs if each.file in files], []


def _find_files(sources: Sequence[str], words: Sequence[str]) -> list[str]:
    if not sources and not words:
        raise click.UsageError("give a file, or a command behind --")
    if sources and not is_there(sources[0]) and shutil.which(sources[0]):
        raise click.UsageError(f"{sources[0]}: no such file; append a command after `--`")
    for source in sources:
        refuse_other(source, SCRIPT, CONFIGURATION)
    files = list(walk(sources))
    if sources and not files:
        raise DataError(f"{sources[0]}: no script, YAML or Python program in it; {_TO_GIVE}")
    return files


def _split(arguments: Sequence[str], argv: Sequence[str]) -> tuple[list[str], list[str]]:
    if "--" not in argv:
        return list(arguments), []
    words = list(argv[argv.index("--") + 1 :])
    return list(arguments[: len(arguments) - len(words)]), words


def _mend(files: Sequence[str], rows: Catalog, base: Snapshot, chosen: tuple[Check, ...]) -> None:
    for path in files:

        @functools.cache
        def judge(content: bytes, path: str = path) -> Judgement:
            inputs = subjects(path, content, rows, run_shellcheck)
            return Judgement(
                tuple(
                    mark
                    for subject in inputs
                    if subject.shell_script is not None
                    for mark in subject.shell_script.marks
                ),
                tuple(
                    finding
                    for subject in inputs
                    for finding in findings(subject, base, rows, chosen)
                ),
            )

        content = read(path)
        better = mend(content, path, judge)
        if better != content:
            write_whole(path, better)
            pairs = zip(content.split(b"\n"), better.split(b"\n"), strict=True)
            count = sum(before != after for before, after in pairs)
            what = say(f"{path}: {quantity(count, 'line')} mended")
            for line in (what, *show_changes(content, better, path)):
                click.echo(one_line(line), err=True)


def _of_files(
    files: Sequence[str], name: str, rows: Catalog, contents: dict[str, bytes], named: Sequence[str]
) -> Iterator[LintInput | Finding]:
    """What to judge, or why not; ``contents`` gets files. A binary is an error if ``named``."""
    for path in files:
        if path == "-":
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise DataError(f"standard input is larger than {MOST_BYTES >> 20} MiB")
            path = name  # noqa: PLW2901 - as editors give it
            refuse_other_content(content, path, SCRIPT, CONFIGURATION)
            refuse_binary(path, content)
        else:
            try:
                content = read(path)
            except DataError as error:
                if path in named:
                    raise
                notice(str(error))
                continue
        contents[path] = content
        yield from subjects(path, content, rows, run_shellcheck)
        # An unreadable file may hold a launch.
        if is_yaml(path) and (why := why_unread(decode(content))):
            yield Finding(
                check="lint",
                level=Level.UNKNOWN,
                title=f"{path} cannot be read as YAML",
                observed=why,
                remedy=Remedy(summary="Mend it; of a template, give what it renders to"),
            )


def _is_of_shell(subject: LintInput) -> bool:
    launched = subject.launch is not None and subject.launch.present
    return not launched and subject.script is None and subject.pods is None


def _add_sourced(findings: tuple[Finding, ...], contents: dict[str, bytes]) -> None:
    for finding in findings:
        where = finding.location
        if where is not None and where.file not in contents and os.path.isfile(where.file):
            with contextlib.suppress(DataError):
                contents[where.file] = read(where.file)


def _with_lines(findings: tuple[Finding, ...], contents: dict[str, bytes]) -> tuple[Finding, ...]:
    lines = {
        path: content.decode("utf-8", "replace").split("\n") for path, content in contents.items()
    }

    def quote(finding: Finding) -> Finding:
        where = finding.location
        own = lines.get(where.file, []) if where is not None else []
        if where is None or not 0 < where.line <= len(own):
            return finding
        line = own[where.line - 1].rstrip("\r")[:_MOST_LINE]
        # A column behind the end of what is kept would point nowhere.
        column = where.column if where.column <= len(line) + 1 else 0
        return msgspec.structs.replace(finding, excerpt=Excerpt(line=line, column=column))

    return tuple(map(quote, findings))


def _machine(rows: Catalog, megatron: str, soc: str, *, here: bool) -> Snapshot:
    snapshot = machine(megatron, rows.chip_called(soc) if soc else "")
    if not here:
        return snapshot
    from ascend_doctor.collect.snapshot import take
    from ascend_doctor.machine.live import LiveMachine

    facts = take(LiveMachine(), rows)
    return msgspec.structs.replace(
        facts, python=snapshot.python or facts.python, npus=snapshot.npus or facts.npus
    )


def _report(
    findings: tuple[Finding, ...], base: Snapshot, output: Output, seconds: float
) -> Report:
    if not findings:
        title = "nothing in these files launches a training that the doctor knows"
        remedy = Remedy(summary="Give what starts the training, or append its command after `--`")
        findings = (Finding(check="lint", level=Level.UNKNOWN, title=title, remedy=remedy),)
    return Report(
        tool_version=__version__,
        taken_at=base.taken_at,
        host="",
        python="",
        device="npu",
        simulated=False,
        redacted=False,
        levels=(),
        verdict=verdict(findings, fail_on=output.fail_on),
        findings=findings,
        snapshot=base,
        seconds=round(seconds, 3),
    )
