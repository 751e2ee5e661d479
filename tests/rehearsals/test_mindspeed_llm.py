"""MindSpeed-LLM's pretrain_gpt.py, unmodified, beside Megatron-LM's own on the CPU.

ASCEND_DOCTOR_TEST_LAUNCHES names a folder with a clone as Ascend+MindSpeed-LLM/repo; the rest is as
for test_jobs.py, and the interpreter has what MindSpeed-LLM imports. One to two minutes each.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.rehearsals import megatron_jobs as jobs
from tests.rehearsals.test_jobs import TOLERANCES

CLONES = os.environ.get("ASCEND_DOCTOR_TEST_LAUNCHES", "")
COMMIT = "62d4640b"
TAGS = ("core_v0.12.1", "2.3.0_core_r0.12.1")
pytestmark = pytest.mark.skipif(
    not (CLONES and jobs.MINDSPEED and jobs.MEGATRON and jobs.PYTHON),
    reason="ASCEND_DOCTOR_TEST_LAUNCHES, _MINDSPEED, _MEGATRON_LM and _JOBS_PYTHON name no stack",
)
# Those of examples/mcore/qwen3/pretrain_qwen3_0point6b_4K_ptd.sh which Megatron-LM has too: sizes,
# rates and data are ours.
BOTH = shlex.split(
    "--use-mcore-models --kv-channels 16 --qk-layernorm --num-layers 2 --hidden-size 64"
    " --num-attention-heads 4 --ffn-hidden-size 192 --max-position-embeddings 64 --seq-length 64"
    " --rotary-base 1000000 --disable-bias-linear --swiglu --normalization RMSNorm"
    " --position-embedding-type rope --norm-epsilon 1e-6 --no-gradient-accumulation-fusion"
    " --attention-softmax-in-fp32 --group-query-attention --num-query-groups 2 --seed 42"
    " --use-rotary-position-embeddings --no-masked-softmax-fusion --no-load-optim --no-load-rng"
    " --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --min-lr 1e-4 --weight-decay 1e-1"
    " --attention-dropout 0.0 --hidden-dropout 0.0 --clip-grad 1.0 --adam-beta1 0.9"
    " --adam-beta2 0.95 --initial-loss-scale 4096 --split 100,0,0 --log-interval 1"
    " --save-interval 1000 --eval-interval 1000 --eval-iters 0 --mock-data --vocab-size 5000"
    f" --tokenizer-type NullTokenizer --use-cpu-initialization --train-iters {jobs.STEPS}"
    " --tensor-model-parallel-size 2"
)
# Those which it does not have, or which want Transformer Engine of it.
NPUS = shlex.split(
    "--spec mindspeed_llm.tasks.models.spec.qwen3_spec layer_spec --use-flash-attn"
    " --use-fused-rotary-pos-emb --use-fused-swiglu --use-fused-rmsnorm --sequence-parallel"
    " --use-distributed-optimizer --no-shared-storage --make-vocab-size-divisible-by 1"
    " --padded-vocab-size 5120 --log-throughput"
)
CPU = ["--transformer-impl", "local", "--no-rope-fusion"]
LAYOUTS = {"TP2, DP2": [], "TP2, PP2": ["--pipeline-model-parallel-size", "2"]}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Megatron-LM alone."""
    folder = tmp_path_factory.mktemp("plain")
    jobs.unpack_clone(folder, jobs.MEGATRON, TAGS[0], "megatron", ":(glob)*.py")
    jobs.compile_helpers(folder)
    return folder


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stack")
    jobs.unpack_clone(folder, f"{CLONES}/Ascend+MindSpeed-LLM/repo", COMMIT)
    jobs.unpack_clone(folder, jobs.MINDSPEED, TAGS[1], "mindspeed")
    jobs.unpack_clone(folder, jobs.MEGATRON, TAGS[0], "megatron")
    jobs.compile_helpers(folder)
    return folder


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pretraining_has_the_losses_of_the_cpu(
    plain: Path, stack: Path, tmp_path: Path, layout: str, dtype: str
) -> None:
    """The weights of both are those which the same seed draws on the CPU in the same order."""
    options = [*BOTH, *LAYOUTS[layout], *(["--bf16"] if dtype == "bf16" else [])]
    expected = jobs.run_options_on_cpu(plain, tmp_path, [*options, *CPU])
    seen = jobs.rehearse_options(stack, tmp_path, "pretrain_gpt.py", [*options, *NPUS])
    release = f"MindSpeed-LLM {COMMIT}"
    jobs.record(jobs.row(release, f"pretrain_qwen3, {dtype}", layout, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES[dtype])
    if dtype == "fp32":
        assert seen.losses[0] == pytest.approx(expected.losses[0], rel=1e-5)
    assert f"simulated: {jobs.STEPS} steps, lm loss " in seen.standard_error
