"""Several simulated nodes: names, ranks, devices and ledgers of their own."""

import os
import sys
from pathlib import Path

import pytest

from ascend_doctor.simulator.nodes import SimulatedNode, run_on_nodes
from tests.programs import run_program

DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
TRAIN = """
import os, socket, torch, torch_npu, torch.distributed as dist
local = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(local)
dist.init_process_group("hccl")
total = torch.full((1,), float(dist.get_rank()), device="npu")
dist.all_reduce(total)
name = socket.gethostname()
mine = f"{name} {os.uname().nodename} {socket.gethostbyname(name)} {local} {total.item():g}"
lines = [None] * dist.get_world_size()
dist.all_gather_object(lines, mine)
if dist.get_rank() == 0:
    print("\\n".join(lines), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_launch_of_two_nodes_runs_on_one_machine(examined_python: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "tmp").mkdir()
    launch = ("torchrun", "--nproc-per-node", "2", "train.py")
    options = ("--python", str(examined_python), "--nodes", "2", "--npus", "2")
    done = run_program(
        [
            DOCTOR,
            "rehearse",
            *options,
            "--",
            "sh",
            "-c",
            f"hccn_tool -i 0 -ip -g; {' '.join(launch)}",
        ],
        check=False,
        timeout=600,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line for line in lines if "ipaddr" in line} == {
        "ipaddr:192.0.2.10",
        "ipaddr:192.0.2.26",
    }
    assert [line for line in lines if line.startswith("node")] == [
        f"node-{node} node-{node} 127.0.0.{node + 1} {local} 6"
        for node in range(2)
        for local in range(2)
    ]
    assert "simulated: 2 nodes of 2 Ascend910B3" in done.stderr
    assert "on 4 of 4 NPUs" in done.stderr
    assert "AllReduce of 4 ranks once, 4 B given by one rank" in done.stderr
    assert not os.listdir(tmp_path / "tmp")


def test_the_first_failure_is_the_code_and_the_others_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ascend_doctor.simulator.nodes._GRACE", 0.0)
    nodes = [SimulatedNode(variables={"NUMBER": str(number)}, programs="/") for number in range(2)]
    script = "import os, sys, time; os.environ['NUMBER'] == '1' and sys.exit(7); time.sleep(600)"
    assert run_on_nodes([sys.executable, "-c", script], nodes) == 7


@pytest.mark.slow
def test_nodes_are_not_shrunk() -> None:
    done = run_program([DOCTOR, "rehearse", "--nodes", "2", "--shrink", "--", "true"], check=False)
    assert done.returncode == 2
    assert "--shrink makes launches of one node" in done.stderr
