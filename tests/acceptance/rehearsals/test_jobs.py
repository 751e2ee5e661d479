"""Megatron-LM's own pretrain_gpt.py with MindSpeed, unmodified, beside Megatron-LM on the CPU.

One to two minutes each. jobs.jsonl in a folder of records gets a line of JSON a job.
"""

from pathlib import Path

import pytest

from tests.acceptance.rehearsals import megatron_jobs as jobs

TAGS = {"core_v0.12.1": "2.3.0_core_r0.12.1", "core_v0.15.3": "core_r0.15.3"}
PLAIN_EXPERTS = (
    "--expert-model-parallel-size 2 --num-experts 4 --moe-router-topk 2"
    " --moe-token-dispatcher-type alltoall"
)
EXPERTS = f"{PLAIN_EXPERTS} --tensor-model-parallel-size 2 --sequence-parallel"
DENSE = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
TENSOR = "--tensor-model-parallel-size 2"
# Name and layout, the release of Megatron-LM, and options on simulated NPUs and on the CPU.
# Sequence parallelism, which experts under TP want, needs another LayerNorm than torch's. Context
# parallelism needs Transformer Engine, which MindSpeed replaces. In its place the CPU has data
# parallel ranks that see the same sequences.
JOBS = {
    ("experts, fp32", "TP2, EP2"): ("core_v0.12.1", EXPERTS, PLAIN_EXPERTS),
    ("context, bf16", "TP2, CP2"): (
        "core_v0.15.3",
        f"{TENSOR} --context-parallel-size 2 --bf16",
        f"{TENSOR} --bf16",
    ),
}
# Relative, of each of ten losses. bfloat16 has 8 bits; MindSpeed's and Megatron's kernels round
# after other operations; a loss of 8.5 is summed in single precision.
TOLERANCES = {"fp32": 1e-4, "bf16": 2e-3}


def unpack(folder: Path, release: str) -> Path:
    jobs.unpack(folder, release, TAGS[release])
    return folder


@pytest.mark.parametrize("job", JOBS, ids=lambda job: str(job[0]))
def test_pretraining_has_the_losses_of_the_cpu(job: tuple[str, str], tmp_path: Path) -> None:
    release, simulated, plain = JOBS[job]
    stack = unpack(tmp_path, release)
    expected = jobs.run_on_cpu(stack, tmp_path, plain)
    seen = jobs.rehearse(stack, tmp_path, simulated)
    jobs.record(jobs.row(release, *job, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES[job[0][-4:]])
    assert "simulated: 10 steps, lm loss " in seen.standard_error


def test_a_saved_job_goes_on_in_another_layout(tmp_path: Path) -> None:
    """Weights and optimizer, saved after five of ten steps, from TP2, PP2 to TP2, DP2."""
    release = "core_v0.12.1"
    stack, saved, half = unpack(tmp_path, release), tmp_path / "saved", jobs.STEPS // 2
    options = "--use-distributed-optimizer --ckpt-format torch_dist"
    unbroken = jobs.run_on_cpu(stack, tmp_path, DENSE)
    expected = unbroken._replace(losses=unbroken.losses[half:])
    stopped = f"{options} --save {saved} --save-interval {half} --exit-interval {half}"
    jobs.rehearse(stack, tmp_path, f"{DENSE} {stopped}")
    seen = jobs.rehearse(stack, tmp_path, f"{TENSOR} {options} --load {saved} --no-load-rng")
    jobs.record(jobs.row(release, "resharded, fp32", "TP2, PP2 to TP2, DP2", expected, seen))
    assert len(seen.losses) == jobs.STEPS - half
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES["fp32"])
