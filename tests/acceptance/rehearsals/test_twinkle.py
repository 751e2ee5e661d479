"""twinkle's cookbook/megatron/ascend/tp_npu.py beside the same on the CPU.

Two minutes.

The script is changed where CHANGES say. As with ms-swift, what is trained is named and nothing is
clipped: on NPUs `all-linear` leaves out linear_proj and linear_fc2, which cannot be named either,
and the norm of gradients lacks those of other tensor ranks. There is one data parallel rank: each
rank of twinkle makes the group of its own data parallel ranks alone (`create_process_group` in
twinkle/utils/device_mesh.py), all of one name, and gloo connects ranks of different groups.
"""

import json
import re
from pathlib import Path

import pytest

from tests.acceptance import clones
from tests.acceptance.rehearsals import frameworks
from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.acceptance.rehearsals.test_jobs import TOLERANCES

COMMIT = "v0.4.0"
MEGATRON, MINDSPEED = "core_v0.15.3", "core_r0.15.3"
SCRIPT = "cookbook/megatron/ascend/tp_npu.py"
CHANGES = {
    "'ms://Qwen/Qwen3-4B'": "{model!r}",
    "'ms://swift/self-cognition'": "{rows!r}",
    "range(256)": "range(80)",
    "dp_size=2, tp_size=2": "tp_size=2",
    "device_type='npu'": "device_type={on!r}",
    "target_modules='all-linear'": "target_modules=['linear_qkv', 'linear_fc1']",
    "lr=1e-4": "lr=1e-3, clip_grad=0.0",
}
LOSS = re.compile(r"\[NPU smoke\] step \d+/\d+, metric: \{'loss': '([0-9.]+)'")


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    """Megatron-LM, MindSpeed and the packages; twinkle asks for versions of the first two."""
    folder = tmp_path / "stack"
    folder.mkdir()
    jobs.unpack(folder, MEGATRON, MINDSPEED)
    clones.unpack(folder, "modelscope/twinkle", COMMIT, SCRIPT)
    for name in ("megatron_core", "mindspeed"):
        frameworks.tell_version(folder, name, "0.15.3")
    return folder


def test_lora_has_the_losses_of_the_cpu(stack: Path, tmp_path: Path) -> None:
    model = frameworks.make_model("qwen3", tmp_path / "qwen3")
    on_cpu, on_npu = (_script(stack, model, device) for device in ("cuda", "npu"))
    expected = frameworks.run_on_cpu([frameworks.SAME_START, on_cpu], 4, LOSS, stack, tmp_path)
    seen = frameworks.rehearse([frameworks.SAME_START, on_npu], 4, LOSS, stack, tmp_path)
    release = f"twinkle 0.5.1, {MEGATRON}"
    jobs.record(jobs.row(release, "LoRA of a Qwen3, bf16", "TP2, PP2", expected, seen))
    assert len(seen.losses) == len(expected.losses) == jobs.STEPS
    assert seen.losses == pytest.approx(expected.losses, rel=TOLERANCES["bf16"])
    assert seen.losses[0] == pytest.approx(expected.losses[0], rel=1e-4)


def _script(stack: Path, model: Path, device: str) -> str:
    """Its preprocessor reads conversations of this form."""
    rows = model / "questions.jsonl"
    with (model / "rows.jsonl").open() as lines, rows.open("w") as questions:
        for line in lines:
            query, response = (each["content"] for each in json.loads(line)["messages"])
            questions.write(f"{json.dumps({'query': query, 'response': response})}\n")
    text = (stack / SCRIPT).read_text("utf-8")
    for old, new in CHANGES.items():
        assert old in text, old
        text = text.replace(old, new.format(model=str(model), rows=str(rows), on=device))
    script = stack / f"tp_{device}.py"
    script.write_text(text, "utf-8")
    return str(script)
