"""Megatron-LM's own pretrain_gpt.py with MindSpeed, unmodified, beside Megatron-LM on the CPU.

ASCEND_DOCTOR_TEST_MINDSPEED and ASCEND_DOCTOR_TEST_MEGATRON_LM name repositories of both;
ASCEND_DOCTOR_TEST_JOBS_PYTHON an interpreter with torch 2.7.1 (tests/simulator/cpu_torch.py makes
one for x86_64), torch_npu 2.7.1.post4 and what megatron.training imports. One to two minutes each.
ASCEND_DOCTOR_TEST_JOBS_RECORD names a file to which what was seen is added, a line of JSON a job.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.rehearsals import megatron_jobs as jobs

pytestmark = pytest.mark.skipif(
    not (jobs.MINDSPEED and jobs.MEGATRON and jobs.PYTHON),
    reason="ASCEND_DOCTOR_TEST_MINDSPEED, _MEGATRON_LM and _JOBS_PYTHON name no stack",
)
TAGS = {"core_v0.12.1": "2.3.0_core_r0.12.1", "core_v0.15.3": "core_r0.15.3"}
PLAIN_EXPERTS = (
    "--expert-model-parallel-size 2 --num-experts 4 --moe-router-topk 2"
    " --moe-token-dispatcher-type alltoall"
)
EXPERTS = f"{PLAIN_EXPERTS} --tensor-model-parallel-size 2 --sequence-parallel"
DENSE = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
OPTIMIZER = f"{DENSE} --use-distributed-optimizer"
# Layout, and the options on simulated NPUs and on the CPU. Sequence parallelism, which experts
# under TP want, needs another LayerNorm than torch's, and context parallelism Transformer Engine;
# MindSpeed stands in for both. The CPU has data parallel ranks in their place: the same sequences.
JOBS = {
    "dense": ("TP2, PP2", DENSE, DENSE),
    "distributed optimizer": ("TP2, PP2", OPTIMIZER, OPTIMIZER),
    "experts": ("TP2, EP2", EXPERTS, PLAIN_EXPERTS),
    "context": (
        "TP2, CP2",
        "--tensor-model-parallel-size 2 --context-parallel-size 2",
        "--tensor-model-parallel-size 2",
    ),
}
# Relative, of each of ten losses. bfloat16 has 8 bits, and MindSpeed's and Megatron's kernels round
# after other operations; a loss of 8.5 is summed in single precision.
TOLERANCES = {"fp32": 1e-4, "bf16": 2e-3}


@pytest.fixture(scope="module", params=TAGS)
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stack") / str(request.param)
    folder.mkdir()
    jobs.unpack(folder, request.param, TAGS[request.param])
    return folder


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("job", JOBS)
def test_pretraining_has_the_losses_of_the_cpu(
    stack: Path, tmp_path: Path, job: str, dtype: str
) -> None:
    layout, simulated, plain = JOBS[job]
    words = "--bf16" if dtype == "bf16" else ""
    expected = jobs.run_on_cpu(stack, tmp_path, f"{plain} {words}")
    seen = jobs.rehearse(stack, tmp_path, f"{simulated} {words}")
    jobs.record(_row(stack, f"{job}, {dtype}", layout, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES[dtype])
    assert "simulated: 10 steps, lm loss " in seen.standard_error


def test_a_checkpoint_of_the_cpu_goes_on_with_its_losses(stack: Path, tmp_path: Path) -> None:
    """Saved by the CPU after five steps, weights and optimizer; both go on from it to the tenth."""
    saved = tmp_path / "saved"
    half = jobs.STEPS // 2
    jobs.run_on_cpu(stack, tmp_path, f"{DENSE} --save {saved} --save-interval {half}", half)
    expected = jobs.run_on_cpu(stack, tmp_path, f"{DENSE} --load {saved}")
    seen = jobs.rehearse(stack, tmp_path, f"{DENSE} --load {saved}")
    jobs.record(_row(stack, "resumed from the CPU, fp32", "TP2, PP2", expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS - half
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES["fp32"])


def test_a_checkpoint_goes_on_in_another_layout(stack: Path, tmp_path: Path) -> None:
    """Saved under TP2, PP2 on simulated NPUs, gone on from under TP2, DP2, as without a stop."""
    saved, half = tmp_path / "saved", jobs.STEPS // 2
    options = "--use-distributed-optimizer --ckpt-format torch_dist"
    expected = jobs.rehearse(
        stack, tmp_path, f"{DENSE} {options} --save {saved} --save-interval {half}"
    )
    (saved / "latest_checkpointed_iteration.txt").write_text(str(half))
    other = f"--tensor-model-parallel-size 2 {options} --load {saved}"
    seen = jobs.rehearse(stack, tmp_path, other)
    unbroken = expected._replace(losses=expected.losses[half:])
    jobs.record(_row(stack, "resharded, fp32", "TP2, PP2 to TP2, DP2", unbroken, seen))
    assert len(seen.losses) == jobs.STEPS - half
    assert seen.losses == pytest.approx(unbroken.losses, rel=TOLERANCES["fp32"])


def test_a_plain_script_has_the_losses_of_the_cpu(tmp_path: Path) -> None:
    script = str(Path(__file__).parent / "programs" / "ddp.py")
    expected = jobs.run_script_on_cpu(script, tmp_path, 2)
    seen = jobs.rehearse_script(script, tmp_path, 2)
    jobs.record(
        {
            **_row(Path("torch 2.7.1"), "DistributedDataParallel, fp32", "DP2", expected, seen),
            "first_line": [seen.first_line, expected.first_line],
        }
    )
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES["fp32"])
    assert 0 < expected.first_line < seen.first_line


def _row(
    stack: Path, job: str, layout: str, expected: jobs.JobRun, seen: jobs.JobRun
) -> dict[str, object]:
    apart = max(
        (abs(one - other) / other for one, other in zip(seen.losses, expected.losses, strict=True)),
        default=math.nan,
    )
    return {
        "release": stack.name,
        "job": job,
        "layout": layout,
        "losses": [seen.losses[0], seen.losses[-1]],
        "expected": [expected.losses[0], expected.losses[-1]],
        "apart": apart,
        "step": [seen.step, expected.step],
        "seconds": [seen.seconds, expected.seconds],
    }
