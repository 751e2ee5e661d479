"""MindSpeed-LLM's pretrain_gpt.py, unmodified, beside Megatron-LM's own on the CPU.

Three minutes.
"""

import shlex
from pathlib import Path

import pytest

from tests.acceptance import clones
from tests.acceptance.rehearsals import megatron_jobs as jobs

COMMIT = "62d4640b"
RELEASE = f"MindSpeed-LLM {COMMIT}"
MEGATRON, MINDSPEED = "core_v0.12.1", "2.3.0_core_r0.12.1"
# Of each loss, relative. Weights that do not decay, another epsilon of the norms or another
# rotation base are seen: they part ten fp32 losses by 2e-5 or more.
TOLERANCE = 1e-5
# Those of examples/mcore/qwen3/ which Megatron-LM has too; sizes are ours, and where weights are
# made.
MODEL = shlex.split(
    "--use-mcore-models --kv-channels 16 --qk-layernorm --num-layers 2 --hidden-size 64"
    " --num-attention-heads 4 --ffn-hidden-size 192 --max-position-embeddings 64 --seq-length 64"
    " --rotary-base 1000000 --disable-bias-linear --swiglu --normalization RMSNorm"
    " --position-embedding-type rope --norm-epsilon 1e-6 --no-gradient-accumulation-fusion"
    " --attention-softmax-in-fp32 --group-query-attention --num-query-groups 2 --seed 42"
    " --use-rotary-position-embeddings --no-masked-softmax-fusion --no-load-optim --no-load-rng"
    " --micro-batch-size 1 --global-batch-size 4 --weight-decay 1e-1 --attention-dropout 0.0"
    " --hidden-dropout 0.0 --clip-grad 1.0 --adam-beta1 0.9 --adam-beta2 0.95 --split 100,0,0"
    " --log-interval 1 --save-interval 1000 --eval-interval 1000 --eval-iters 0"
    " --use-cpu-initialization"
)
# As examples/mcore/qwen3/pretrain_qwen3_0point6b_4K_ptd.sh except rates and data.
BOTH = shlex.split(
    f"--lr 1e-3 --min-lr 1e-4 --train-iters {jobs.STEPS} --initial-loss-scale 4096 --mock-data"
    " --vocab-size 5000 --tokenizer-type NullTokenizer"
)
# Options that it lacks, or for which it wants Transformer Engine.
OWN = shlex.split(
    "--spec mindspeed_llm.tasks.models.spec.qwen3_spec layer_spec --use-flash-attn"
    " --sequence-parallel --make-vocab-size-divisible-by 1 --log-throughput"
    " --use-fused-rotary-pos-emb --use-fused-swiglu --use-fused-rmsnorm --use-distributed-optimizer"
    " --no-shared-storage --padded-vocab-size 5120"
)
LAYOUT = "TP2, PP2"
DEGREES = shlex.split("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2")
CPU = ["--transformer-impl", "local", "--no-rope-fusion"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stack")
    clones.unpack(folder, "Ascend/MindSpeed-LLM", COMMIT)
    clones.unpack(folder, jobs.MINDSPEED, MINDSPEED, "mindspeed")
    clones.unpack(folder, jobs.MEGATRON, MEGATRON, "megatron")
    jobs.compile_helpers(folder)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Megatron-LM alone, in MindSpeed-LLM's release."""
    folder = tmp_path_factory.mktemp("plain")
    clones.unpack(folder, jobs.MEGATRON, MEGATRON, "megatron", ":(glob)*.py")
    jobs.compile_helpers(folder)
    return folder


def test_pretraining_has_the_losses_of_the_cpu(plain: Path, stack: Path, tmp_path: Path) -> None:
    """Both draw their weights on the CPU, in one order from one seed."""
    options = [*MODEL, *BOTH, *DEGREES]
    expected = jobs.run_options_on_cpu(plain, tmp_path, [*options, *CPU])
    seen = jobs.rehearse_options(stack, tmp_path, "pretrain_gpt.py", [*options, *OWN])
    jobs.record(jobs.row(RELEASE, "pretrain_qwen3, fp32", LAYOUT, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCE)
    assert f"simulated: {jobs.STEPS} steps, lm loss " in seen.standard_error


@pytest.mark.parametrize("kind", ["sft --is-instruction-dataset", "dpo --is-pairwise-dataset"])
def test_fine_tuning_without_data_steps_at_true_size(
    kind: str, stack: Path, tmp_path: Path
) -> None:
    program = ["torchrun", "--nproc-per-node", "2", str(stack / "posttrain_gpt.py")]
    added = (
        "--bf16 --tensor-model-parallel-size 2 --lr 1e-3 --train-iters 9 --no-pad-to-seq-lengths"
    )
    inputs = "--data-path /no/data --tokenizer-name-or-path /no/t --distributed-backend nccl"
    launch = [*program, *MODEL, *OWN, *f"{added} {inputs} --stage {kind}".split()]
    doctor = [jobs.DOCTOR, "rehearse", "--python", jobs.PYTHON, "--npus", "2", "--true-size"]
    done = jobs.run([*doctor, "--", *launch], stack, tmp_path)
    assert "simulated: optimizer steps: 3;" in done.stderr, done.stderr[-4000:]
