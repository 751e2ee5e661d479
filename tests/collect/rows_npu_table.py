"""Rows of the tables of ``npu-smi info``."""

from __future__ import annotations

from ascend_doctor.collect.npu_table import parse_info

from .sample_facts import Facts, Rows


def info(text: str) -> Facts:
    table = parse_info(text)
    devices = table.devices
    return {
        "layout": table.layout,
        "tool": table.tool_version,
        "driver": table.driver_version,
        "complete": table.complete,
        "idle": table.idle,
        "count": len(devices),
        "ids": [(npu.npu_id, npu.chip_id, npu.device) for npu in devices],
        "names": sorted({npu.name for npu in devices}),
        "health": [npu.health for npu in devices],
        "bus": [npu.bus_id for npu in devices],
        "power": [npu.power_w for npu in devices],
        "temperature": [npu.temperature_c for npu in devices],
        "load": [npu.utilisation for npu in devices],
        "memory": [npu.memory and (npu.memory.used, npu.memory.total) for npu in devices],
        "hbm": [npu.hbm and (npu.hbm.used, npu.hbm.total) for npu in devices],
        "processes": None
        if table.processes is None
        else [
            (process.npu_id, process.chip_id, process.pid, process.memory_mb)
            for process in table.processes
        ],
        "process count": None if table.processes is None else len(table.processes),
        "process names": sorted({process.name for process in table.processes or ()}),
        "container pids": [process.container_pid for process in table.processes or ()],
        "warnings": table.warnings,
    }


ROWS: Rows = {
    "npu-smi/info-a2-910b3-8cards-idle-24.1.rc1.b030.txt": (
        info,
        {
            "layout": "a2",
            "driver": "24.1.rc1.b030",
            "ids": [(n, 0, n) for n in range(8)],
            "names": ["910B3"],
            "hbm": [(3318, 65536)] + [(3314, 65536)] * 6 + [(3315, 65536)],
            "processes": None,
            "complete": True,
        },
    ),
    "npu-smi/info-a2-910b3-8cards-busy-24.1.0.txt": (
        info,
        {
            "count": 8,
            "process count": 15,
            "process names": ["/usr/local/pyth"],
            "processes": [
                (0, 0, 849, 117),
                (0, 0, 842, 59017),
                *((0, 0, pid, 117) for pid in range(843, 849)),
                *((n, 0, 842 + n, 59363) for n in range(1, 8)),
            ],
            "temperature": [45, 44, 43, 43, 52, 52, 50, 67],
        },
    ),
    "npu-smi/info-a2-910b3-8cards-mixed-24.1.rc2.txt": (
        info,
        {
            "idle": (2, 3),
            "load": [0] * 8,
            "hbm": [
                (used, 65536) for used in (56363, 56362, 3377, 3377, 64748, 64751, 64749, 64749)
            ],
            "process names": [""],
            "process count": 6,
        },
    ),
    "npu-smi/info-910-8cards-busy-23.0.rc3.txt": (
        info,
        {
            "layout": "a2",
            "tool": "23.0.rc3",
            "driver": "23.0.rc2.3",
            "names": ["xxx"],
            "count": 8,
            "process count": 8,
            "process names": ["python"],
            "memory": [
                (4565, 15137),
                (4483, 15137),
                (4437, 15137),
                (3845, 15039),
                (4296, 15137),
                (3758, 15137),
                (4581, 15137),
                (4690, 15039),
            ],
            "complete": True,
        },
    ),
    "npu-smi/info-a2-910b2c-2cards-23.0.2.1.txt": (
        info,
        {
            "hbm": [(20701, 65536), (20687, 65536)],
            "processes": [(0, 0, 124528, 17400)],
            "idle": (),
            "complete": True,
        },
    ),
    "npu-smi/info-a2-910b1-elided-23.0.rc2.txt": (
        info,
        {"ids": [(0, 0, 0), (1, 0, 1), (7, 0, 7)], "complete": False, "processes": None},
    ),
    "npu-smi/info-a2-910b2c-container-npu2-25.5.1.txt": (
        info,
        {"ids": [(2, 0, 2)], "names": ["910B2C"], "processes": None, "complete": True},
    ),
    "npu-smi/info-a2-910b4-wide-no-closing-line-26.0.rc1.txt": (
        info,
        {
            "layout": "a2",
            "ids": [(0, 0, 0)],
            "hbm": [(2871, 32768)],
            "processes": [],
            "idle": (0,),
            "complete": True,
        },
    ),
    "npu-smi/info-a3-2cards-25.2.0.txt": (
        info,
        {
            "layout": "a3",
            "ids": [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)],
            "power": [162.8, None, 167.1, None],
            "processes": [(1, 1, 990711, 7746)],
            "idle": (0,),
        },
    ),
    "npu-smi/info-a3-16dies-busy-25.2.0.txt": (
        info,
        {
            "ids": [(n // 2, n % 2, n) for n in range(16)],
            "process count": 23,
            "process names": [""],
        },
    ),
    "npu-smi/info-a3-slice-npu4-no-process-section-25.5.1.txt": (
        info,
        {"ids": [(4, 0, 8), (4, 1, 9)], "processes": None, "complete": True},
    ),
    "npu-smi/info-a3-wide-2of8-26.0.rc1.txt": (
        info,
        {
            "layout": "a3",
            "ids": [(0, 0, 0), (0, 1, 1), (5, 0, 10), (5, 1, 11)],
            "process names": ["VLLMWorker_PP"],
            "container pids": [None, None],
            "idle": (5,),
        },
    ),
    "npu-smi/fragment-a3-warning-wide.txt": (
        info,
        {
            "ids": [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)],
            "health": ["OK", "Warning", "OK", "OK"],
            "complete": False,
            "driver": None,
        },
    ),
    "npu-smi/info-310p3-22.0.0.txt": (
        info,
        {
            "layout": "310",
            "tool": "22.0.0",
            "driver": "22.0.2",
            "power": [16.5],
            "memory": [(931, 21534)],
            "hbm": [None],
        },
    ),
    "npu-smi/info-310p3-npuid2144-22.0.2.txt": (
        info,
        {"ids": [(2144, 0, None)], "power": [None], "tool": "22.0.2", "driver": "22.0.4"},
    ),
    "npu-smi/info-310p3-duo-npuid8-idle-25.0.rc1.1.txt": (
        info,
        {
            "ids": [(8, 0, None), (8, 1, None)],
            "bus": ["0000:01:00.0", "0000:01:00.0"],
            "hbm": [None, None],
            "memory": [(1475, 44280), (1462, 43693)],
            "idle": (8,),
            "processes": [],
        },
    ),
    "npu-smi/info-310b4-alarm-23.0.0.txt": (
        info,
        {"health": ["Alarm"], "bus": [None], "power": [0.0], "names": ["310B4"]},
    ),
    "npu-smi/info-950-doc-one-card.txt": (
        info,
        {
            "layout": "950",
            "ids": [(0, 0, 0)],
            "load": [0],
            "memory": [(0, 0)],
            "hbm": [(4439, 86016)],
            "bus": ["0000:91:00.0"],
            "idle": (0,),
        },
    ),
    "npu-smi/info-950pr-alarm-25.7.rc1.txt": (
        info,
        {
            "health": ["Alarm", "Alarm", "OK"],
            "hbm": [(90633, 114688), (30492, 114688), (5413, 131072)],
            "load": [100, 100, 0],
            "processes": [(0, 0, 1530715, 4724), (0, 0, 1655234, 4728)],
        },
    ),
    "npu-smi/info-950dt-busid-na-25.6.rc1.b169.txt": (
        info,
        {
            "ids": [(0, 0, 0), (1, 0, 1), (6, 0, 6), (7, 0, 7)],
            "bus": [None] * 4,
            "process names": [
                "/srv/user1/worker.py",
                "/srv/user2/helper.py",
                "/srv/user2/worker.py",
            ],
            "container pids": [None] * 3,
        },
    ),
    "npu-smi/warning-trailing-incomplete-driver.txt": (
        info,
        {
            "count": 0,
            "warnings": (
                (
                    "[WARNING]The driver package may not be completely installed, which may cause "
                    "function abnormal. Please reinstall it."
                ),
            ),
        },
    ),
}
