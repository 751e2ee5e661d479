"""The options of the check that every node of a fleet gets, and how nodes call the doctor."""

import os
import shlex
import sys

import click
import msgspec

from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.check_filter import selection_options
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.commands.options.launch import (
    device_option,
    level_option,
    nproc_option,
    timeout_option,
)
from ascend_doctor.machine.live import DOCTOR

# The first level that uses devices (level 3 all): no other work may run beside it.
_DEVICES = 2
# Time that a node's check leaves to write and send its report.
_MARGIN, _MARGIN_SHARE = 60.0, 0.3


class OnNodes(msgspec.Struct, frozen=True, kw_only=True):
    """``timeout`` is in seconds, for all nodes and all around them."""

    level: int
    device: str
    nproc: int | None
    python: str | None
    timeout: float
    only: tuple[str, ...]
    skip: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether nodes are needed for this alone."""
        return self.level >= _DEVICES

    def arguments(self, *, fail_on: str) -> tuple[str, ...]:
        """Of ``check`` on a node, unredacted for merging; the merged report is redacted."""
        own = self.timeout - min(_MARGIN, self.timeout * _MARGIN_SHARE)
        options = {"--nproc": self.nproc, "--python": self.python}
        return (
            *("--level", str(self.level), "--device", self.device),
            *(word for name, value in options.items() if value for word in (name, str(value))),
            *(word for check in self.only for word in ("--only", check)),
            *(word for check in self.skip for word in ("--skip", check)),
            *("--timeout", f"{own:g}", "--fail-on", fail_on, "--no-redact", "--quiet"),
        )


on_nodes_options = gather_options(
    "on_nodes",
    OnNodes,
    level_option("0 static, 1 imports, 2 one device, 3 collectives of a node, 4 soak."),
    timeout_option(
        "Seconds for everything; what is left over then is ended and reported as silent.", least=5
    ),
    device_option("Where probes run on every node."),
    nproc_option("Ranks of level 3."),
    click.option("--python", metavar="PATH", help="Interpreter to examine, as nodes call it."),
    selection_options,
)

gang_option = flag("--gang", help="Probes of level 3 run over all nodes together.")

doctor_option = click.option(
    "--doctor",
    metavar="COMMAND",
    help="How nodes call ascend-doctor, in a container for example.  [default: as it is called"
    " here]",
)


def doctor_words(named: str | None) -> tuple[str, ...]:
    """The words of ``named``, or of the call that started this process. Raises UsageError."""
    if named is not None:
        try:
            words = tuple(shlex.split(named))
        except ValueError as error:
            raise click.UsageError(f"--doctor {named}: {error}") from error
        if not words:
            raise click.UsageError("--doctor names no command")
        return words
    # Nodes that share the folder find the script beside this interpreter too.
    script = os.path.join(os.path.dirname(sys.executable), "ascend-doctor")
    return (script,) if os.path.isfile(script) else DOCTOR
