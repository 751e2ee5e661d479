"""MindSpeed-LLM's pretrain_gpt.py, unmodified, beside Megatron-LM's own on the CPU.

One to two minutes each.
"""

import shlex
from pathlib import Path

import pytest

from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.acceptance.rehearsals import mindspeed_llm as llm

# As examples/mcore/qwen3/pretrain_qwen3_0point6b_4K_ptd.sh except rates and data.
BOTH = shlex.split(
    f"--lr 1e-3 --min-lr 1e-4 --train-iters {jobs.STEPS} --initial-loss-scale 4096 --mock-data"
    " --vocab-size 5000 --tokenizer-type NullTokenizer"
)
OWN = shlex.split(
    "--use-fused-rotary-pos-emb --use-fused-swiglu --use-fused-rmsnorm --use-distributed-optimizer"
    " --no-shared-storage --padded-vocab-size 5120"
)
CPU = ["--transformer-impl", "local", "--no-rope-fusion"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llm.unpack(tmp_path_factory.mktemp("stack"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llm.unpack_megatron(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("dtype", llm.TOLERANCES)
@pytest.mark.parametrize("layout", ["TP2, DP2", "TP2, PP2"])
def test_pretraining_has_the_losses_of_the_cpu(
    plain: Path, stack: Path, tmp_path: Path, layout: str, dtype: str
) -> None:
    """Both draw their weights on the CPU, in one order from one seed."""
    options = [*llm.MODEL, *llm.degrees(layout), *BOTH, *(["--bf16"] if dtype == "bf16" else [])]
    expected = jobs.run_options_on_cpu(plain, tmp_path, [*options, *CPU])
    own = [*llm.OWN, *OWN]
    seen = jobs.rehearse_options(stack, tmp_path, "pretrain_gpt.py", [*options, *own])
    jobs.record(jobs.row(llm.RELEASE, f"pretrain_qwen3, {dtype}", layout, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=llm.TOLERANCES[dtype])
    assert f"simulated: {jobs.STEPS} steps, lm loss " in seen.standard_error
