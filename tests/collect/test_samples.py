"""Every sample is parsed, and gives what tests/samples/README.md says that a parser must get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import rows_driver, rows_hccl, rows_hccn, rows_npu_details, rows_npu_table
from .sample_facts import Rows

SAMPLES = Path(__file__).parents[1] / "samples"
ROWS: Rows = {
    **rows_npu_table.ROWS,
    **rows_npu_details.ROWS,
    **rows_hccn.ROWS,
    **rows_driver.ROWS,
    **rows_hccl.ROWS,
}


@pytest.mark.parametrize("name", ROWS)
def test_a_sample_gives_its_facts(name: str) -> None:
    parse, expected = ROWS[name]
    facts = parse((SAMPLES / name).read_text("utf-8"))
    assert {key: facts.get(key, "no such fact") for key in expected} == expected


def named_in(name: str, source: str) -> bool:
    """Whether a test file names this sample, whole or as an f-string with one quoted part."""
    if f'"{name}"' in source:
        return True
    patterns = re.findall(r'f"\{name\}(-[^"{}]+)"', source)
    return any(
        name.endswith(rest) and f'"{name.removesuffix(rest)}"' in source for rest in patterns
    )


# Nothing is collected by these commands yet; redaction and fuzzing read what they print.
UNPARSED = {
    "hccl/ascend-dmi-dg-aiflops-pass.txt",
    "hccl/hccl_test-failed-rank.txt",
    "hccn_tool/ping-a2.txt",
    "hccn_tool/ub_ping-950-doc.txt",
    "torch_npu/err-import-torch_npu-no-cann-autoload-off.txt",
    "torch_npu/err-second-import-same-process.txt",
}


def test_every_sample_has_a_row() -> None:
    """Samples of CANN have theirs in the tests of its collector, errors in those of diagnoses."""
    cann = Path(__file__).with_name("test_cann.py").read_text("utf-8")
    logs = (SAMPLES.parent / "diagnosis" / "test_logs.py").read_text("utf-8")
    files = {str(path.relative_to(SAMPLES)) for path in SAMPLES.glob("*/*")}
    missing = {
        name
        for name in files - set(ROWS) - UNPARSED
        if not named_in(name, logs)
        and not (name.startswith("cann/") and named_in(name.partition("/")[2], cann))
    }
    assert not missing
    assert set(ROWS) | UNPARSED <= files


def test_the_readme_lists_every_sample() -> None:
    readme = (SAMPLES / "README.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `([^`]+)` \|", readme, re.MULTILINE))
    assert listed == {str(path.relative_to(SAMPLES)) for path in SAMPLES.glob("*/*")}
