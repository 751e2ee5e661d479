"""A whole rehearsal on another release of torch and torch_npu than that of the ordinary tests.

`cpu_torch.py` makes torch for it where the package index has only a CUDA build. Several minutes.
"""

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.acceptance import needs

OF_FRAMEWORKS = ("mcore_bridge", "mbridge", "ray", "tensordict")  # they ask for other releases


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter with the packages of the training environment but those of frameworks."""
    venv.create(tmp_path / "environment", with_pip=False)
    variables = {"base": str(tmp_path / "environment")}
    packages = Path(sysconfig.get_path("purelib", vars=variables))
    python = Path(needs.first_path("training-python"))
    (installed,) = python.parents[1].glob("lib/python3*/site-packages")
    for path in installed.iterdir():
        if not path.name.startswith(OF_FRAMEWORKS):
            (packages / path.name).symlink_to(path)
    return tmp_path / "environment" / "bin" / "python"


def test_a_rehearsal_ends_without_errors(python: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    program = Path(sys.executable).with_name("ascend-doctor")
    subprocess.run(
        [program, "rehearse", "--python", python, "--quiet", "-o", report],
        check=False,
        timeout=1800,
    )
    document = json.loads(report.read_text())
    levels = {"error", "unknown"}
    assert [
        (finding["check"], finding["title"])
        for finding in document["findings"]
        if finding["level"] in levels
    ] == []
    (trained,) = [
        probe for probe in document["snapshot"]["probes"] if probe["probe"] == "smoke-train"
    ]
    assert [rank["ok"] for rank in trained["ranks"]] == [True] * 4
