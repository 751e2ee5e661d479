"""Rows of rank tables, hccl_test, ascend-dmi, and the error texts of CANN and torch_npu."""

from __future__ import annotations

import msgspec

from ascend_doctor.collect.hccl import parse_rank_table
from ascend_doctor.collect.hccl_output import parse_cann_error, parse_diagnosis, parse_hccl_test

from .sample_facts import Facts, Rows, plain


def ranks(text: str) -> Facts:
    table = parse_rank_table(text)
    return {
        **msgspec.structs.asdict(table),
        "ids": [(one.rank, one.server, one.device, one.address) for one in table.ranks],
        "ports": [(one.device_port, one.host_port) for one in table.ranks],
        "super": [one.super_device for one in table.ranks],
    }


def hccl_test(text: str) -> Facts:
    return {
        "rows": [
            (one.rank, one.bytes, one.us, one.gbytes_per_s, one.ok) for one in parse_hccl_test(text)
        ]
    }


ROWS: Rows = {
    "hccl/hccl_test-success.txt": (hccl_test, {"rows": [(None, 8192, 764.55, 0.00998, True)]}),
    "hccl/hccl_test-128-ranks-1GiB.txt": (
        hccl_test,
        {
            "rows": [
                (None, 1024, 60.70, 0.01687, True),
                (None, 1073741824, 10442.38, 102.82543, True),
            ]
        },
    ),
    "hccl/hccl_test-failed-rank.txt": (
        hccl_test,
        {"rows": [(3, 8192, 12.5, 0.65536, False), (None, 8192, 12.5, 0.65536, True)]},
    ),
    "hccl/rank_table-a2-v1.0.json.txt": (
        ranks,
        {
            "version": "1.0",
            "status": "completed",
            "counted": 2,
            "ids": [
                (0, "node_0", 0, "192.0.2.8"),
                (1, "node_0", 1, "192.0.2.9"),
                (2, "node_1", 0, "198.51.100.8"),
                (3, "node_1", 1, "198.51.100.9"),
            ],
            "problem": None,
        },
    ),
    "hccl/rank_table-a3-v1.2.json.txt": (
        ranks,
        {
            "version": "1.2",
            "super": [0, 1, 4, 5],
            "pods": {"node_0": "0", "node_1": "0"},
            "ports": [(16666, 16665), (16666, 16666)] * 2,
        },
    ),
    "hccl/rank_table-910-legacy-group_list.json.txt": (
        ranks,
        {
            "version": "",
            "status": "completed",
            "ids": [(None, "node_0", 0, "192.0.2.8"), (None, "node_1", 1, "192.0.2.9")],
        },
    ),
    "hccl/rank_table-950-v2.0.json.txt": (
        ranks,
        {
            "version": "2.0",
            "counted": 2,
            "ids": [
                (0, "az0-rack0-pod0", 0, "192.0.2.10"),
                (1, "az0-rack0-pod0", 1, "192.0.2.11"),
            ],
            "ports": [(16666, 60001), (16667, 60002)],
        },
    ),
    "hccl/err-EI0001-env-value.txt": (
        plain(parse_cann_error),
        {
            "code": "EI0001",
            "values": {"value": "1000", "variable": "HCCL_RDMA_SL", "wanted": "range[0, 7]."},
        },
    ),
    "hccl/err-EE2002-visible-devices-duplicate.txt": (
        plain(parse_cann_error),
        {
            "code": "EE2002",
            "values": {
                "value": "1,2,2",
                "variable": "ASCEND_RT_VISIBLE_DEVICES",
                "wanted": "cannot be duplicated.",
            },
        },
    ),
    "hccl/err-EI0004-ranktable-path.txt": (
        plain(parse_cann_error),
        {"code": "EI0004", "values": {"path": "/ranktable.json"}},
    ),
    "hccl/err-EI0014-ranktable-ip-mismatch.txt": (
        plain(parse_cann_error),
        {"code": "EI0014", "values": {"in_table": "192.0.2.20", "on_device": "192.0.2.21"}},
    ),
    "hccl/err-EI0016-tls-mismatch.txt": (
        plain(parse_cann_error),
        {"code": "EI0016", "values": {"enabled": "192.0.2.107/0", "disabled": "192.0.2.107/0"}},
    ),
    "hccl/ascend-dmi-dg-aiflops-pass.txt": (parse_diagnosis, {"aiflops": "PASS"}),
    "torch_npu/err-import-torch-no-cann.txt": (
        plain(parse_cann_error),
        {"code": None, "values": {"library": "libhccl.so"}},
    ),
    "torch_npu/err-import-torch_npu-no-cann-autoload-off.txt": (
        plain(parse_cann_error),
        {"values": {"library": "libhccl.so"}},
    ),
    "torch_npu/err-second-import-same-process.txt": (
        plain(parse_cann_error),
        {"code": None, "values": {}},
    ),
    "torch_npu/err-set_device-invalid-verbose.txt": (
        plain(parse_cann_error),
        {"code": "EE1001", "values": {"first": "0", "end": "8"}},
    ),
    "torch_npu/err-set_device-invalid-compact.txt": (
        plain(parse_cann_error),
        {"code": "107001", "values": {"first": "0", "end": "8"}},
    ),
}
