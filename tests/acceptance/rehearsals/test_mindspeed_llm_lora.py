"""MindSpeed-LLM's LoRA on instructions, unmodified, beside LoRA by hand in plain torch.

A Qwen3 with random weights is saved by transformers; convert_ckpt_v2.py makes Megatron's checkpoint
of it, and preprocess_data.py the tokens, as in examples/mcore/qwen3/. On the CPU programs/
lora_plain.py trains the model of transformers. lora_A is that which a run whose learning rate is
zero has saved, for it is drawn anew from the seed.
Three to four minutes each.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.acceptance.rehearsals import mindspeed_llm as llm

PROGRAMS = Path(__file__).parent / "programs"
RATE = "1e-3"
# The fusion adds the adapter to the weights where a row has more tokens than a layer inputs: most
# rows here, but not in linear_fc2.
ROWS = [
    {
        "instruction": f"What is {index} and {other}? " * (1 + other),
        "input": "",
        "output": f"It is {index + other}.",
    }
    for index in range(8)
    for other in range(6)
]
# As examples/mcore/qwen3/tune_qwen3_0point6b_4K_lora_ptd.sh except the rate, which does not decay.
LORA = shlex.split(
    "--seq-length 128 --max-position-embeddings 128 --padded-vocab-size 512 --lr-decay-style "
    "constant --finetune --stage sft --is-instruction-dataset --tokenizer-type PretrainedFromHF "
    "--tokenizer-not-use-fast --prompt-type qwen3 --no-pad-to-seq-lengths "
    "--exit-on-missing-checkpoint --ckpt-format torch --lora-r 16 --lora-alpha 32 "
    "--lora-target-modules linear_qkv linear_proj linear_fc1 linear_fc2"
)
# The script has TP1. With TP and sequence parallelism the fusion uses CANN's
# aclnnMatmulReduceScatter, which is not simulated.
LAYOUTS = {"TP2, PP2": [], "PP2, DP2": ["--lora-fusion"]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llm.unpack(tmp_path_factory.mktemp("stack"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llm.unpack_megatron(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def made(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model and the instructions."""
    folder = tmp_path_factory.mktemp("made")
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    program = [jobs.PYTHON, str(PROGRAMS / "small_qwen3.py"), str(folder / "model")]
    subprocess.run(program, check=True, capture_output=True, timeout=300, env=env)
    (folder / "rows.json").write_text(json.dumps(ROWS))
    words = (
        f"preprocess_data.py --input {folder}/rows.json --output-prefix {folder}/alpaca"
        f" --tokenizer-name-or-path {folder}/model --tokenizer-type PretrainedFromHF --workers 1"
        " --handler-name AlpacaStyleInstructionHandler --enable-thinking true --prompt-type qwen3"
    )
    _alone(stack, words)
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lora_has_the_losses_of_the_cpu(
    plain: Path, stack: Path, made: Path, tmp_path: Path, layout: str
) -> None:
    converted, start, order = tmp_path / "converted", tmp_path / "start", tmp_path / "order.npy"
    tensor, pipeline = (2 if part in layout else 1 for part in ("TP2", "PP2"))
    _alone(
        stack,
        f"convert_ckpt_v2.py --load-model-type hf --save-model-type mg --model-type-hf qwen3"
        f" --target-tensor-parallel-size {tensor} --target-pipeline-parallel-size {pipeline}"
        f" --load-dir {made}/model --save-dir {converted}",
    )
    where = f"--load {converted} --data-path {made}/alpaca --tokenizer-name-or-path {made}/model"
    degrees, more = llm.degrees(layout), [*LORA, *LAYOUTS[layout], *shlex.split(where)]
    options = [*llm.MODEL, *llm.OWN, *degrees, *more]
    still = f"--lr 0 --min-lr 0 --train-iters 2 --save {start} --lora-ckpt-filter"
    jobs.rehearse_options(stack, stack, "posttrain_gpt.py", [*options, *shlex.split(still)])
    _alone(stack, f"{PROGRAMS}/lora_start.py {start} {start}.pt")
    moving = f"--lr {RATE} --min-lr {RATE} --train-iters {jobs.STEPS}"
    seen = jobs.rehearse_options(stack, stack, "posttrain_gpt.py", [*options, *shlex.split(moving)])
    (order,) = made.glob(f"alpaca_train_indexmap_{4 * jobs.STEPS}ns_*.npy")
    words = [f"{made}/model", f"{start}.pt", f"{made}/alpaca", str(order), RATE, str(jobs.STEPS)]
    expected = jobs.run_alone_on_cpu(plain, tmp_path, [str(PROGRAMS / "lora_plain.py"), *words])
    job = f"tune_qwen3, LoRA{', fused' if LAYOUTS[layout] else ''}, fp32"
    layouts = f"{layout}, beside one process"
    jobs.record(jobs.row(llm.RELEASE, job, layouts, expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=llm.TOLERANCES["fp32"])


def _alone(stack: Path, words: str) -> None:
    doctor = (jobs.DOCTOR, "rehearse", "--python", jobs.PYTHON, "--npus", "1", "--", "python")
    done = jobs.run([*doctor, *shlex.split(words)], stack, stack)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
