"""The options by which `run` tells a scheduler what to do about a launch that failed."""

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence

import click
import msgspec

from ascend_doctor.commands.arming import is_of_one_node
from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_EXCLUDE, EXIT_RESTART, EXIT_STOP
from ascend_doctor.machine.files import reason
from ascend_doctor.probing.keeper import SIGNALLED

# As of a rank that torchrun saw end: a crash or, mostly, a want of host memory; ended from outside.
_BY_SIGNAL: dict[int, int] = {
    **dict.fromkeys((signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGKILL), EXIT_STOP),
    **dict.fromkeys((signal.SIGTERM, signal.SIGHUP), EXIT_RESTART),
}


class RunVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """``history`` is the folder of the job's diagnoses, to which this one is added."""

    exit_verdict: bool
    history: str
    nodes: str

    def diagnose_options(
        self, launch: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The options of `diagnose` for a launch that failed. Raises DataError for the folder."""
        options = ["--exit-verdict"] if self.exit_verdict else []
        nodes = self.nodes
        if not nodes and is_of_one_node(launch, environment):
            # A scheduler's name for a node may differ from the host's own.
            names = (environment.get(name) for name in ("SLURMD_NODENAME", "NODE_NAME"))
            nodes = next(filter(None, names), "") or socket.gethostname()
        options += ["--nodes", nodes] if nodes else []
        if not self.history:
            return tuple(options)
        try:
            os.makedirs(self.history, exist_ok=True)
        except OSError as error:
            raise DataError(f"--history {self.history}: {reason(error)}") from error
        file = os.path.join(self.history, f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.json")
        written = ("--format", "text", "--format", "json", "-o", file, "--no-redact")
        return (*options, "--history", self.history, *written)

    def exit_code(self, code: int, diagnosed: int) -> int:
        """The exit code of `run`; silent launches are judged by the signal that ended them."""
        if not self.exit_verdict or diagnosed in {EXIT_RESTART, EXIT_EXCLUDE, EXIT_STOP}:
            return diagnosed if self.exit_verdict else code
        return _BY_SIGNAL.get(code - SIGNALLED, code)


run_verdict_options = gather_options(
    "asked",
    RunVerdict,
    flag(
        "--exit-verdict",
        help="Where it fails, end with 75 to restart, 69 to exclude the node, 78 to stop.",
    ),
    click.option(
        "--history",
        metavar="DIR",
        default="",
        help="The diagnoses of the job's attempts; this one's is added where it fails.",
    ),
    click.option(
        "--nodes",
        metavar="NAME,...",
        default="",
        help="What the scheduler calls the nodes, in the order of their ranks."
        "  [default: this one, for a launch of one node]",
    ),
)
