"""The check on every node of a Slurm allocation, by srun."""

from __future__ import annotations

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.engine import Job, Silent


class SlurmEngine:
    """``words`` are further options of srun."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def run(self, job: Job) -> tuple[Silent, ...]:
        raise DataError(f"{job.folder}: srun: no such program")
