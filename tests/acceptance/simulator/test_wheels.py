"""Wheels of torch_npu are as recorded."""

import json
from pathlib import Path

from tests.acceptance import needs
from tests.simulator import fidelity


def test_a_wheel_is_as_recorded() -> None:
    recorded = {
        (row["version"], row["machine"]): {key: row[key] for key in row if key != "ran"}
        for row in json.loads(fidelity.SEEN.read_text("utf-8"))["wheels"]
    }
    paths = [*Path(needs.first_path("torch-npu-wheels")).rglob("torch_npu-*.whl")]
    assert paths
    for path in paths:
        wheel = fidelity.read_wheel(path)
        assert wheel == recorded[wheel["version"], wheel["machine"]]
