"""MindSpeed-LLM with its Megatron-LM and MindSpeed, and the options that its jobs share."""

import shlex
from pathlib import Path

from tests.acceptance import clones
from tests.acceptance.rehearsals import megatron_jobs as jobs

COMMIT = "62d4640b"
RELEASE = f"MindSpeed-LLM {COMMIT}"
MEGATRON, MINDSPEED = "core_v0.12.1", "2.3.0_core_r0.12.1"
# Of each loss, relative. Weights that do not decay, another epsilon of the norms or another
# rotation base are seen: they part ten fp32 losses by 2e-5 or more.
TOLERANCES = {"fp32": 1e-5, "bf16": 2e-4}
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
# Options that it lacks, or for which it wants Transformer Engine.
OWN = shlex.split(
    "--spec mindspeed_llm.tasks.models.spec.qwen3_spec layer_spec --use-flash-attn"
    " --sequence-parallel --make-vocab-size-divisible-by 1 --log-throughput"
)


def unpack(folder: Path) -> Path:
    clones.unpack(folder, "Ascend/MindSpeed-LLM", COMMIT)
    clones.unpack(folder, jobs.MINDSPEED, MINDSPEED, "mindspeed")
    clones.unpack(folder, jobs.MEGATRON, MEGATRON, "megatron")
    jobs.compile_helpers(folder)
    return folder


def unpack_megatron(folder: Path) -> Path:
    """Megatron-LM alone, in MindSpeed-LLM's release."""
    clones.unpack(folder, jobs.MEGATRON, MEGATRON, "megatron", ":(glob)*.py")
    jobs.compile_helpers(folder)
    return folder


def degrees(layout: str) -> list[str]:
    """Options of "TP2, PP2"; data parallelism follows from the ranks."""
    long = {"TP": "--tensor-model-parallel-size", "PP": "--pipeline-model-parallel-size"}
    words = ((part[:2], part[2:]) for part in layout.split(", "))
    return [word for name, size in words if name in long for word in (long[name], size)]
