"""ms-swift's `megatron sft`, unmodified, beside the same on the CPU.

The interpreter has mcore-bridge 1.5.0. Two minutes.

What is trained is named, and no gradient is clipped, because on NPUs `all-linear` leaves
linear_proj out and the norm of gradients lacks those of other tensor ranks
(docs/records/fidelity.md).
ms-swift has no other precision than bfloat16 and float16.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.acceptance import clones
from tests.acceptance.rehearsals import frameworks
from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.acceptance.rehearsals.test_jobs import TOLERANCES

COMMIT = "3602360a"
MEGATRON, MINDSPEED = "core_v0.15.3", "core_r0.15.3"
OPTIONS = (
    "--model_type qwen3_moe --template qwen3 --torch_dtype bfloat16 --bf16 true "
    "--moe_permute_fusion false --moe_grouped_gemm true --moe_aux_loss_coeff 0 --micro_batch_size "
    "2 --global_batch_size 4 --lr 1e-3 --lr_warmup_iters 0 --min_lr 1e-4 --train_iters "
    f"{jobs.STEPS} --max_length 128 --logging_steps 1 --save_steps 100 --no_save_optim true "
    "--no_save_rng true --attention_backend flash --clip_grad 0 --cross_entropy_loss_fusion false "
    "--gradient_accumulation_fusion false --dataloader_num_workers 0 --dataset_num_proc 1 "
    "--split_dataset_ratio 0 --seed 42 --padding_free false --finetune true"
)
LORA = (
    "--tuner_type lora --lora_rank 8 --lora_alpha 32 --lora_dropout 0"
    " --target_modules linear_qkv linear_fc1 linear_fc2"
)
LAYOUT = "TP2, EP2"
DEGREES = "--tensor_model_parallel_size 2 --sequence_parallel true --expert_model_parallel_size 2"
LOSS = re.compile(r"\{'loss': ([0-9.e+-]+)")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Megatron-LM, MindSpeed and ms-swift; mcore-bridge asks for the version of MindSpeed."""
    folder = tmp_path_factory.mktemp("ms-swift")
    jobs.unpack(folder, MEGATRON, MINDSPEED)
    clones.unpack(folder, "modelscope/ms-swift", COMMIT, "swift")
    frameworks.tell_version(folder, "mindspeed", "0.15.3")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return frameworks.make_model("qwen3_moe", tmp_path_factory.mktemp("qwen3_moe"))


def test_lora_has_the_losses_of_the_cpu(stack: Path, model: Path, tmp_path: Path) -> None:
    where = f"--model {model} --dataset {model}/rows.jsonl --output_dir {tmp_path}/saved"
    options = shlex.split(f"{where} {OPTIONS} {DEGREES} {LORA}")
    words = [frameworks.SAME_START, str(stack / "swift/cli/_megatron/sft.py"), *options]
    expected = frameworks.run_on_cpu(words, 2, LOSS, stack, tmp_path)
    seen = frameworks.rehearse(words, 2, LOSS, stack, tmp_path)
    job = "megatron sft of a Qwen3-MoE, LoRA, bf16"
    release = f"ms-swift {COMMIT}, {MEGATRON}"
    jobs.record(jobs.row(release, job, LAYOUT, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES["bf16"])
    assert seen.losses[0] == pytest.approx(expected.losses[0], rel=1e-4)
