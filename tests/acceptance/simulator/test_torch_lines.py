"""Whole rehearsals on other releases of torch and torch_npu.

`cpu_torch.py` makes torch for them where the package index has only a CUDA build. Several minutes
each.
"""

from __future__ import annotations

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
    told = json.loads(report.read_text())
    levels = {"error", "unknown"}
    assert [
        (one["check"], one["title"]) for one in told["findings"] if one["level"] in levels
    ] == []
    (trained,) = [one for one in told["snapshot"]["probes"] if one["probe"] == "smoke-train"]
    assert [one["ok"] for one in trained["ranks"]] == [True] * 4
