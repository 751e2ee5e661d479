"""verl's own trainer of SFT with its Megatron engine, unmodified, beside the same on the CPU.

Three minutes.

The options are those of verl's tests/special_e2e/sft/run_sft_engine.sh, with a smaller batch and a
learning rate that is seen in ten steps. verl has no other precision than bfloat16 and float16.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.acceptance import clones
from tests.acceptance.rehearsals import frameworks
from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.acceptance.rehearsals.test_jobs import TAGS, TOLERANCES

ENTRY = str(frameworks.HERE / "programs" / "verl_sft.py")
# core_r0.15.3 ends at once: mindspeed/core/fusions/fused_rope.py, line 123, does not hand on the
# cp_group that Megatron-LM's rotary embedding of packed sequences wants.
CORE = "core_v0.12.1"
VERL = "b178a3cd"
LAYOUT = "TP2, PP2"
OPTIONS = (
    "data.val_files=null data.train_batch_size=8 data.pad_mode=no_padding data.truncation=error"
    " data.use_dynamic_bsz=True data.max_token_len_per_gpu=128 data.messages_key=messages"
    " model.use_remove_padding=True engine=megatron optim=megatron optim.lr=1e-3"
    " optim.lr_warmup_steps_ratio=0 optim.weight_decay=0.1 optim.betas=[0.9,0.95]"
    " optim.clip_grad=1.0 optim.lr_warmup_init=0 optim.lr_decay_style=cosine optim.min_lr=1e-4"
    " engine.use_mbridge=True trainer.test_freq=-1 trainer.save_freq=-1 trainer.logger=[console]"
    " trainer.project_name=tests trainer.experiment_name=sft trainer.total_epochs=1"
    f" trainer.total_training_steps={jobs.STEPS} trainer.resume_mode=disable"
    " checkpoint.save_contents=[]"
)
LOSS = re.compile(r"step:\d+ - train/loss:([0-9.e+-]+)")
NORM = re.compile(r"train/grad_norm:([0-9.e+-]+)")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of Megatron-LM with MindSpeed's, and verl."""
    folder = tmp_path_factory.mktemp("verl")
    jobs.unpack(folder, CORE, TAGS[CORE])
    clones.unpack(folder, "verl-project/verl", VERL, "verl")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return frameworks.make_model("qwen3", tmp_path_factory.mktemp("qwen3"))


def test_sft_has_the_losses_of_the_cpu(stack: Path, model: Path, tmp_path: Path) -> None:
    options = [
        *(f"data.train_files={model / 'rows.parquet'}", f"model.path={model}"),
        "engine.tensor_model_parallel_size=2",
        "engine.pipeline_model_parallel_size=2",
        *shlex.split(OPTIONS),
    ]
    expected = frameworks.run_on_cpu([ENTRY, *options], 4, LOSS, stack, tmp_path)
    words = ["-m", "verl.trainer.sft_trainer", *options]
    seen = frameworks.rehearse(words, 4, LOSS, stack, tmp_path)
    release = f"verl {VERL}, {CORE}"
    jobs.record(
        jobs.row(release, "SFT of a Qwen3 by its Megatron engine, bf16", LAYOUT, expected, seen)
    )
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES["bf16"])
    assert seen.losses[0] == pytest.approx(expected.losses[0], rel=1e-4)
    norms, others = (NORM.findall(run.standard_error) for run in (seen, expected))
    assert [*map(float, norms)] == pytest.approx([*map(float, others)], rel=TOLERANCES["bf16"])
