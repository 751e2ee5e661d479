"""Rows against what wheels say of themselves."""

import json

import msgspec
import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Need
from ascend_doctor.upkeep.metadata_check import contradictions
from ascend_doctor.upkeep.package_index import Interpreter, WheelMetadata, parse_report

CATALOG = Catalog()
VLLM_ASCEND = CATALOG.component("vllm-ascend")
WHEELS = (Interpreter("3.10", "aarch64"), Interpreter("3.11", "aarch64"))


def compare(needs: tuple[Need, ...], *requires: str, python: str = "") -> list[str]:
    release = msgspec.structs.replace(VLLM_ASCEND.releases[0], version="9.9", requires=needs)
    metadata = WheelMetadata(requires=requires, requires_python=python, file="a.whl")
    return [
        str(contradiction)
        for contradiction in contradictions(CATALOG, VLLM_ASCEND, release, metadata, WHEELS)
    ]


def test_a_bound_that_no_row_has_is_named() -> None:
    assert compare((), "transformers<5,>=4.57.4", "einops", "numpy; extra == 'test'") == [
        "vllm-ascend 9.9: lacks transformers <5,>=4.57.4 (a.whl)"
    ]


def test_a_hard_need_lets_in_and_shuts_out_what_the_wheel_does() -> None:
    right = Need(component="torch-npu", versions="==2.7.1")
    wrong = Need(component="torch-npu", versions="==2.7.1.post4")
    assert compare((right,), "torch-npu==2.7.1") == []
    (line,) = compare((wrong,), "torch-npu==2.7.1")
    assert "needs torch-npu ==2.7.1.post4, its wheel torch-npu ==2.7.1" in line
    assert line.endswith("2.7.1.post4 is let in, 2.7.1 is shut out (a.whl)")


def test_a_document_may_narrow_what_the_wheel_allows() -> None:
    narrower = Need(component="torch-npu", versions="==2.7.1.post4", hard=False)
    assert compare((narrower,), "torch-npu>=2.7.1") == []


def test_pythons_are_those_of_the_wheels() -> None:
    right = Need(component="python", versions=">=3.10,<3.12")
    wrong = Need(component="python", versions=">=3.10,<3.13")
    assert compare((right,), python=">=3.8") == []
    assert compare((wrong,), python=">=3.8") == [
        "vllm-ascend 9.9: needs python >=3.10,<3.13; its wheels are for 3.10, 3.11 (a.whl)"
    ]
    assert compare((wrong,), python=">=3.10,<3.13") == []


def test_a_report_of_pip_is_read() -> None:
    install = {
        "metadata": {"requires_dist": ["torch==2.7.1"], "name": "torch-npu"},
        "download_info": {"url": "file:///index/torch_npu-2.7.1-cp310-cp310-linux_aarch64.whl"},
    }
    metadata = parse_report(json.dumps({"install": [install]}).encode(), "torch-npu==2.7.1")
    assert metadata.requires == ("torch==2.7.1",)
    assert metadata.file == "torch_npu-2.7.1-cp310-cp310-linux_aarch64.whl"


@pytest.mark.parametrize("report", [b"", b"[]", b'{"install": []}', b'{"install": [{}]}'])
def test_what_is_no_report_is_said(report: bytes) -> None:
    with pytest.raises(DataError, match="pip's report of x==1"):
        parse_report(report, "x==1")
