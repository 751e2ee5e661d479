"""The check on every node by srun, in the allocation that we are in or a new one."""

import contextlib
import time
from collections.abc import Mapping, Sequence

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.engine import Job, Silent
from ascend_doctor.fleet.slurm import Slurm, State
from ascend_doctor.fleet.slurm_step import SlurmStep


class SlurmEngine:
    """``doctor`` is how nodes call ascend-doctor, ``words`` are further options of srun.

    ``whole``: a new allocation has its nodes for itself.
    """

    def __init__(
        self, doctor: Sequence[str], words: Sequence[str] = (), *, whole: bool = False
    ) -> None:
        self.doctor = tuple(doctor)
        self.words = tuple(words)
        self.whole = whole
        self.slurm = Slurm()

    def run(self, job: Job) -> tuple[Silent, ...]:
        """See ``Engine.run``. Nodes on which Slurm runs no jobs are silent at once."""
        end = time.monotonic() + job.deadline
        nodes, silent = self._nodes(job, self.slurm.states())
        if silent and not nodes:
            return silent
        words = (
            *(("--exclusive",) if self.whole and not self.slurm.allocation else ()),
            *self.words,
        )
        step = SlurmStep(self.slurm, job, nodes, doctor=self.doctor, words=words)
        with step.start():
            step.wait(end)
        after: Mapping[str, State] = {}
        with contextlib.suppress(DataError):  # the reports are there, whatever Slurm says now
            after = self.slurm.states()
        return (*silent, *step.silent(after))

    def _nodes(
        self, job: Job, states: Mapping[str, State]
    ) -> tuple[tuple[str, ...], tuple[Silent, ...]]:
        allocation = self.slurm.allocation
        if allocation:
            having = self.slurm.allocated
            asked = job.nodes or having[: job.count]
            reasons = {
                node: f"not in the allocation {allocation}" for node in asked if node not in having
            }
        else:
            asked = job.nodes
            if not asked and job.count is None:
                raise DataError("outside of an allocation give --nodes N or --expect HOSTFILE")
            reasons = {node: "Slurm knows no such node" for node in asked if node not in states}
        for node in asked:
            if node in states and states[node].away(new_job=not allocation):
                reasons.setdefault(node, str(states[node]))
        silent = tuple(Silent(node, reasons[node]) for node in asked if node in reasons)
        return tuple(node for node in asked if node not in reasons), silent
