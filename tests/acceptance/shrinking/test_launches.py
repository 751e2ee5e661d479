"""Real launches are shrunk as they were labelled in rehearsals/launches.yaml.

The launchers here only print their arguments. rehearsals/test_launches.py runs those that step.
"""

from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.machine.parsing import read_yaml
from tests.acceptance.clones import clone, git
from tests.shrinking.test_programs import start

LABELS = read_yaml(Path(__file__).parent.parent / "rehearsals" / "launches.yaml")
ON_A_HUB = "the model is a name on a hub, not a folder"


@pytest.mark.parametrize("label", LABELS, ids=lambda label: Path(label["path"]).stem)
def test_a_launch_is_shrunk_as_labelled(label: dict[str, Any], tmp_path: Path) -> None:
    script = git(clone(label["repository"]), "show", f"{label['commit']}:{label['path']}")
    (tmp_path / "launch.sh").write_bytes(script)
    (tmp_path / "pretrain_gpt.py").touch()
    arguments = [f"given-{number}" for number in range(1, 6)]
    done = start(tmp_path, ["bash", "launch.sh", *arguments])
    if not label["ranks"]:
        assert label["seen"] in done.stdout + done.stderr
        return
    if label["ends"] == ON_A_HUB:
        assert "not a folder with a config.json" in done.stderr
        return
    _, launcher, launch = done.stdout.partition(f"--nproc-per-node={label['ranks']}\n")
    assert launcher, done.stderr
    words = launch.split()
    for name, value in label["options"].items():
        assert words[words.index(f"--{name}") + 1] == str(value), name
    assert ("--mock-data" in words) is not ("PretrainedFromHF" in words)
    assert not [word for word in words if "your" in word or "given" in word]
