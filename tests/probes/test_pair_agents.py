"""Agents of the pair rounds as processes of this machine, one of which is spoilt."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from ascend_doctor.checks.probes.pair_rounds import PROBE, verdicts
from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_records.common import read_record
from ascend_doctor.probe_records.pairs import PairTable
from ascend_doctor.probing.request import LaunchNodes, ProbeRequest
from ascend_doctor.probing.schedule import Extent, plan
from tests.probes.started import launch
from tests.programs import free_ports, on_cpu

WRONG = """
import torch.distributed as dist
add_up = dist.all_reduce
def wrongly(tensor, *more, **options):
    add_up(tensor, *more, **options)
    if tensor.numel() == 1024:
        tensor[7] += 1
dist.all_reduce = wrongly
"""
CRASHES = """
import os, signal
import torch.distributed as dist
dist.all_reduce = lambda *_, **__: os.kill(os.getpid(), signal.SIGSEGV)
"""
# Ranks of a node that come to no store, while its agent does.
ASTRAY = """
import os
import torch.distributed as dist
agent, reached = os.getpid(), dist.TCPStore
def store(*arguments, **options):
    if os.getpid() != agent:
        raise RuntimeError("no way to the store")
    return reached(*arguments, **options)
dist.TCPStore = store
"""


def request(count: int, number: int, python: Path, port: int, local: int) -> ProbeRequest:
    nodes = LaunchNodes(count=count, rank=number, endpoint=f"127.0.0.1:{port}")
    requests = plan(3, device="cpu", nproc=local, python=str(python), extent=Extent(nodes=nodes))
    return next(request for request in requests if request.probe == PROBE)


def by_hand(
    python: Path, folder: Path, *, count: int = 3, local: int = 1, spoilt: str = ""
) -> list[dict[str, Any]]:
    """Output of agents typed by hand, of which the last is ``spoilt``."""
    (port,) = free_ports()
    (folder / "sitecustomize.py").write_text(spoilt, "utf-8")
    env = on_cpu(GLOO_SOCKET_IFNAME="lo")
    # A launcher's leftovers in the environment must not matter.
    env |= {"RANK": "5", "WORLD_SIZE": "9", "LOCAL_RANK": "3", "OMP_NUM_THREADS": "1"}
    agents = [
        subprocess.Popen(
            request(count, number, python, port, local).argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env | ({"PYTHONPATH": str(folder)} if number == count - 1 else {}),
        )
        for number in range(count)
    ]
    try:
        outputs = [agent.communicate(timeout=200) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0] * count, outputs
    for number, (output, _) in enumerate(outputs):
        assert output.startswith(f"pair-rounds rank {number}/{count} on cpu")
    return [json.loads(output.splitlines()[1]) for output, _ in outputs]


def judge_table(values: dict[str, Any]) -> list[Finding]:
    table = read_record(PairTable, values)
    names = [f"n{index}" for index in range(table.count)]
    return [*verdicts(table, names, device="cpu")]


def test_every_node_has_the_whole_table(forked_python: Path, tmp_path: Path) -> None:
    tables = by_hand(forked_python, tmp_path, local=2)
    assert tables[0]["pairs"] == tables[1]["pairs"] == tables[2]["pairs"]
    rows = read_record(PairTable, tables[0]).pairs
    assert {row.pair for row in rows} == {(0, 1), (0, 2), (1, 2)}
    assert all(row.outcome == "ok" and row.gbps > 0 and row.messages > 10 for row in rows)
    # Segments that go to and fro are counted without those of the store.
    assert all(row.sent >= row.messages for row in rows)
    assert "blocks" not in tables[0]


@pytest.mark.parametrize(
    ("spoilt", "title"),
    [(WRONG, "n2 adds up wrongly with the others"), (CRASHES, "n2 has no link to the others")],
)
def test_the_spoilt_node_is_named(
    spoilt: str, title: str, forked_python: Path, tmp_path: Path
) -> None:
    tables = by_hand(forked_python, tmp_path, spoilt=spoilt)
    for values in tables:
        (finding,) = judge_table(values)
        assert (finding.level, finding.title) == (Level.ERROR, f"pair-rounds: {title}")
        assert finding.nodes == ("n2",)


def test_ranks_that_do_not_reach_the_store_accuse_nobody(
    forked_python: Path, tmp_path: Path
) -> None:
    tables = by_hand(forked_python, tmp_path, spoilt=ASTRAY)
    findings = judge_table(tables[0])
    assert [finding.level for finding in findings] == [Level.UNKNOWN, Level.OK]
    assert "node 2 in stage store: RuntimeError: no way to the store" in findings[0].observed
    # The others have met.
    assert findings[0].nodes == ("n2",)


def test_one_node_is_skipped(forked_python: Path) -> None:
    run = launch(request(1, 0, forked_python, 0, 2))
    assert "no other" in run.ranks[0].skipped
    assert run.blocks == ""


def test_what_listens_and_is_no_store_is_no_fault_of_a_node(forked_python: Path) -> None:
    """It takes connections without an answer; torch's store would wait for ever."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        asked = request(2, 1, forked_python, silent.getsockname()[1], 1)
        run = launch(msgspec.structs.replace(asked, deadline=75.0))
    (result,) = run.ranks
    assert result.ok
    assert "was not reached" in result.values["untold"]
    assert run.blocks


def test_a_port_that_another_holds_is_no_fault_of_a_node(forked_python: Path) -> None:
    before = psutil.Process().children(recursive=True)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        run = launch(request(2, 0, forked_python, port, 1))
    (result,) = run.ranks
    assert result.ok
    assert "address already in use" in result.values["untold"]
    assert run.blocks
    assert set(psutil.Process().children(recursive=True)) <= {*before}
