"""What pip says of a wheel."""

import json

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.upkeep.package_index import parse_report


def test_a_report_of_pip_is_read() -> None:
    install = {
        "metadata": {"requires_dist": ["torch==2.7.1"], "name": "torch-npu"},
        "download_info": {"url": "file:///index/torch_npu-2.7.1-cp310-cp310-linux_aarch64.whl"},
    }
    report = json.dumps({"install": [install]}).encode()
    assert parse_report(report, "torch-npu==2.7.1") == ("torch==2.7.1",)


@pytest.mark.parametrize("report", [b"", b"[]", b'{"install": []}', b'{"install": [{}]}'])
def test_what_is_no_report_is_said(report: bytes) -> None:
    with pytest.raises(DataError, match="pip's report of x==1"):
        parse_report(report, "x==1")
