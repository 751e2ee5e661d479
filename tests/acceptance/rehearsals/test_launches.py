"""Real launches, made small, are run to their steps: those of launches.yaml with `seen: steps`.

One to five minutes each.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.machine.parsing import read_yaml
from tests.acceptance.clones import unpack
from tests.acceptance.rehearsals import megatron_jobs as jobs

HERE = Path(__file__).parent
LABELS = [label for label in read_yaml(HERE / "launches.yaml") if label.get("seen") == "steps"]
MINDSPEED = {
    "Ascend/MindSpeed-LLM": (("NVIDIA/Megatron-LM", "core_v0.12.1", "megatron"), "674226a1"),
    "NVIDIA/Megatron-LM": (None, "d0d5809d"),
    "Ascend/MindSpeed": (("NVIDIA/Megatron-LM", "core_v0.15.3", "."), "d0d5809d"),
}
STEPS = re.compile(r"simulated: \d+ steps, (lm )?loss ")


@pytest.mark.parametrize("label", LABELS, ids=lambda label: Path(label["path"]).stem)
def test_a_small_launch_steps(label: dict[str, Any], tmp_path: Path) -> None:
    _put_together(label, tmp_path)
    words = [label["path"], *(f"given-{number}" for number in range(1, 6))]
    options = ["--python", jobs.PYTHON, "--npus", "8", "--shrink"]
    launch = [jobs.DOCTOR, "rehearse", *options, "--", "bash", *words]
    done = jobs.run(launch, tmp_path, tmp_path)
    assert STEPS.search(done.stderr), done.stderr[-4000:]


def _put_together(label: dict[str, Any], tmp_path: Path) -> None:
    repository = label["repository"]
    unpack(tmp_path, repository, label["commit"])
    below, mindspeed = MINDSPEED[repository]
    unpack(tmp_path, "Ascend/MindSpeed", mindspeed, "mindspeed")
    if below:
        unpack(tmp_path, *below)
    if repository != "Ascend/MindSpeed-LLM":  # its scripts import MindSpeed's adaptor
        script = tmp_path / "pretrain_gpt.py"
        script.write_text(f"import mindspeed.megatron_adaptor\n{script.read_text('utf-8')}")
    jobs.compile_helpers(tmp_path)
    (tmp_path / "logs").mkdir(exist_ok=True)
