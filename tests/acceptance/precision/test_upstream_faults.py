"""Seeded faults in Megatron-LM's own pretrain_gpt.py with MindSpeed.

What is named is held to the labels in tests/precision/programs/cases.py. A folder of records keeps
the dumps, which a later run reads.
"""

import math
from pathlib import Path

import pytest

from ascend_doctor.precision import RECORDER
from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.knobs import record_path
from tests.precision.judging import RANKS, judge, record, report_partings
from tests.precision.programs.cases import UPSTREAM, faults

TESTS = Path(__file__).parents[2]
# The ordinary tests share these cases and damage.
CASES = TESTS / "precision" / "programs"
PROGRAM = str(Path(__file__).parent / "programs" / "upstream_job.py")
MISNAMED = 0.05  # of the faults, rounded up


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dumps of the job on the CPU and on simulated NPUs."""
    folder = record_path(f"dumps/{UPSTREAM}") or tmp_path_factory.mktemp(UPSTREAM)
    stack = tmp_path_factory.mktemp("stack")
    jobs.unpack(stack, "core_v0.15.3", "core_r0.15.3")
    for device in ("cpu", "npu"):
        if not (folder / device).exists():
            (folder / device).mkdir(parents=True)
            _run(device, folder / device, stack)
    record(UPSTREAM, folder)
    return folder


def _run(device: str, folder: Path, stack: Path) -> None:
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS))
    words = (UPSTREAM, device, str(folder), str(stack / "pretrain_gpt.py"))
    program = (*launch, PROGRAM, *words)
    env = {
        "PYTHONPATH": f"{stack}:{RECORDER}:{CASES}:{TESTS.parent}",
        "ASCEND_DOCTOR_RECORD_SEED": "1",
    }
    if device == "cpu":
        env |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHDYNAMO_DISABLE": "1"}
        command = [jobs.PYTHON, *program]
    else:
        doctor = (jobs.DOCTOR, "rehearse", "--python", jobs.PYTHON, "--npus", str(RANKS))
        command = [*doctor, "--log", str(folder / "log"), "--", "python", *program]
    done = jobs.run(command, stack, stack, env)
    (folder / "stderr").write_text(done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_first_module_is_named(dumps: Path) -> None:
    rows = faults(UPSTREAM)
    wrong = [text for fault in rows if (text := judge(dumps, fault).wrong)]
    assert len(wrong) <= math.ceil(MISNAMED * len(rows)), "\n".join(wrong)


def test_healthy_runs_are_silent(dumps: Path) -> None:
    assert not report_partings(UPSTREAM, dumps, "npu")
