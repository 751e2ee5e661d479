"""Parsers on the samples of tests/samples, and on real output where a folder has it."""

import json
import os
import re
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.machine.parsing import read_yaml
from tests import samples

from . import sample_cann, sample_driver, sample_hccl, sample_hccn, sample_npu
from .sample_facts import Facts

CAPTURES = os.environ.get("ASCEND_DOCTOR_TEST_SAMPLES", "")
MODULES = (sample_npu, sample_hccn, sample_driver, sample_hccl, sample_cann)
READERS = [reader for module in MODULES for reader in module.READERS]
EXPECTED = read_yaml(Path(__file__).with_name("samples.yaml"))
# Read by diagnosis, redaction and fuzzing, not by collectors.
UNPARSED = re.compile(
    r"hccl/(err-|hccl_test|ascend-dmi)|torch_npu/|hccn_tool/(ub_)?ping-|npu-smi/version"
    r"|driver/upgrade-tool-firmware-|system/lspci-910-"
)


def differences(name: str, text: str, expected: Facts) -> Facts:
    """Facts that a sample's parser got wrong, as JSON."""
    read = next(
        read for names, read in READERS if any(fnmatch(name, pattern) for pattern in names.split())
    )
    facts = json.loads(msgspec.json.encode(read(text), order="deterministic"))
    got = {key: facts.get(key, "no such fact") for key in expected if key != "captured"}
    return {key: fact for key, fact in got.items() if fact != expected[key]}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_parser_gets_the_facts_of_a_sample(name: str) -> None:
    assert differences(name, samples.read(name), EXPECTED[name]) == {}


@pytest.mark.skipif(not CAPTURES, reason="ASCEND_DOCTOR_TEST_SAMPLES names no folder of captures")
def test_parsers_get_the_facts_of_real_output() -> None:
    """The folder has real output under the names of our samples."""
    folder = Path(CAPTURES)
    real = {str(path.relative_to(folder)) for path in folder.glob("*/*.txt")}
    wrong = {}
    for name in real & set(EXPECTED):
        expected = {**EXPECTED[name], **EXPECTED[name].get("captured", {})}
        wrong[name] = differences(name, (folder / name).read_text("utf-8"), expected)
    assert {name: facts for name, facts in wrong.items() if facts} == {}
    assert {name for name in real if not UNPARSED.match(name)} <= set(EXPECTED)
    assert {name for name, facts in EXPECTED.items() if "captured" in facts} <= real
    assert len(wrong) > 140


def test_every_sample_has_expected_facts() -> None:
    assert {name for name in samples.names() if not UNPARSED.match(name)} == set(EXPECTED)


def test_the_readme_lists_every_sample() -> None:
    readme = (samples.FOLDER / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| `([^`]+)` \|", readme, re.MULTILINE)
    assert sorted(listed) == sorted(samples.names())
