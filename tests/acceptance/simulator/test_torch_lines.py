"""Whole rehearsals on other releases of torch and torch_npu.

`cpu_torch.py` makes torch for them where the package index has only a CUDA build. Several minutes
each.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance import needs


@pytest.mark.parametrize("python", needs.load().need("torch-lines").paths())
def test_a_rehearsal_ends_without_errors(python: str, tmp_path: Path) -> None:
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
