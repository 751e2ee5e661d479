import json
import re
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pytest

from ascend_doctor.simulator import build
from ascend_doctor.simulator.layout import HOLES_LIBRARY
from ascend_doctor.simulator.rank_records import RECORDS, read_records
from ascend_doctor.simulator.soc import properties
from ascend_doctor.simulator.timeline import TIMELINE, write_trace
from tests.simulator.conftest import PROGRAMS, Run

PROGRAM = PROGRAMS / "at_true_size.py"


def test_memory_is_counted_and_not_taken(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    done = simulate(examined_python, PROGRAM, "train", env={RECORDS: str(tmp_path)}, memory=4 << 30)
    assert done.stdout.split("\n")[:3] == ["weights 128", "states 384", "grown True"], done.stderr
    (record,) = read_records(tmp_path)
    assert record.steps == 2
    assert record.allocated >= 640 << 20
    assert any("at_true_size.py" in line for line in record.lines)


def test_time_comes_from_the_rates_of_the_chip(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    simulate(examined_python, PROGRAM, "train", env={RECORDS: str(tmp_path)}, memory=4 << 30)
    (record,) = read_records(tmp_path)
    assert record.step is not None
    products, rates = 11, rates_of("Ascend910B3")
    arithmetic = products * 2 * 8192 * 4096 * 4096 / rates["cube"]
    assert record.step.cube == pytest.approx(arithmetic, rel=0.02)
    lines = [line for each in record.step.operators for line in each.lines]
    assert any("at_true_size.py" in line for line in lines)


def rates_of(soc: str) -> dict[str, float]:
    words = (word.partition("=") for word in properties(soc)["ASCEND_SIMULATOR_CLOCK"].split())
    return {name: float(value) for name, _, value in words}


def test_what_programs_decide_by_has_values(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    done = simulate(
        examined_python, PROGRAM, "values", env={RECORDS: str(tmp_path)}, memory=4 << 30
    )
    assert done.stdout.splitlines() == [
        "integers 149797",
        "masked [1.0, 3.0]",
        "small of large 0.0 torch.Size([4096, 4096])",
        "experts {512}",
    ], done.stderr


def test_the_host_and_the_disk_are_spared(
    simulate: Run, examined_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    holes = build(examined_python).home / "lib64" / HOLES_LIBRARY
    env = {RECORDS: str(tmp_path), "LD_PRELOAD": str(holes)}
    done = simulate(examined_python, PROGRAM, "host", env=env, memory=4 << 30)
    assert done.stdout == "small True\nsaved 2048 0\nvalues True\n", done.stderr
    assert len(read_records(tmp_path)[0].assumptions) == 3


def test_torchs_launcher_hands_ranks_over(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    program = tmp_path / "torchrun"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    env = {RECORDS: str(tmp_path), "ASCEND_DOCTOR_SHRINK": json.dumps({"folder": str(tmp_path)})}
    launch = ("-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 4)
    done = simulate(examined_python, *launch, "-m", "job", "--lr", "1", env=env)
    assert done.stdout == "--nnodes=2 --nproc-per-node=4 -m job --lr 1\n", done.stderr


def test_too_much_is_refused_in_torch_npus_own_words(
    simulate: Run, examined_python: Path, tmp_path: Path
) -> None:
    done = simulate(
        examined_python, PROGRAM, "exhaust", env={RECORDS: str(tmp_path)}, memory=2 << 30
    )
    assert "NPU out of memory. Tried to allocate 3.00 GiB" in done.stderr


class Start(Protocol):
    def __call__(
        self, mode: str, real: str, world: int = 4, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def start(simulate: Run, examined_python: Path, tmp_path: Path) -> Start:
    def run(
        mode: str, real: str, world: int = 4, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        launch = ("-m", "ascend_simulator.ranks", world, world, real, PROGRAM, mode)
        return simulate(
            examined_python, *launch, env={RECORDS: str(tmp_path), **(env or {})}, haste=20
        )

    return run


def test_a_rank_of_each_kind_is_as_all_ranks(start: Start) -> None:
    whole, part = start("communicate", "0,1,2,3"), start("communicate", "0,2")
    assert (whole.returncode, part.returncode) == (0, 0), whole.stderr + part.stderr
    of_whole, of_part = (set(done.stdout.splitlines()) for done in (whole, part))
    assert len(of_whole) == 4
    assert of_part == {line for line in of_whole if re.match("rank [02] ", line)}


def test_a_rank_waits_for_the_slowest_and_for_the_link(start: Start, tmp_path: Path) -> None:
    done = start("pace", "0,1", world=2)
    assert done.returncode == 0, done.stderr
    quick, slow = (record.step for record in read_records(tmp_path))
    assert quick is not None
    assert slow is not None
    rates = rates_of("Ascend910B3")
    product = 2 * 4096**3 / rates["cube"] + rates["kernel"]
    transfer = (64 << 20) / rates["pair"] + rates["latency"]
    assert slow.waited == pytest.approx(transfer, rel=0.05)
    assert quick.waited == pytest.approx(9 * product + transfer, rel=0.05)
    assert quick.seconds == pytest.approx(slow.seconds, rel=0.05)


def test_the_time_line_has_every_call_and_wait(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "timeline"
    folder.mkdir()
    start("pace", "0,1", world=2, env={TIMELINE: str(folder)})
    rows = write_trace(folder, str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == rows
    calls = [event for event in events if event["ph"] == "X"]
    for rank, products in ((0, 3), (1, 30)):
        own = [event for event in calls if event["pid"] == rank]
        names = [event["name"] for event in own]
        assert names.count("AllReduce") == 3
        assert (
            sum("m" in name and event["dur"] > 700 for name, event in zip(names, own, strict=True))
            >= products
        )
        for stream in {event["tid"] for event in own}:
            spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in own if e["tid"] == stream)
            assert all(a[1] <= b[0] + 0.01 for a, b in pairwise(spans))
    waits = [event for event in calls if event["name"] == "waits for ranks"]
    assert {event["pid"] for event in waits} == {0}
