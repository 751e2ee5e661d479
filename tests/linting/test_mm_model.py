"""MindSpeed-MM: the file of --mm-model, and what it needs of the parallel sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.findings import Level
from tests.linting.test_rl import lint_file, spots

MODEL: dict[str, Any] = {
    "model_id": "qwen2_5vl",
    "image_encoder": {
        "vision_encoder": {
            "num_layers": 32,
            "num_attention_heads": 16,
            "hidden_size": 1280,
            "pipeline_num_layers": [32, 0],
        }
    },
    "text_decoder": {
        "num_layers": 28,
        "pipeline_num_layers": [12, 16],
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "num_query_groups": 4,
        "num_moe_experts": 8,
    },
}
SCRIPT = """\
PP=2
torchrun --nproc_per_node 8 pretrain_vlm.py --tensor-model-parallel-size 2 \\
    --pipeline-model-parallel-size $PP --expert-model-parallel-size 2 --sequence-parallel \\
    --micro-batch-size 1 --global-batch-size 8 --bf16 --mm-model ./examples/qwen/model.json
"""


def write(folder: Path, script: str = SCRIPT, model: dict[str, Any] | None = None) -> Path:
    path = folder / "examples/qwen/finetune.sh"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.with_name("model.json").write_text(json.dumps(model or MODEL, indent=4))
    return path


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "examples/qwen/model.json").read_text().split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


def with_decoder(**changes: Any) -> dict[str, Any]:
    return {**MODEL, "text_decoder": {**MODEL["text_decoder"], **changes}}


def test_a_model_that_fits_is_judged(tmp_path: Path) -> None:
    findings = lint_file(write(tmp_path))
    assert [
        (finding.check, finding.title) for finding in findings if finding.level > Level.SKIPPED
    ] == []
    assert "run-mm-model" in {finding.check for finding in findings if finding.level is Level.OK}


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"num_attention_heads": 27}, '"num_attention_heads": 27'),
        ({"num_query_groups": 3}, '"num_query_groups": 3'),
        ({"pipeline_num_layers": [12, 15]}, " 12,"),
        ({"pipeline_num_layers": [12, 8, 8]}, " 12,"),
        ({"pipeline_num_layers": [[6, 8], [6, 8]]}, " 6,"),
    ],
)
def test_a_mistake_is_found_at_its_line(tmp_path: Path, changes: dict[str, Any], at: str) -> None:
    script = write(tmp_path, model=with_decoder(**changes))
    assert (f"model.json:{line_of(tmp_path, at)}", "run-mm-model") in spots(lint_file(script))


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("PP=2", "PP=4", 1),
        ("expert-model-parallel-size 2", "expert-model-parallel-size 3", 3),
        ("tensor-model-parallel-size 2", "tensor-model-parallel-size 8", 2),
    ],
)
def test_a_size_of_the_command_is_found_there(
    tmp_path: Path, before: str, after: str, line: int
) -> None:
    script = write(tmp_path, SCRIPT.replace(before, after))
    assert (f"finetune.sh:{line}", "run-mm-model") in spots(lint_file(script))


def test_virtual_stages_are_lists_of_lists(tmp_path: Path) -> None:
    script = SCRIPT.replace("--bf16", "--bf16 --virtual-pipeline-model-parallel-size 2")
    model = with_decoder(pipeline_num_layers=[[6, 8], [6, 8]])
    model["image_encoder"] = {
        "vision_encoder": {**MODEL["image_encoder"]["vision_encoder"]}
        | {"pipeline_num_layers": [[32, 0], [0, 0]]}
    }
    assert spots(lint_file(write(tmp_path, script, model))) == []
    assert spots(lint_file(write(tmp_path, script, with_decoder()))) != []


def test_a_file_that_is_not_read_is_not_judged(tmp_path: Path) -> None:
    for name in ("$MODEL", "/elsewhere/model.json", "examples/qwen/other.json"):
        findings = lint_file(write(tmp_path, SCRIPT.replace("./examples/qwen/model.json", name)))
        assert [check for _, check in spots(findings, Level.UNKNOWN)] == ["launch-resolved"]


def test_models_of_transformers_are_judged_only_where_they_are_not_split(tmp_path: Path) -> None:
    script = SCRIPT.replace("pretrain_vlm.py", "pretrain_transformers.py")
    findings = lint_file(write(tmp_path, script))
    assert [finding.check for finding in findings if finding.level is Level.UNKNOWN] == [
        "launch-resolved"
    ]
    for size in ("PP=2", "tensor-model-parallel-size 2", "expert-model-parallel-size 2"):
        script = script.replace(size, f"{size[:-1]}1")
    assert [
        finding for finding in lint_file(write(tmp_path, script)) if finding.level is Level.UNKNOWN
    ] == []
