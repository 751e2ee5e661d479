"""Real launches are run, made small, to the end that is on record (`seen`).

They stand in launches.yaml, to_steps.yaml and accelerate.yaml.

One to five minutes each. Launches that step are run once more with a seeded mistake that
`lint --fix` has corrected, and without which they start something else.
"""

import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.clones import unpack
from tests.acceptance.linting import test_mended as fixes
from tests.acceptance.linting.seeding import KINDS, mistakes, prepare
from tests.acceptance.linting.started import can_be_alone
from tests.acceptance.linting.test_labelled import Label
from tests.acceptance.rehearsals import megatron_jobs as jobs
from tests.acceptance.rehearsals.frameworks import FRAMEWORKS, make_model

SEED = 20261125
HERE = Path(__file__).parent
LABELS = [
    label
    for file in ("launches.yaml", "to_steps.yaml", "accelerate.yaml")
    for label in yaml.safe_load((HERE / file).read_text("utf-8"))
    if "seen" in label
]
MINDSPEED = {
    "Ascend/MindSpeed-LLM": (("NVIDIA/Megatron-LM", "core_v0.12.1", "megatron"), "674226a1"),
    "NVIDIA/Megatron-LM": (None, "d0d5809d"),
    "swiss-ai/Megatron-LM": (None, "d0d5809d"),
    "Ascend/MindSpeed": (("NVIDIA/Megatron-LM", "core_v0.15.3", "."), "d0d5809d"),
    "modelscope/ms-swift": (("NVIDIA/Megatron-LM", "core_v0.15.3", "megatron"), "d0d5809d"),
}
# Their scripts import MindSpeed's adaptor.
ADAPTED = {"Ascend/MindSpeed-LLM", "modelscope/ms-swift"}
STEPS = re.compile(r"simulated: \d+ steps, (lm )?loss ")


@pytest.mark.parametrize("label", LABELS, ids=lambda label: Path(label["path"]).stem)
def test_a_small_launch_ends_as_on_record(label: dict[str, Any], tmp_path: Path) -> None:
    _put_together(label, tmp_path)
    done = _rehearse(label, tmp_path)
    if label["seen"] == "steps":
        assert STEPS.search(done.stderr), done.stderr[-4000:]
    else:
        assert label["seen"] in done.stdout + done.stderr


@pytest.mark.skipif(not can_be_alone(), reason="no mounts of its own on this machine")
@pytest.mark.parametrize(
    "label",
    [label for label in LABELS if label["seen"] == "steps" and "model" not in label],
    ids=lambda label: Path(label["path"]).stem,
)
def test_a_mended_launch_steps(label: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "launch"
    folder.mkdir()
    _put_together(label, folder)
    script = folder / label["path"]
    text = prepare(script.read_text("utf-8"))
    mended = _mended(Label(label["repository"], label["commit"], label["path"], ""), text, tmp_path)
    script.write_text(mended, "utf-8")
    done = _rehearse(label, folder)
    assert "simulated: 5 steps, lm loss " in done.stderr, done.stderr[-4000:]


def _mended(label: Label, text: str, folder: Path) -> str:
    """The launch after the first seeded mistake that changes what starts and that is mended."""
    kinds = random.Random(f"{SEED} {label.path}").sample(list(KINDS.items()), len(KINDS))
    for _, mistake in mistakes([text], SEED, 100, dict(kinds)):
        mended = fixes.fix_script(label, mistake.script)
        if fixes.outcome(label, text, mistake, mended) not in {"restored", "mended"}:
            continue
        if fixes.start(label, text, mistake, mended, folder / "start") == "differed":
            line = mistake.script.split("\n")[mistake.line - 1].strip()
            print(mistake.kind, "|", mistake.line, line)  # noqa: T201
            return mended
    pytest.fail("none of 100 mistakes is mended")


def _rehearse(label: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    arguments = [] if "command" in label else [f"given-{number}" for number in range(1, 6)]
    words = label.get("words", arguments)
    if "model" in label:
        words = [word.replace(label["model"], _model_folder(label, folder)) for word in words]
    start = folder / label.get("folder", "")
    script = os.path.relpath(folder / label["path"], start)
    command = [*label.get("command", ["bash"]), script, *words]
    python = FRAMEWORKS if "model" in label or "places" in label else jobs.PYTHON
    options = ["--python", python, "--npus", "8", "--shrink"]
    packages = folder / label.get("python_path", "")
    launch = [jobs.DOCTOR, "rehearse", *options, "--", *command]
    return jobs.run(launch, packages, start, label.get("env", {}))


def _put_together(label: dict[str, Any], tmp_path: Path) -> None:
    repository = label["repository"]
    unpack(tmp_path, repository, label["commit"])
    if repository in MINDSPEED:
        below, mindspeed = MINDSPEED[repository]
        unpack(tmp_path, "Ascend/MindSpeed", mindspeed, "mindspeed")
        if below:
            unpack(tmp_path, *below)
        if repository not in ADAPTED:
            script = tmp_path / "pretrain_gpt.py"
            script.write_text(f"import mindspeed.megatron_adaptor\n{script.read_text('utf-8')}")
        jobs.compile_helpers(tmp_path)
    if "model" in label:
        _make_model(label, tmp_path)
    (tmp_path / "logs").mkdir(exist_ok=True)


def _make_model(label: dict[str, Any], tmp_path: Path) -> None:
    """A folder replaces the hub name, as after a user's download."""
    model = _model_folder(label, tmp_path)
    make_model(label.get("family", "qwen3"), Path(model), "model.py")
    script = tmp_path / label["path"]
    script.write_text(script.read_text("utf-8").replace(label["model"], model), "utf-8")


def _model_folder(label: dict[str, Any], folder: Path) -> str:
    return str(folder / "models" / label["model"].rpartition("/")[2])
