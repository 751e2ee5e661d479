"""What Slurm says: its nodes and their states, and the allocation that we are in."""

from typing import NamedTuple

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.hostlist import parse_hosts
from ascend_doctor.machine.live import LiveMachine, ProgramMissing

# No job starts in these (man sinfo, NODE STATE CODES); a draining node runs one; "*": no answer.
_AWAY = ("down", "drained", "fail", "future", "inval", "unknown")


class State(NamedTuple):
    """The state of a node; ``reason`` may be empty."""

    state: str
    reason: str

    def away(self, *, new_job: bool = False) -> bool:
        begins = (*_AWAY, "draining") if new_job else _AWAY
        return self.state.startswith(begins) or self.state.endswith("*")

    def __str__(self) -> str:
        return f"Slurm has it as {self.state}" + (f" ({self.reason})" if self.reason else "")


class Slurm:
    """Each command has a deadline."""

    def __init__(self) -> None:
        self.machine = LiveMachine()

    @property
    def allocation(self) -> str:
        return self.machine.env.get("SLURM_JOB_ID", "")

    @property
    def allocated(self) -> tuple[str, ...]:
        """The nodes of that job. Raises DataError."""
        listed = self.machine.env.get("SLURM_JOB_NODELIST", "")
        return parse_hosts(listed, name="SLURM_JOB_NODELIST")

    def ask(self, *argv: str) -> str:
        """The output of a command of Slurm. Raises DataError if it cannot answer."""
        try:
            done = self.machine.run([*argv])
        except ProgramMissing as error:
            raise DataError(f"{error}; is Slurm on this machine?") from error
        if done.exit_code != 0:
            lines = done.stderr.strip().splitlines() or ["no answer"]
            raise DataError(f"{argv[0]}: {lines[-1]}")
        return done.stdout

    def states(self) -> dict[str, State]:
        """Every node that Slurm knows. Raises DataError."""
        rows = (
            row.split("|", 2)
            for row in self.ask("sinfo", "--noheader", "-N", "--all", "-o", "%N|%T|%E").splitlines()
        )
        return {
            row[0]: State(row[1], "" if row[2] == "none" else row[2])
            for row in rows
            if len(row) == 3  # noqa: PLR2004 - the columns that were asked for
        }
