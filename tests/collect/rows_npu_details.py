"""Rows of the other answers of npu-smi, and of its failures."""

from __future__ import annotations

from ascend_doctor.collect.npu_details import (
    parse_board,
    parse_ecc,
    parse_health,
    parse_list,
    parse_map,
    parse_processes,
    parse_topology,
    parse_version,
)
from ascend_doctor.collect.npu_table import parse_info
from ascend_doctor.collect.vendor_text import parse_columns, parse_pairs

from .sample_facts import Facts, Rows, pairs, plain, read_error, value


def mapping(text: str) -> Facts:
    rows = parse_map(text)
    return {
        "rows": [
            (mapping.npu_id, mapping.chip_id, mapping.logic_id, mapping.physical_id)
            for mapping in rows
        ],
        "names": sorted({mapping.chip_name for mapping in rows}),
    }


def topology(text: str) -> Facts:
    topology = parse_topology(text)
    assert topology is not None
    links = {
        (a, b): link
        for a, row in zip(topology.names, topology.links, strict=True)
        for b, link in zip(topology.names, row, strict=True)
    }
    return {
        "names": topology.names,
        "codes": sorted(set(links.values())),
        "first": topology.links[0],
        "affinity": topology.affinity,
        "self": sorted({link for (a, b), link in links.items() if a == b}),
        "symmetric": all(links[b, a] == link for (a, b), link in links.items()),
    }


def counters(text: str) -> Facts:
    ecc = parse_ecc(text, 0)
    return dict(ecc.counters) if ecc else {}


def proc_mem(text: str) -> Facts:
    return {
        "rows": [
            (process.pid, process.name, process.memory_mb) for process in parse_processes(text, 0)
        ]
    }


UB = ("NPU0", "NPU1", "NPU2", "NPU3", "NPU4", "NPU5", "NPU6", "NPU7")
NEAR = ("0-63,128-191",) * 4 + ("64-127,192-255",) * 4


ROWS: Rows = {
    "npu-smi/list-l-a2-two-of-eight-25.5.1.txt": (value(parse_list), {"value": 8}),
    "npu-smi/list-l-950-pcie-card.txt": (
        lambda text: {"value": parse_list(text), **pairs(text)},
        {"value": 1, "Product Name": "A5 PCIe Card", "Serial Number": "SN0000000001"},
    ),
    "npu-smi/map-m-910a-23.0.5.txt": (
        mapping,
        {"rows": [(n, 0, n, None) for n in range(8)], "names": ["Ascend 910A"]},
    ),
    "npu-smi/map-m-a2-910b3-with-mcu-25.5.1.txt": (
        mapping,
        {"rows": [(0, 0, 0, None)], "names": ["Ascend 910B3"]},
    ),
    "npu-smi/map-m-950-doc.txt": (mapping, {"rows": [(0, 0, None, 0)], "names": ["xxx"]}),
    "npu-smi/board-910a-23.0.5.txt": (
        lambda text: {**plain(parse_board, 0)(text), "chips": pairs(text)["Chip Count"]},
        {
            "driver_version": "23.0.5",
            "firmware_version": "7.1.0.7.220",
            "compatibility": "OK",
            "pci_device": "0xd801",
            "chips": "1",
        },
    ),
    "npu-smi/board-chip-910a-23.0.5.txt": (
        lambda text: {**plain(parse_board, 0)(text), "die": pairs(text)["VDie ID"]},
        {
            "chip_name": "910A",
            "driver_version": None,
            "firmware_version": "7.1.0.7.220",
            "die": "00000000 11111111 22222222 33333333 44444444",
        },
    ),
    "npu-smi/board-950-doc.txt": (
        lambda text: {**plain(parse_board, 0)(text), **pairs(text)},
        {
            "npu_name": "xxx",
            "compatibility": "OK",
            "pci_device": "0xd806",
            "Main Board ID": "0x68(1P)",
            "DDie ID": "00000000 11111111 22222222 33333333 44444444",
        },
    ),
    "npu-smi/usages-910a-23.0.5.txt": (
        lambda text: {**pairs(text), "last": parse_pairs(text)[-1]},
        {"HBM Capacity(MB)": "31129", "DDR Usage Rate(%)": "6", "last": ("Chip ID", "0")},
    ),
    "npu-smi/usages-a2-910b1-23.0.rc2.txt": (
        pairs,
        {"DDR Capacity(MB)": "0", "HBM Usage Rate(%)": "4", "Aivector Usage Rate(%)": "0"},
    ),
    "npu-smi/usages-950-doc.txt": (
        lambda text: {**pairs(text), "chips": pairs(text).get("Chip Count")},
        {"NPU Utilization(%)": "0", "Aicube Usage Rate(%)": "0", "chips": None},
    ),
    "npu-smi/common-910a-23.0.txt": (pairs, {"Aicore Count": "30", "Aicore Freq(MHZ)": "900"}),
    "npu-smi/common-a2-910b1-23.0.rc2.txt": (
        lambda text: {**pairs(text), "last": parse_pairs(text)[-2:]},
        {
            "Aicore Freq(MHZ)": "1800",
            "Aicore curFreq(MHZ)": "800",
            "Temperature(C)": "46",
            "last": (("Chip Name", "mcu"), ("Temperature(C)", "38")),
        },
    ),
    "npu-smi/common-950-doc.txt": (
        pairs,
        {"Aicore Freq(MHZ)": "1650", "Aicore curFreq(MHZ)": "100"},
    ),
    "npu-smi/memory-a2-910b3-25.5.1.txt": (
        pairs,
        {"HBM Temperature(C)": "52", "HBM Clock Speed(MHz)": "1600"},
    ),
    "npu-smi/memory-950-doc.txt": (pairs, {"HBM Clock Speed(MHz)": "3200"}),
    "npu-smi/health-ok-910a-23.0.5.txt": (
        plain(parse_health, 0),
        {"state": "OK", "codes": (), "texts": ()},
    ),
    "npu-smi/health-ok-950-doc.txt": (
        plain(parse_health, 0),
        {"state": "OK", "codes": (), "texts": ()},
    ),
    "npu-smi/health-alarm-multi-error-910a-23.0.7.txt": (
        plain(parse_health, 3, 1),
        {
            "npu_id": 3,
            "chip_id": 1,
            "state": "Alarm",
            "codes": ("A4025021", "8C03A000", "8C084E00"),
            "texts": (
                "ascend_monitor adda heart beat lost error",
                (
                    "node type=process-manager, sensor type=General Software, event state="
                    "The process start failed or exit abnormally"
                ),
                "node type=adda, sensor type=Heartbeat Sensor, event state=Heartbeat Lost.",
            ),
        },
    ),
    "npu-smi/ecc-910a-23.0.5.txt": (
        lambda text: {
            "count": len(counters(text)),
            "values": set(counters(text).values()),
            "last": parse_pairs(text)[-1][0],
        },
        {"count": 12, "values": {0}, "last": "Chip ID"},
    ),
    "npu-smi/ecc-950-doc.txt": (
        counters,
        {
            "HBM Single Bit Next-Isolated Pages Count": 0,
            "HBM Double Bit Next-Isolated Pages Count": 0,
        },
    ),
    "npu-smi/current-fault-event-950-doc.txt": (
        pairs,
        {
            "Fault Event Count": "1",
            "Fault Event Information": "event id=0x81AF8000, severity=2, node type ex=215, "
            "node id=0, sub node type ex=0, sub node id=0",
        },
    ),
    "npu-smi/proc-mem-a2-910b3-25.5.1.txt": (
        proc_mem,
        {"rows": [(207795, "VLLMEngineCor", 55436)]},
    ),
    "npu-smi/proc-mem-950-doc.txt": (proc_mem, {"rows": [(395864, "power_test", 5118)]}),
    "npu-smi/phyid-remap-950-doc.txt": (
        pairs,
        {"Chip Phy-ID": "0", "NPU ID": "0", "Slot ID": "0", "Chip ID": "0"},
    ),
    "npu-smi/sensors-950-doc.txt": (
        pairs,
        {"SFP Temperature (C)": "NA", "NDIE Temperature (C)": "65"},
    ),
    "npu-smi/power-950-doc.txt": (pairs, {"NPU Real-time Power(W)": "296.5"}),
    "npu-smi/temp-950-doc.txt": (pairs, {"Temperature (C)": "53"}),
    "npu-smi/watch-950-doc.txt": (
        lambda text: {
            "power": [row[1] for row in parse_columns(text)[1:]],
            "cells": {len(row) for row in parse_columns(text)[1:]},
            "devices": parse_info(text).devices,
        },
        {
            "power": ["290.4", "292.1", "291.2", "292.1", "291.5", "289.5", "288.5", "289.3"],
            "cells": {10},
            "devices": (),
        },
    ),
    "npu-smi/help-info-a2-23.0.rc2.txt": (
        lambda text: {**read_error(text), **pairs(text), "chip": "-c %d" in text},
        {
            "devices": (),
            "type": "board, flash, memory, usages, sensors, temp, power, volt, mac-addr,",
            "chip": True,
        },
    ),
    "npu-smi/help-info-950-doc.txt": (
        lambda text: {**read_error(text), **pairs(text), "chip": "-c %d" in text},
        {
            "devices": (),
            "type": "board, common, flash, memory, usages, temp, power, volt, health,",
            "chip": False,
        },
    ),
    "npu-smi/version-v.txt": (value(parse_version), {"value": "25.5.1"}),
    "npu-smi/topo-a2-8x910b3-hccs-24.1.rc1.txt": (
        topology,
        {
            "names": UB,
            "codes": ["HCCS", "X"],
            "self": ["X"],
            "affinity": (
                "144-167",
                "144-167",
                "96-119",
                "96-119",
                "0-23",
                "0-23",
                "48-71",
                "48-71",
            ),
        },
    ),
    "npu-smi/topo-a3-one-card-sio.txt": (
        topology,
        {"names": ("Phy-ID12", "Phy-ID13"), "first": ("X", "SIO"), "affinity": ()},
    ),
    "npu-smi/topo-a3-two-cards-hccs_sw-fragment.txt": (
        topology,
        {"first": ("X", "SIO", "HCCS_SW", "HCCS_SW"), "affinity": ()},
    ),
    "npu-smi/topo-950-sys-doc.txt": (
        topology,
        {"names": UB, "codes": ["SYS", "X"], "affinity": NEAR},
    ),
    "npu-smi/topo-950-ub2-doc.txt": (
        topology,
        {"first": ("X", "UB") + ("SYS",) * 6, "symmetric": True, "affinity": NEAR},
    ),
    "npu-smi/topo-950-ub4-doc.txt": (
        topology,
        {"first": ("X", "UB", "UB", "UB") + ("SYS",) * 4, "symmetric": True},
    ),
    "npu-smi/err-dcmi-8005.txt": (read_error, {"kind": "dcmi-8005", "devices": ()}),
    "npu-smi/err-dcmi-8005-normal-user.txt": (read_error, {"kind": "dcmi-8005", "devices": ()}),
    "npu-smi/err-dcmi-8005-loglevel.txt": (read_error, {"kind": "dcmi-8005", "devices": ()}),
    "npu-smi/err-dcmi-8020-card-in-other-container.txt": (read_error, {"kind": "dcmi-8020"}),
    "npu-smi/err-board-type-9005.txt": (read_error, {"kind": "board-type-9005"}),
    "npu-smi/err-no-card.txt": (read_error, {"kind": "no-card"}),
    "npu-smi/err-libc_sec-missing.txt": (read_error, {"kind": "libc-sec-missing"}),
    "npu-smi/err-unsupported-type.txt": (read_error, {"kind": "unsupported"}),
    "npu-smi/err-bad-type.txt": (read_error, {"kind": "bad-type"}),
    "npu-smi/err-invalid-card-id.txt": (read_error, {"kind": "invalid-card-id"}),
    "npu-smi/spod-info-unsupported-950-doc.txt": (read_error, {"kind": "unsupported"}),
}
