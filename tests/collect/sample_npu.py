"""What parsers get of the answers of npu-smi."""

from ascend_doctor.collect.npu_details import (
    parse_board,
    parse_ecc,
    parse_health,
    parse_list,
    parse_map,
    parse_processes,
    parse_topology,
)
from ascend_doctor.collect.npu_table import parse_info
from ascend_doctor.collect.vendor_text import parse_columns, parse_pairs
from tests.present import present

from .sample_facts import Facts, Readers, pairs, plain, read_error


def info(text: str) -> Facts:
    table = parse_info(text)
    devices = table.devices
    return {
        "layout": table.layout,
        "tool": table.tool_version,
        "driver": table.driver_version,
        "complete": table.complete,
        "count": len(devices),
        "ids": [(npu.npu_id, npu.chip_id, npu.device) for npu in devices],
        "names": sorted({npu.name for npu in devices}),
        "health": [npu.health for npu in devices],
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
        "warnings": table.warnings,
    }


def mapping(text: str) -> Facts:
    return {"rows": [(mapping.npu_id, mapping.chip_id) for mapping in parse_map(text)]}


def topology(text: str) -> Facts:
    topology = present(parse_topology(text))
    links = {
        (a, b): link
        for a, row in zip(topology.names, topology.links, strict=True)
        for b, link in zip(topology.names, row, strict=True)
    }
    return {
        "names": topology.names,
        "codes": sorted(set(links.values())),
        "first": topology.links[0],
        "self": sorted({link for (a, b), link in links.items() if a == b}),
        "symmetric": all(links[b, a] == link for (a, b), link in links.items()),
    }


def counters(text: str) -> Facts:
    ecc = parse_ecc(text, 0)
    counted = dict(ecc.counters) if ecc else {}
    return {
        **counted,
        "count": len(counted),
        "values": set(counted.values()),
        "last": parse_pairs(text)[-1][0],
    }


def proc_mem(text: str) -> Facts:
    return {
        "rows": [
            (process.pid, process.name, process.memory_mb) for process in parse_processes(text, 0)
        ]
    }


def board(text: str) -> Facts:
    keys = pairs(text)
    named = {"chips": keys.get("Chip Count"), "die": keys.get("VDie ID")}
    return {**keys, **plain(parse_board, 0)(text), **named}


def key_values(text: str) -> Facts:
    return {**pairs(text), "chips": pairs(text).get("Chip Count"), "last": parse_pairs(text)[-2:]}


def columns(text: str) -> Facts:
    _, *rows = parse_columns(text)
    return {
        "power": [row[1] for row in rows],
        "cells": {len(row) for row in rows},
        "devices": parse_info(text).devices,
    }


def usage(text: str) -> Facts:
    return {**read_error(text), **pairs(text), "chip": "-c %d" in text}


READERS: Readers = (
    ("npu-smi/info-* npu-smi/fragment-* npu-smi/warning-*", info),
    ("npu-smi/list-l-*", lambda text: {"value": parse_list(text), **pairs(text)}),
    ("npu-smi/map-m-*", mapping),
    ("npu-smi/board-*", board),
    ("npu-smi/health-*", plain(parse_health, 3, 1)),
    ("npu-smi/ecc-*", counters),
    ("npu-smi/proc-mem-*", proc_mem),
    ("npu-smi/topo-*", topology),
    ("npu-smi/err-* npu-smi/spod-info-*", read_error),
    ("npu-smi/help-info-*", usage),
    ("npu-smi/watch-*", columns),
    ("npu-smi/*", key_values),
)
