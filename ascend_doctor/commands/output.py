"""The options that decide where a report goes and how it looks, shared by the commands."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.facts import Python, Snapshot
from ascend_doctor.findings import Level
from ascend_doctor.redact import Redactor
from ascend_doctor.render import FORMATS, SUFFIXES
from ascend_doctor.report import Report

if TYPE_CHECKING:
    from ascend_doctor.acknowledged import Acknowledgement

F = TypeVar("F", bound=Callable[..., Any])

FILE = "ascend-doctor.yaml"


def _no_dash(_: click.Context, __: click.Parameter, file: str | None) -> str | None:
    return None if file == "-" else file


def file_option(told: str) -> Callable[[F], F]:
    """``-o`` of a command that writes one text: ``file``, None for standard output or "-"."""
    return click.option("-o", "--output", "file", metavar="FILE", callback=_no_dash, help=told)


redact_option = click.option(
    "--redact/--no-redact",
    default=True,
    show_default=True,
    help="Hide names, addresses, home folders and secrets.",
)


@dataclass(frozen=True, kw_only=True)
class Output:
    """``targets`` are (format, file) pairs; a file of None is standard output.

    ``silent`` writes nothing there where all is well; ``issue`` makes a paste for a bug report of
    Markdown; ``acknowledged`` are findings to live with.
    """

    targets: tuple[tuple[str, str | None], ...]
    fail_on: Level
    color: bool
    redact: bool
    verbose: bool
    quiet: bool
    silent: bool = False
    issue: bool = False
    acknowledged: tuple[Acknowledgement, ...] = ()

    def write(self, report: Report, hidden: Redactor) -> None:
        """Render every target. Files are replaced whole. Raises DataError."""
        if {name for name, _ in self.targets} == {"text"}:
            # People are shown little of the facts; redacting all of them would take the longest.
            report = msgspec.structs.replace(report, snapshot=_shown(report.snapshot))
        if self.redact and not report.snapshot.redacted:
            facts = msgspec.structs.replace(hidden.apply(report.snapshot), redacted=True)
            report = msgspec.structs.replace(hidden.apply(report), redacted=True, snapshot=facts)
        for name, file in self.targets:
            text = self._render(name, report, to_file=file is not None)
            if file is not None:
                write_whole(file, text)
            elif report.verdict.exit_code or not self.silent:
                click.echo(text, nl=False, color=True)
            if name == "github":
                self._summarise(report)

    def _summarise(self, report: Report) -> None:
        """Add to the page of the step that GitHub Actions shows, where it names one."""
        page = os.environ.get("GITHUB_STEP_SUMMARY")
        if not page or (self.silent and not report.verdict.exit_code):
            return
        from ascend_doctor.render.issue import render  # noqa: PLC0415 - only there

        try:
            with open(page, "a", encoding="utf-8") as file:
                file.write(render(report))
        except OSError as error:
            raise DataError(f"{page}: cannot be written: {error.strerror}") from error

    def _render(self, name: str, report: Report, *, to_file: bool) -> str:
        kind = "issue" if self.issue and name == "markdown" else name
        module = importlib.import_module(f"ascend_doctor.render.{kind}")
        if name != "text":
            rendered: str = module.render(report)
            return rendered
        text: str = module.render(report, verbose=self.verbose, **self.paper(to_file=to_file))
        return text

    def paper(self, *, to_file: bool) -> dict[str, Any]:
        """What a page for people is written on: colour, width, and the letters that it has."""
        encoding = "utf-8" if to_file else sys.stdout.encoding or "ascii"
        return {
            "color": self.color and not to_file,
            "width": min(shutil.get_terminal_size((100, 24)).columns, 120),
            "ascii_only": "utf" not in encoding.lower(),
        }


def _shown(facts: Snapshot) -> Snapshot:
    """What the text format reads: the head of the page, and the pairs among what probes record."""
    python = facts.python
    return Snapshot(
        redacted=facts.redacted,
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


def write_whole(path: str, text: str) -> None:
    """Write a file through a temporary one beside it. Raises DataError with path and reason."""
    import tempfile  # noqa: PLC0415 - only to write

    folder = os.path.dirname(path) or "."
    scratch = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=folder, prefix=".ascend-doctor-", delete=False, encoding="utf-8"
        ) as file:
            scratch = file.name
            file.write(text)
        os.chmod(scratch, 0o666 & ~_umask())
        os.replace(scratch, path)
    except OSError as error:
        if scratch:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def output_options(command: F) -> F:
    """Add the shared options; the command receives them as one ``output: Output``."""

    @functools.wraps(command)
    def gather(  # noqa: PLR0913 - the options that it gathers
        *,
        formats: tuple[str, ...],
        files: tuple[str, ...],
        fail_on: str,
        color: str,
        redact: bool,
        verbose: bool,
        quiet: bool,
        silent: bool,
        issue: bool,
        config: str | None,
        **others: Any,
    ) -> Any:
        if issue and not (redact and "markdown" in formats):
            raise click.UsageError("--issue is a form of --format markdown, and always redacted")
        output = Output(
            targets=_targets(formats, files),
            fail_on=Level(fail_on),
            color=_wants_color(color),
            redact=redact,
            verbose=verbose,
            quiet=quiet,
            silent=silent,
            issue=issue,
            acknowledged=_acknowledged(config),
        )
        return command(output=output, **others)

    for option in (
        click.option(
            "--config",
            metavar="FILE",
            help=f"Acknowledged findings.  [default: {FILE} here, where there is one]",
        ),
        click.option(
            "--issue",
            is_flag=True,
            help="Make Markdown a paste for a bug report, folded and short.",
        ),
        click.option("--silent", is_flag=True, help="Print nothing where all is well."),
        click.option("-q", "--quiet", is_flag=True, help="No progress on standard error."),
        click.option(
            "-v", "--verbose", is_flag=True, help="Show what is well and what was skipped."
        ),
        redact_option,
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            show_default=True,
            help="NO_COLOR and FORCE_COLOR are honoured.",
        ),
        click.option(
            "--fail-on",
            type=click.Choice(["error", "unknown", "warning"]),
            default="error",
            show_default=True,
            help="Lowest level that gives exit 1.",
        ),
        click.option(
            "-o",
            "--output",
            "files",
            multiple=True,
            metavar="FILE",
            help="File of a format, - for standard output. Its ending says which format, else "
            "their order.",
        ),
        click.option(
            "--format",
            "formats",
            multiple=True,
            type=click.Choice(FORMATS),
            help="Format of the report; repeatable.  [default: text]",
        ),
    ):
        option(gather)
    return gather  # type: ignore[return-value]


def _acknowledged(config: str | None) -> tuple[Acknowledgement, ...]:
    if config is None and not os.path.isfile(FILE):
        return ()
    from ascend_doctor.acknowledged import read_settings  # noqa: PLC0415 - seldom there

    return read_settings(config or FILE).acknowledged


def _targets(
    formats: tuple[str, ...], files: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    """What goes where: files by the formats that their endings name, the others in order."""
    targets: list[tuple[str, str | None]] = []
    left = list(formats)
    waiting = []
    for file in files:
        name = SUFFIXES.get(os.path.splitext(file)[1], "")
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
    if sum(place is None for _, place in targets) > 1:
        raise click.UsageError("only one format can go to standard output; give the others an -o")
    for _, place in targets:
        if place is not None:
            _can_be_written(place)
    return tuple(targets) or (("text", None),)


def _can_be_written(file: str) -> None:
    """Raises UsageError: a report that has nowhere to go is not worth the minutes it takes."""
    folder = os.path.dirname(file) or "."
    if not os.path.isdir(folder):
        raise click.UsageError(f"-o {file}: there is no such folder")
    if not file or os.path.isdir(file):
        raise click.UsageError(f"-o {file or repr(file)}: that is no file")
    if not os.access(folder, os.W_OK):
        raise click.UsageError(f"-o {file}: its folder cannot be written to")


def _wants_color(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
