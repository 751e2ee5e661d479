"""The options that decide where a report goes and how it looks, shared by the commands."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from ascend_doctor.commands.options import defaulted, flag, repeated
from ascend_doctor.commands.options.format_option import FormatOption
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.facts import Python, Snapshot
from ascend_doctor.findings import Excerpt, Finding, Level
from ascend_doctor.machine.files import append_text, not_trusted, why_not_written, write_whole
from ascend_doctor.machine.kinds import SITE
from ascend_doctor.render.columns import page_width
from ascend_doctor.render.formats import FORMATS, format_of
from ascend_doctor.report import Report

if TYPE_CHECKING:
    from ascend_doctor.judging.acknowledged import Acknowledgement, Settings
    from ascend_doctor.judging.expectations import Expectation
    from ascend_doctor.redact import Redactor

F = TypeVar("F", bound=Callable[..., Any])

FILE = "ascend-doctor.yaml"
_ACKNOWLEDGED = " (acknowledged until "


def file_option(help_text: str) -> Callable[[F], F]:
    """``-o`` of a command that writes one text: ``file``, None for standard output or "-"."""
    return click.option(
        *("-o", "--output", "file"),
        metavar="FILE",
        callback=lambda _, __, file: None if file == "-" else file,
        help=help_text,
    )


redact_option = click.option(
    "--redact/--no-redact",
    default=None,
    help="Hide names, addresses and home folders. Secrets are hidden always.  [default: hide,"
    " but in text on a terminal]",
)


def redacts(asked: bool | None, *, shown: bool) -> bool:
    """Whether to hide names: as ``asked``, else wherever a text may travel.

    ``shown`` text goes only to standard output: on a terminal its paths are to be typed.
    """
    return not (shown and sys.stdout.isatty()) if asked is None else asked


def needs_terminal(*, show_redacted: bool) -> None:
    """Raises UsageError if hidden text would go to a file."""
    if show_redacted and not sys.stderr.isatty():
        raise click.UsageError("--show-redacted shows what is hidden, so it needs a terminal")


show_redacted_option = flag(
    "--show-redacted", help="Show on this terminal what is hidden, and as what."
)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """``targets`` are (format, file) pairs; a file of None is standard output.

    ``silent`` writes nothing there if all is well; ``issue`` turns Markdown into a bug report;
    ``show_redacted`` lists on the terminal what was hidden; ``acknowledged`` are known
    findings, ``expected`` what the site's file says of its machines.
    """

    targets: tuple[tuple[str, str | None], ...]
    fail_on: Level
    color: bool
    redact: bool
    verbose: bool
    quiet: bool
    silent: bool = False
    issue: bool = False
    show_redacted: bool = False
    acknowledged: tuple[Acknowledgement, ...] = ()
    expected: tuple[Expectation, ...] = ()

    def reachable_first(self) -> Output:
        """Standard output before files, which may hang."""
        return msgspec.structs.replace(
            self, targets=tuple(sorted(self.targets, key=lambda target: target[1] or ""))
        )

    def write(self, report: Report, hidden: Redactor) -> None:
        """Render every target. Files are replaced whole. Raises DataError."""
        known = [finding.check for finding in report.findings if _ACKNOWLEDGED in finding.title]
        if {name for name, _ in self.targets} == {"text"}:
            # People see few facts; redacting all would take longest.
            report = msgspec.structs.replace(report, snapshot=_head_facts(report.snapshot))
            if not self.verbose and not self.show_redacted and report.fleet is None:
                report = _without_unshown(report)
        if self.redact and not report.snapshot.redacted:
            facts = msgspec.structs.replace(hidden.apply(report.snapshot), redacted=True)
            rest = hidden.apply(msgspec.structs.replace(report, snapshot=Snapshot()))
            rest = _without_moved_columns(report, rest)
            report = msgspec.structs.replace(rest, redacted=True, snapshot=facts)
        elif not (self.redact and report.fleet):  # a merged one comes redacted
            report = _without_moved_columns(report, hidden.without_secrets(report))
        if known:  # also where all else is silent: somebody decided it
            click.echo(f"ascend-doctor: acknowledged: {', '.join(known)}", err=True)
        self.emit(
            report,
            lambda name, to_file: self.render(name, report, to_file=to_file),
            code=report.verdict.exit_code,
        )
        self.show_hidden(hidden)

    def emit(self, report: Report, render: Callable[[str, bool], str], *, code: int) -> None:
        """Write to each target what ``render`` makes of its format, and whether it is a file.

        ``code`` is the exit code; a step's page always shows the report.
        """
        for name, file in self.targets:
            text = render(name, file is not None)
            if file is not None:
                write_whole(file, text)
            elif code or not self.silent:
                # Colour is decided already: click would strip it without a terminal.
                click.echo(text, nl=False, color=True)
            if name == "github" and (code or not self.silent):
                _summarise(report)

    def show_hidden(self, hidden: Redactor) -> None:
        if self.show_redacted:
            show_hidden(hidden, color=self.color)

    def render(self, name: str, report: Report, *, to_file: bool) -> str:
        kind = "issue" if self.issue and name == "markdown" else f"formats.{name}"
        module = importlib.import_module(f"ascend_doctor.render.{kind}")
        if name != "text":
            rendered: str = module.render(report)
            return rendered
        text: str = module.render(report, verbose=self.verbose, **self.paper(to_file=to_file))
        return text

    def paper(self, *, to_file: bool) -> dict[str, Any]:
        """Colour, width and letters of a page for people."""
        encoding = "utf-8" if to_file else sys.stdout.encoding or "ascii"
        return {
            "color": self.color and not to_file,
            "width": page_width(),
            "ascii_only": "utf" not in encoding.lower(),
        }


def _without_moved_columns(before: Report, after: Report) -> Report:
    """``after`` without the columns of lines in which something was hidden."""
    findings = tuple(
        msgspec.structs.replace(new, excerpt=Excerpt(line=new.excerpt.line))
        if new.excerpt is not None and new.excerpt != old.excerpt
        else new
        for old, new in zip(before.findings, after.findings, strict=True)
    )
    return msgspec.structs.replace(after, findings=findings)


def _summarise(report: Report) -> None:
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if not page:
        return
    from ascend_doctor.render.issue import render

    append_text(page, render(report))


def show_hidden(hidden: Redactor, *, color: bool = False) -> None:
    """Show on the terminal what was hidden and as what."""
    from ascend_doctor.render.hidden import render

    width = page_width()
    ascii_only = "utf" not in (sys.stderr.encoding or "ascii").lower()
    page = render(hidden.hidden, color=color, width=width, ascii_only=ascii_only)
    click.echo(page, nl=False, err=True)


def _without_unshown(report: Report) -> Report:
    """Drop texts of findings that the page only counts: skipped or well, and unmeasured."""
    measured = any(level.ran and level.level for level in report.levels)
    counted = {Level.SKIPPED} if measured else {Level.SKIPPED, Level.OK}
    findings = tuple(
        Finding(check=finding.check, level=finding.level, title="", because_of=finding.because_of)
        if finding.level in counted
        else finding
        for finding in report.findings
    )
    return msgspec.structs.replace(report, findings=findings)


def _head_facts(facts: Snapshot) -> Snapshot:
    python = facts.python
    return Snapshot(
        redacted=facts.redacted,
        started=facts.started,
        host=facts.host,
        python=python and Python(version=python.version, executable=python.executable),
        probes=facts.probes,
    )


def put(file: str | None, text: str) -> None:
    """Write a file whole, or to standard output. Raises DataError with path and reason."""
    if file is None:
        click.echo(text, nl=False)
    else:
        write_whole(file, text)


def _gather(
    *,
    formats: tuple[str, ...],
    files: tuple[str, ...],
    fail_on: str,
    color: str,
    redact: bool | None,
    verbose: bool,
    quiet: bool,
    silent: bool,
    issue: bool,
    show_redacted: bool,
    config: str | None,
) -> Output:
    if issue and (redact is False or "markdown" not in formats):
        raise click.UsageError("--issue is a form of --format markdown, and always redacted")
    needs_terminal(show_redacted=show_redacted)
    site = _site(config)
    targets = _targets(formats, files)
    return Output(
        targets=targets,
        fail_on=Level(fail_on),
        color=_wants_color(color),
        redact=redacts(redact, shown=targets == (("text", None),) and not show_redacted),
        verbose=verbose,
        quiet=quiet,
        silent=silent,
        issue=issue,
        show_redacted=show_redacted,
        acknowledged=site.acknowledged if site else (),
        expected=site.expected if site else (),
    )


output_options = gather_options(
    "output",
    _gather,
    click.option(
        "--format",
        "formats",
        cls=FormatOption,
        multiple=True,
        type=click.Choice(FORMATS),
        help="Format of the report; repeatable.  [default: text]",
    ),
    repeated(
        "-o",
        "--output",
        "files",
        metavar="FILE",
        help="File of a format, - for standard output. Its ending says which format, else "
        "their order.",
    ),
    defaulted(
        "--fail-on",
        type=click.Choice(["error", "unknown", "warning"]),
        default="error",
        help="Lowest level that gives exit 1.",
    ),
    defaulted(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="NO_COLOR and FORCE_COLOR are honoured.",
    ),
    show_redacted_option,
    redact_option,
    flag("-v", "--verbose", help="Show what is well and what was skipped."),
    flag("-q", "--quiet", help="No progress on standard error."),
    flag("--silent", help="Print nothing where all is well."),
    flag("--issue", help="Make Markdown a paste for a bug report, folded and short."),
    click.option(
        "--config",
        metavar="FILE",
        type=InputFile(SITE),
        help="What is expected here, and findings to live with."
        f"  [default: {FILE} here, where there is one]",
    ),
)


def _site(config: str | None) -> Settings | None:
    if config is None and not os.path.isfile(FILE):
        return None
    # Others who can write to the folder could hide findings.
    if config is None and (why := not_trusted(FILE)):
        warning_ = f"ascend-doctor: ./{FILE} is not obeyed: {why}; --config {FILE} takes it"
        click.echo(warning_, err=True)
        return None
    from ascend_doctor.judging.acknowledged import read_settings

    return read_settings(config or FILE)


def _targets(
    formats: tuple[str, ...], files: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    """Formats and files: by the files' endings, the others in order."""
    targets: list[tuple[str, str | None]] = []
    left = list(formats)
    waiting = []
    for file in files:
        name = format_of(file)
        if name in left:
            left.remove(name)
            targets.append((name, file))
        else:
            waiting.append((file, name))
    if waiting and len(waiting) < len(left):
        raise click.UsageError(
            f"-o {waiting[0][0]}: is it for {' or '.join(left)}? Give each format its -o, - for "
            "standard output, or the file an ending that names the format"
        )
    for file, name in waiting:
        if not (left or name):
            raise click.UsageError(f"-o {file}: give its --format; the ending does not name one")
        targets.append((left.pop(0) if left else name, None if file == "-" else file))
    targets += [(name, None) for name in left]
    if sum(target is None for _, target in targets) > 1:
        raise click.UsageError("only one format can go to standard output; give the others an -o")
    for _, target in targets:
        if target is not None:
            _can_be_written(target)
    return tuple(targets) or (("text", None),)


def _can_be_written(file: str) -> None:
    if why := why_not_written(file):
        raise click.UsageError(f"-o {file or repr(file)}: {why}")


def _wants_color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
