"""Real launches are run, made small, to the end that is on record (launches.yaml, `seen`).

ASCEND_DOCTOR_TEST_LAUNCHES names a folder with clones as OWNER+NAME/repo, those of Megatron-LM and
MindSpeed too; ASCEND_DOCTOR_TEST_JOBS_PYTHON an interpreter as for test_jobs.py, with what
MindSpeed-LLM imports. One to five minutes each.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rehearsals import megatron_jobs as jobs

CLONES = os.environ.get("ASCEND_DOCTOR_TEST_LAUNCHES", "")
LABELS = [
    label
    for label in yaml.safe_load(Path(__file__).with_name("launches.yaml").read_text("utf-8"))
    if "seen" in label
]
pytestmark = pytest.mark.skipif(
    not (CLONES and jobs.PYTHON),
    reason="ASCEND_DOCTOR_TEST_LAUNCHES and _JOBS_PYTHON name no clones and no interpreter",
)
MINDSPEED = {
    "Ascend/MindSpeed-LLM": (("NVIDIA/Megatron-LM", "core_v0.12.1", "megatron"), "674226a1"),
    "NVIDIA/Megatron-LM": (None, "d0d5809d"),
    "swiss-ai/Megatron-LM": (None, "d0d5809d"),
    "Ascend/MindSpeed": (("NVIDIA/Megatron-LM", "core_v0.15.3", "."), "d0d5809d"),
}


@pytest.mark.parametrize("label", LABELS, ids=lambda label: Path(label["path"]).stem)
def test_a_small_launch_ends_as_on_record(label: dict[str, Any], tmp_path: Path) -> None:
    repository = label["repository"]
    _unpack(tmp_path, repository, label["commit"])
    if repository in MINDSPEED:
        below, mindspeed = MINDSPEED[repository]
        _unpack(tmp_path, "Ascend/MindSpeed", mindspeed, "mindspeed")
        if below:
            _unpack(tmp_path, *below)
        else:
            script = tmp_path / "pretrain_gpt.py"
            script.write_text(f"import mindspeed.megatron_adaptor\n{script.read_text('utf-8')}")
        jobs.compile_helpers(tmp_path)
    (tmp_path / "logs").mkdir(exist_ok=True)
    given = [f"given-{number}" for number in range(1, 6)]
    words = [label["path"], *label.get("words", given)]
    options = ["--python", jobs.PYTHON, "--npus", "8", "--shrink"]
    done = jobs.run([jobs.DOCTOR, "rehearse", *options, "--", "bash", *words], tmp_path, tmp_path)
    if label["seen"] == "steps":
        assert "simulated: 5 steps, lm loss " in done.stderr, done.stderr[-4000:]
    else:
        assert label["seen"] in done.stdout + done.stderr


def _unpack(folder: Path, repository: str, ref: str, *below: str) -> None:
    clone = f"{CLONES}/{repository.replace('/', '+')}/repo"
    command = ["git", "-C", clone, "archive", ref, *below]
    archive = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    subprocess.run(["tar", "x", "-C", folder], check=True, input=archive, timeout=120)
