"""Seeded faults in jobs that others wrote: Megatron-LM with MindSpeed, and LoRA by accelerate.

What is named is held to the labels in tests/precision/programs/cases.py. A folder of records keeps
the dumps, which a later run reads.
"""

from pathlib import Path

import pytest

from ascend_doctor.precision import RECORDER
from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.knobs import record_path
from tests.precision.judging import RANKS, judge, record, report_partings
from tests.precision.programs.cases import LORA, UPSTREAM, faults

TESTS = Path(__file__).parents[2]
# The ordinary tests share these cases and damage.
CASES = TESTS / "precision" / "programs"
PROGRAM = str(Path(__file__).parent / "programs" / "upstream_job.py")
STACKS = {
    "pretrain": ("core_v0.15.3", "core_r0.15.3"),
    "pretrain-experts": ("core_v0.12.1", "2.3.0_core_r0.12.1"),
}
LEAST = 0.95
# Of a tensor that several modules with frozen weights take, whose gradient is wrong is not told.
LORA_LEAST = 0.9


@pytest.fixture(scope="module", params=UPSTREAM)
def job(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def dumps(job: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dumps of the job on the CPU and on simulated NPUs."""
    folder = record_path(f"dumps/{job}") or tmp_path_factory.mktemp(job)
    stack = tmp_path_factory.mktemp("stack")
    script = TESTS / "acceptance" / "rehearsals" / "programs" / "lora_fsdp.py"
    if job != LORA:
        jobs.unpack(stack, *STACKS[job])
        script = stack / "pretrain_gpt.py"
    for device in ("cpu", "npu"):
        if not (folder / device).exists():
            (folder / device).mkdir(parents=True)
            _run(job, device, folder / device, stack, script)
    record(job, folder)
    return folder


def _run(job: str, device: str, folder: Path, stack: Path, script: Path) -> None:
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS))
    program = (*launch, PROGRAM, job, device, str(folder), str(script))
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


def test_the_first_module_is_named(job: str, dumps: Path) -> None:
    rows = faults(job)
    wrong = [text for fault in rows if (text := judge(dumps, fault).wrong)]
    least = LORA_LEAST if job == LORA else LEAST
    assert 1 - len(wrong) / len(rows) >= least, "\n".join(wrong)


def test_healthy_runs_are_silent(job: str, dumps: Path) -> None:
    assert not report_partings(job, dumps, "npu")
