"""A real Ray cluster of four raylets on this machine; each thinks it has two NPUs."""

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ascend_doctor.machine.live import DOCTOR
from ascend_doctor.probing.processes import Descendants, adopting_orphans
from tests.programs import run_program, until

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed"
)

BIN = Path(sys.executable).parent
PATIENCE = 300.0
# A bad node's interpreter stops the check that examines it, which hears no signal then. It says
# that it did: the node can then be killed.
SITE = f"""
import os, signal, time
fate = os.environ.get("TEST_FATE", "")
with open(f"/proc/{{os.getppid()}}/cmdline") as file:
    parent = file.read().split("\\0")
if fate and {DOCTOR[-1]!r} in parent:
    os.kill(os.getppid(), signal.SIGSTOP)
    with open(fate, "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.sleep(60)
"""


class Cluster:
    """``fates``: files in which bad nodes' checks write their pid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fates = {name: folder / f"{name}.pid" for name in ("stuck", "doomed")}
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            self._port = str(free.getsockname()[1])
        self.address = f"127.0.0.2:{self._port}"
        self._nodes: dict[str, str] = {}

    def start(self, name: str, *, torch: str = "2.7.1", **env: str) -> None:
        """Ray's own processes go to the background: this returns when the node is present."""
        site = self.folder / name
        (site / f"torch-{torch}.dist-info").mkdir(parents=True)
        (site / f"torch-{torch}.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n"
        )
        if name in self.fates:
            env["TEST_FATE"] = str(self.fates[name])
            (site / "sitecustomize.py").write_text(SITE)
        joins: tuple[str, ...] = ("--address", self.address)
        if not self._nodes:
            joins = ("--head", "--port", self._port, "--include-dashboard", "false")
            joins += ("--temp-dir", str(self.folder / "s"))
        self._nodes[name] = f"127.0.0.{len(self._nodes) + 2}"
        run_program(
            [
                *(str(BIN / "ray"), "start", *joins),
                *("--node-name", name, "--node-ip-address", self._nodes[name]),
                *("--resources", '{"NPU": 2}', "--num-cpus", "1"),
                *("--object-store-memory", "80000000", "--disable-usage-stats"),
            ],
            env={**os.environ, "PYTHONPATH": str(site), **env},
            timeout=PATIENCE,
        )

    def kill(self, name: str) -> None:
        """As a power cut, except for the check: its runner must notice."""
        (raylet,) = (
            process
            for process in mine()
            if f"--node_ip_address={self._nodes[name]}" in command_line(process)
            and "raylet/raylet" in command_line(process)
        )
        for process in (raylet, *raylet.children(recursive=True)):
            if "ascend_doctor" not in command_line(process):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def command_line(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def mine() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def checks() -> list[str]:
    """Command lines of running checks of the fleet."""
    return [line for process in mine() if DOCTOR[-1] in (line := command_line(process))]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Socket paths have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="adr-", dir="/tmp") as folder, adopting_orphans():
        started = Descendants()
        try:
            made = Cluster(Path(folder))
            made.start("calm")
            made.start("quiet")
            made.start(
                "adrift", torch="2.6.0", RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES="1"
            )
            made.start("stuck")
            made.start("doomed")
            yield made
        finally:
            started.end()


def fleet(cluster: Cluster, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(str(BIN / "ascend-doctor"), "fleet", "check", "--ray", cluster.address),
            *("--level", "0", "--only", "python-requires", "--format", "json", *more),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cluster.folder,
    )


def result(running: subprocess.Popen[str]) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, the fleet and the findings by check, the last of each."""
    output, errors = running.communicate(timeout=PATIENCE)
    assert output, errors
    report = json.loads(output)
    return (
        running.returncode,
        report["fleet"],
        {finding["check"]: finding for finding in report["findings"]},
    )


def variables(report: Path) -> dict[str, str]:
    variables: dict[str, str] = json.loads(report.read_text())["snapshot"]["environment"][
        "variables"
    ]
    return variables


def test_a_node_whose_npus_others_hold_is_busy(cluster: Cluster, tmp_path: Path) -> None:
    script = (
        f"import ray; ray.init({cluster.address!r}, log_to_driver=False)\n"
        "ray.get(ray.util.placement_group([{'NPU': 1, 'node:127.0.0.3': 0.1}]).ready())\n"
        "print('held', flush=True); __import__('sys').stdin.read()"
    )
    (tmp_path / "hosts").write_text("calm\nquiet\nnobody\n")
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        code, nodes, report = result(
            fleet(cluster, "--timeout", "40", "--expect", str(tmp_path / "hosts"))
        )
    assert code == 3
    assert nodes["passing"] == ["calm"]
    assert nodes["missing"] == ["quiet", "nobody"]
    message = report["fleet-missing"]["found"]
    assert "quiet: busy: other work in the Ray cluster holds its NPUs" in message
    assert "nobody: no node of this name is alive in the Ray cluster" in message


def test_nodes_of_a_gang_begin_together_and_know_their_numbers(
    cluster: Cluster, examined_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "hosts").write_text("quiet\ncalm\n")
    with subprocess.Popen(
        [
            *(str(BIN / "ascend-doctor"), "fleet", "check", "--ray", cluster.address, "--gang"),
            *("--level", "3", "--only", "pair-rounds", "--device", "cpu", "--nproc", "1"),
            *("--python", str(examined_python), "--expect", str(tmp_path / "hosts")),
            *("--format", "json", "--timeout", "300", "--reports", str(tmp_path / "reports")),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cluster.folder,
    ) as running:
        code, nodes, _ = result(running)
    assert (code, nodes["passing"]) == (0, ["calm", "quiet"])
    for name in ("calm", "quiet"):
        (run,) = json.loads((tmp_path / "reports" / f"{name}.json").read_text())["snapshot"][
            "probes"
        ]
        assert (run["probe"], run["world_size"]) == ("pair-rounds", 2)


def test_nothing_stays_where_the_one_who_asked_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("stuck\n")
    with fleet(cluster, "--expect", str(tmp_path / "hosts")) as running:
        assert until(cluster.fates["stuck"].exists)
        assert checks()
        running.kill()
    assert until(lambda: not checks())
    cluster.fates["stuck"].unlink()


def test_four_nodes_of_which_one_drifts_one_hangs_and_one_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    running = fleet(cluster, "--timeout", "60", "--reports", str(reports))
    assert until(cluster.fates["doomed"].exists)
    cluster.kill("doomed")
    code, nodes, report = result(running)
    assert code == 1
    assert nodes["passing"] == ["calm", "quiet"]
    assert nodes["failing"] == ["adrift"]
    assert sorted(nodes["missing"]) == ["doomed", "stuck"]
    assert nodes["unreadable"] == []
    message = report["fleet-missing"]["found"]
    assert "doomed: the node left the Ray cluster during the check" in message
    assert "stuck: the check hung and was ended after" in message
    assert until(lambda: not checks())
    # A check sees what an actor of a training job sees.
    assert variables(reports / "calm.json")["ASCEND_RT_VISIBLE_DEVICES"] == "0,1"
    assert "ASCEND_RT_VISIBLE_DEVICES" not in variables(reports / "adrift.json")


def test_without_a_cluster_one_line_says_so(cluster: Cluster) -> None:
    done = fleet(cluster, "--ray", "nowhere")
    output, errors = done.communicate(timeout=PATIENCE)
    assert (done.returncode, output) == (2, "")
    *progress, last = errors.splitlines()
    assert last.startswith("ascend-doctor: --ray nowhere: ")
    assert [
        line for line in progress if not re.match(r"The nodes are checked|0 nodes, ", line)
    ] == []
