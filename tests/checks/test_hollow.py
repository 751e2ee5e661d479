"""Records with a hole: what a check judges, and was not recorded, is not fine.

``whole_records.json`` are runs of the shipped probes on a CPU, without the names of hosts.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeRun

CATALOG = Catalog()
RUNS = msgspec.json.decode(
    Path(__file__).with_name("whole_records.json").read_bytes(), type=tuple[ProbeRun, ...]
)
JUDGED = [
    pytest.param(run, check, id=str(check.id))
    for run in RUNS
    for check in all_checks()
    if check.probe == run.probe
]
# Whole paths: cost, names that a finding shows, what another check judges, and which cases exist:
# that depends on the device, and a finding lists it.
NOT_JUDGED = {
    "device": r"copy_\w+|torch|matmul\.\w+(\.seconds)?",
    "bool-index": r"cases\.\w+(\.first|\.seconds)?",
    "dtype": r"cases\.\w+(\.seconds)?",
    "flash-attention": r"cases\.[\w ]+(\.seconds)?",
    "allreduce": r"barrier_s|group_s|group_teardown_s|left_out|left_out_means",
    "bound-device-id": r"binding|bound_to",
    "parallel-groups": r"float64_sum|group_bytes|layouts\.\w+(\.\w+)?|mended|megatron\w*|through",
    "float64-allreduce": r"group_bytes|layouts.*|mended|megatron\w*|through",
    "bandwidth": r"name|side|rates\.[\w-]+(\.\d+\.(algbw|us))?",
    "gemm": r"name|side|rates\.\w+",
    "hbm": r"name|bytes|rates\.\w+",
}


def is_green(run: ProbeRun, check: Any) -> bool:
    case = Case(facts=Snapshot(probes=(run,)), catalog=CATALOG, device="cpu")
    return all(finding.level is Level.OK for finding in judge(case, [check]))


def holes(values: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every field by its keys; a list's first item."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield (*path, key)
            yield from holes(value, (*path, key))
    elif isinstance(values, list) and values:
        yield from holes(values[0], (*path, 0))


def without(run: ProbeRun, path: tuple[str | int, ...]) -> ProbeRun:
    ranks = []
    for rank in run.ranks:
        values = copy.deepcopy(rank.values)
        at: Any = values
        for key in path[:-1]:
            at = at.get(key, {}) if isinstance(at, dict) else at[key] if at else {}
        at.pop(path[-1], None)
        ranks.append(msgspec.structs.replace(rank, values=values))
    return msgspec.structs.replace(run, ranks=tuple(ranks))


@pytest.mark.parametrize(("run", "check"), JUDGED)
def test_no_check_is_green_for_what_was_not_recorded(run: ProbeRun, check: Any) -> None:
    assert is_green(run, check), "the whole record is green"
    green = {
        ".".join(map(str, path))
        for path in holes(run.ranks[0].values)
        if is_green(without(run, path), check)
    }
    judged = {path for path in green if not re.fullmatch(NOT_JUDGED.get(check.id, ""), path)}
    assert not judged, json.dumps(sorted(judged))
