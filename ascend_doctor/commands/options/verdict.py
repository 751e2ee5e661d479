"""The options of a verdict that a scheduler acts on: one line, exit codes, what was before."""

import click
import msgspec
from msgspec.structs import replace

from ascend_doctor.commands.options import flag, repeated
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.output import Output
from ascend_doctor.diagnosis.result import Diagnosis, JobVerdict
from ascend_doctor.exits import EXIT_EXCLUDE, EXIT_OK, EXIT_RESTART, EXIT_STOP, EXIT_UNKNOWN
from ascend_doctor.machine.kinds import DIAGNOSIS
from ascend_doctor.render.diagnosis import say_verdict
from ascend_doctor.render.plain import one_line

_CODES = {"restart": EXIT_RESTART, "exclude": EXIT_EXCLUDE, "stop": EXIT_STOP}
_TEXT = (("text", None),)


class VerdictOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``line``: standard output has the verdict alone; ``redact``: with its names hidden.

    ``nodes`` are the names of the job's nodes by rank, ``history`` files of earlier diagnoses.
    """

    line: bool
    exit_verdict: bool
    history: tuple[str, ...]
    nodes: tuple[str, ...]
    redact: bool

    def check_targets(self, output: Output) -> None:
        """Raises UsageError where something else would go to standard output as well."""
        others = [name for name, file in output.targets if file is None]
        if self.line and others and output.targets != _TEXT:
            raise click.UsageError(
                f"--verdict takes standard output; give --format {others[0]} an -o FILE"
            )

    def report(self, output: Output) -> Output:
        """The report goes only to files, beside the verdict."""
        return replace(output, targets=()) if self.line and output.targets == _TEXT else output


def _gather(
    *, verdict: bool, exit_verdict: bool, history: tuple[str, ...], nodes: str
) -> VerdictOptions:
    return VerdictOptions(
        line=verdict,
        exit_verdict=exit_verdict,
        history=history,
        nodes=tuple(nodes.replace(",", " ").split()),
        # Only if typed: a scheduler needs true names.
        redact=click.get_current_context().params.get("redact") is True,
    )


verdict_options = gather_options(
    "asked",
    _gather,
    flag("--verdict", help="Print the verdict alone: restart, exclude NODE..., stop or unknown."),
    flag(
        "--exit-verdict",
        help="End with the verdict: 75 restart, 69 exclude, 78 stop, 3 could not tell.",
    ),
    repeated(
        "--history",
        metavar="FILE|DIR",
        type=InputFile(DIAGNOSIS),
        help="Earlier diagnoses of the job (--format json), which the verdict takes into account.",
    ),
    click.option(
        "--nodes",
        metavar="NAME,...",
        default="",
        help="What the scheduler calls the nodes, in the order of their ranks, where logs do not.",
    ),
)


def show_verdict(verdict: JobVerdict) -> None:
    click.echo(one_line(" ".join((verdict.action, *verdict.nodes))))
    click.echo(f"ascend-doctor: {one_line(say_verdict(verdict))}", err=True)


def exit_code_of(diagnosis: Diagnosis) -> int:
    verdict = diagnosis.verdict
    if verdict is None or verdict.action == "unknown":
        return EXIT_OK if diagnosis.outcome == "nothing known found" else EXIT_UNKNOWN
    return _CODES[verdict.action]
