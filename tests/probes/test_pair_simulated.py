"""Pair rounds on simulated NPUs, by ranks that are forked after torch_npu was imported."""

import json
import os
import subprocess
from pathlib import Path

from ascend_doctor.probe_records.common import read_record
from ascend_doctor.probe_records.pairs import PairTable
from ascend_doctor.probing.request import LaunchNodes
from ascend_doctor.probing.schedule import Extent, plan
from ascend_doctor.simulator import build
from tests.programs import free_ports


def test_two_nodes_with_two_npus_each(examined_python: Path, simulator_cache: Path) -> None:
    tree = build(examined_python, cache=simulator_cache, kernels="ascend910b")
    base = {**os.environ, "PYTHONWARNINGS": "ignore"}
    base.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    env = tree.environment(base, soc="Ascend910B3", devices=4, memory_bytes=1 << 30)
    endpoint = f"127.0.0.1:{free_ports()[0]}"
    agents = []
    for number in range(2):
        nodes = LaunchNodes(count=2, rank=number, endpoint=endpoint)
        extent = Extent(nodes=nodes)
        several = plan(3, device="npu", nproc=2, python=str(examined_python), extent=extent)
        asked = next(request for request in several if request.probe == "pair-rounds")
        mine = env | {"ASCEND_RT_VISIBLE_DEVICES": ("0,1", "2,3")[number]}
        agents.append(
            subprocess.Popen(
                asked.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=mine
            )
        )
    try:
        outputs = [agent.communicate(timeout=300) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    values = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    # A pair that a busy machine delays is measured again.
    *before, row = read_record(PairTable, values[0]).pairs
    assert row.outcome == "ok", outputs
    assert all(earlier.outcome in {"failed", "untold"} for earlier in before), outputs
    assert row.messages > 10
    assert values[0]["pairs"] == values[1]["pairs"]
