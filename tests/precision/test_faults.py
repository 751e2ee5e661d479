"""Seeded faults on simulated NPUs: the module is named; healthy runs are silent.

The labels stand in programs/cases.py; they were written before the first comparison. Faults that
nobody has seen are drawn by another seed.
"""

import math
import os
import sys
from pathlib import Path

import pytest

from ascend_doctor.precision import RECORDER
from tests.knobs import draw
from tests.precision.judging import RANKS, judge, record, report_partings
from tests.precision.programs.cases import JOBS, faults
from tests.programs import run_program

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).parent / "programs" / "faulty_job.py"
MISNAMED = 0.05  # of the faults, rounded up
EXPERTS = "experts"


@pytest.fixture(scope="module", params=draw(JOBS, ("megatron",), 1))
def job(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def dumps(job: str, examined_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dumps of the job on the CPU and on simulated NPUs."""
    folder = run(job, examined_python, tmp_path_factory.mktemp(job))
    record(job, folder)
    return folder


def run(job: str, python: Path, folder: Path) -> Path:
    doctor = str(Path(sys.executable).with_name("ascend-doctor"))
    launch = ("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
    path = f"{python.parent}:{os.environ['PATH']}"
    for name, wish in (("cpu", "healthy"), ("npu", "all"), ("rounded", "rounded")):
        device = "npu" if name == "npu" else "cpu"
        command = [*launch, str(RANKS), str(PROGRAM), job, device, str(folder / name), wish]
        env = {**os.environ, "PYTHONPATH": RECORDER, "OMP_NUM_THREADS": "1", "PATH": path}
        if device == "npu":
            log = ("--log", str(folder / "npu.log"))
            command = [doctor, "rehearse", "--python", str(python), "--npus", "2", *log, *command]
            command.insert(command.index("python"), "--")
        else:
            env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        done = run_program(command, check=False, timeout=1200, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_first_module_is_named(job: str, dumps: Path) -> None:
    rows = faults(job)
    wrong = [text for fault in rows if (text := judge(dumps, fault).wrong)]
    assert len(wrong) <= math.ceil(MISNAMED * len(rows)), "\n".join(wrong)


@pytest.mark.parametrize("other", ["npu", "rounded"])
def test_healthy_runs_are_silent(job: str, dumps: Path, other: str) -> None:
    """The simulated NPU computes with the CPU's kernels; ``rounded`` rounds otherwise.

    One of 256 tokens that change their expert is seen in no projection of a mask.
    """
    most = 1 if (job, other) == (EXPERTS, "rounded") else 0
    assert len(report_partings(job, dumps, other)) <= most
