"""What a node that left no report is said to have done, by the files that it did leave."""

from pathlib import Path

import pytest

from ascend_doctor.fleet.engine import Job
from ascend_doctor.fleet.slurm import Slurm
from ascend_doctor.fleet.slurm_step import SlurmStep


@pytest.mark.parametrize(
    ("late", "code", "reason"),
    [
        (True, "137", "had not ended after 60 s"),
        (True, "127", "the check ended with 127: Killed"),
        (False, "137", "the check ended with 137: Killed"),
    ],
)
def test_what_was_killed_for_its_time_had_not_ended(
    tmp_path: Path, code: str, reason: str, *, late: bool
) -> None:
    (tmp_path / "node1.log").write_text("Killed\n")
    (tmp_path / "node1.exit").write_text(f"{code}\n")
    job = Job(folder=str(tmp_path), check=(), deadline=60)
    step = SlurmStep(Slurm(), job, ("node1",), doctor=("ascend-doctor",), words=())
    step.late = late
    assert step.silent({}) == (("node1", reason),)
