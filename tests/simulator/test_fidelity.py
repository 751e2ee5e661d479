from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.simulator import fidelity


def test_the_page_is_what_the_code_and_the_observations_say() -> None:
    written = fidelity.PAGE.read_text("utf-8")
    assert written == fidelity.page(), "run python -m tests.simulator.fidelity"


def test_every_operator_has_a_row() -> None:
    page = fidelity.PAGE.read_text("utf-8")
    assert [one.name for one in fidelity.table() if one.name.partition("::")[2] not in page] == []


def test_the_wheels_are_as_recorded() -> None:
    folder = os.environ.get("ASCEND_DOCTOR_TEST_WHEELS")
    if not folder:
        pytest.skip("ASCEND_DOCTOR_TEST_WHEELS names no folder of torch_npu wheels")
    recorded = {
        (one["version"], one["machine"]): {k: v for k, v in one.items() if k != "ran"}
        for one in json.loads(fidelity.SEEN.read_text("utf-8"))["wheels"]
    }
    for path in Path(folder).rglob("torch_npu-*.whl"):
        found = fidelity.read_wheel(path)
        assert found == recorded[found["version"], found["machine"]]
