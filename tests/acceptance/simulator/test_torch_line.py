"""A whole rehearsal on another release of torch and torch_npu than that of the ordinary tests.

`cpu_torch.py` makes torch for it where the package index has only a CUDA build. Several minutes.
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.acceptance import needs


def test_a_rehearsal_ends_without_errors(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    program = Path(sys.executable).with_name("ascend-doctor")
    python = needs.first_path("training-python")
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
