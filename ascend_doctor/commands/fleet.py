"""``ascend-doctor fleet``: the check on many machines, started by what starts things there."""

from ascend_doctor.commands.lazy import LazyGroup

COMMANDS = {"check": "Check every node by Ray or Slurm, and give one verdict."}

command = LazyGroup(
    name="fleet",
    sections={"Commands": COMMANDS},
    modules="ascend_doctor.commands.fleet_",
    help="Check many machines with the scheduler that is there already.",
)
