"""verl's own trainer of SFT with its Megatron engine, unmodified, beside the same on the CPU.

ASCEND_DOCTOR_TEST_LAUNCHES names a folder with clones as OWNER+NAME/repo, here of verl and mbridge;
ASCEND_DOCTOR_TEST_FRAMEWORKS_PYTHON an interpreter with what verl imports, torch 2.7.1 and
torch_npu 2.7.1.post4; the other variables are those of test_jobs.py. Three minutes each.

The options are those of verl's tests/special_e2e/sft/run_sft_engine.sh, with a smaller batch and a
learning rate that is seen in ten steps. verl has no other precision than bfloat16 and float16.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.rehearsals import megatron_jobs as jobs
from tests.rehearsals.test_jobs import TAGS, TOLERANCES, _row
from tests.rehearsals.test_launches import CLONES, FRAMEWORKS

HERE = Path(__file__).parent
# core_r0.15.3 ends at once: mindspeed/core/fusions/fused_rope.py, line 123, does not hand on the
# cp_group that Megatron-LM's rotary embedding of packed sequences wants.
CORE = "core_v0.12.1"
VERL, MBRIDGE = "b178a3cd56f58b2d502255daba591e92833930a7", "v0.15.1"
LAYOUTS = {"TP2, PP2": (2, 2), "TP2, DP2": (2, 1)}
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
pytestmark = pytest.mark.skipif(
    not (jobs.MINDSPEED and jobs.MEGATRON and jobs.PYTHON and CLONES and FRAMEWORKS),
    reason="ASCEND_DOCTOR_TEST_MINDSPEED, _MEGATRON_LM, _JOBS_PYTHON, _LAUNCHES and"
    " _FRAMEWORKS_PYTHON name no stack of verl",
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of Megatron-LM with MindSpeed's, verl and mbridge."""
    folder = tmp_path_factory.mktemp("verl") / CORE
    folder.mkdir()
    jobs.unpack(folder, CORE, TAGS[CORE])
    jobs.unpack_clone(folder, f"{CLONES}/verl-project+verl/repo", VERL, "verl")
    jobs.unpack_clone(
        folder, f"{CLONES}/ISEEKYAN+mbridge/repo", MBRIDGE, "mbridge", "pyproject.toml"
    )
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3, and conversations as verl reads them."""
    folder = tmp_path_factory.mktemp("qwen3")
    subprocess.run(
        [FRAMEWORKS, HERE / "programs" / "tiny_model.py", "qwen3", folder],
        check=True,
        capture_output=True,
        timeout=300,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sft_has_the_losses_of_the_cpu(
    stack: Path, model: Path, tmp_path: Path, layout: str
) -> None:
    expected = _on_cpu(stack, tmp_path, _options(model, layout))
    seen = _rehearse(stack, tmp_path, _options(model, layout))
    jobs.record(_row(stack, "verl, SFT of a Qwen3, bf16", layout, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES["bf16"])
    assert seen.losses[0] == pytest.approx(expected.losses[0], rel=1e-4)
    norms, others = (NORM.findall(run.standard_error) for run in (seen, expected))
    assert [*map(float, norms)] == pytest.approx([*map(float, others)], rel=TOLERANCES["bf16"])


def _options(model: Path, layout: str) -> list[str]:
    tensor, pipeline = LAYOUTS[layout]
    return [
        *(f"data.train_files={model / 'rows.parquet'}", f"model.path={model}"),
        f"engine.tensor_model_parallel_size={tensor}",
        f"engine.pipeline_model_parallel_size={pipeline}",
        *shlex.split(OPTIONS),
    ]


def _rehearse(stack: Path, folder: Path, options: list[str]) -> jobs.JobRun:
    doctor = (jobs.DOCTOR, "rehearse", "--python", FRAMEWORKS, "--npus", "4", "--", "python")
    return _run([*doctor, *_torchrun("-m", "verl.trainer.sft_trainer", *options)], stack, folder)


def _on_cpu(stack: Path, folder: Path, options: list[str]) -> jobs.JobRun:
    script = (jobs.PLAIN, str(HERE / "programs" / "verl_sft.py"))
    # Otherwise torch compiles what Megatron marks for it, which takes longer than the job.
    env = {
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCHDYNAMO_DISABLE": "1",
        "PYTHONPATH": f"{stack}:{HERE / 'plain'}",
    }
    return _run([FRAMEWORKS, *_torchrun(*script, *options)], stack, folder, env)


def _torchrun(*words: str) -> tuple[str, ...]:
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", *words)


def _run(
    command: list[str], stack: Path, folder: Path, env: dict[str, str] | None = None
) -> jobs.JobRun:
    return jobs.watch(command, LOSS, stack, folder, {"HF_HUB_OFFLINE": "1", **(env or {})})
