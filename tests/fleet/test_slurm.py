"""The check of a fleet by a real Slurm: four slurmd on this machine."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.slurm_cluster import NODES, SlurmCluster, missing, slurm_cluster
from tests.machines.compose import build
from tests.programs import run_program

DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
GONE = missing()
pytestmark = pytest.mark.skipif(bool(GONE), reason=f"not installed: {', '.join(GONE)}")


@pytest.fixture(scope="module")
def whole_cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(whole_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster, idle before and with no process of a job behind."""
    whole_cluster.idle()
    yield whole_cluster
    whole_cluster.ask("scancel", "--quiet", f"--user={os.getuid()}")
    whole_cluster.prolog.write_text("#!/bin/sh\nexit 0\n")


def machine(kind: str, node: str, folder: Path) -> str:
    """A recorded machine with its own addresses: ``well``, ``drifts`` or ``fails``."""
    root = build("driver-not-loaded" if kind == "fails" else "healthy-a2", folder / node)
    changes = {"192.0.2.": f"192.0.{NODES.index(node) + 10}."}
    if kind == "drifts":
        changes["3.10.14"] = "3.10.13"  # Python
    for path in root.rglob("*"):
        if path.is_file():
            text = path.read_text("utf-8")
            for old, new in changes.items():
                text = text.replace(old, new)
            path.write_text(text, "utf-8")
    return shlex.quote(str(root))


def replaying(folder: Path, **kinds: str) -> dict[str, str]:
    return {
        node: f'exec {shlex.quote(DOCTOR)} "$@" --replay {machine(kind, node, folder)}'
        for node, kind in kinds.items()
    }


def doctors(folder: Path, **nodes: str) -> str:
    cases = "\n".join(f"{node}) {text} ;;" for node, text in nodes.items())
    script = folder / "it's $(here)" / "doctor"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ncase $SLURMD_NODENAME in\n{cases}\nesac\n")
    script.chmod(0o755)
    return shlex.quote(str(script))


def fleet(cluster: SlurmCluster, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [DOCTOR, "fleet", "check", "--slurm", "-l", "0", "--format", "json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.env,
        cwd=folder,
    )


def wait_for(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    out, error = process.communicate(timeout=300)
    assert out, error
    return process.returncode, json.loads(out)


def finding(report: dict[str, Any], check: str) -> dict[str, Any]:
    (only,) = [finding for finding in report["findings"] if finding["check"] == check]
    return dict(only)


def test_one_drifts_one_fails_one_hangs(cluster: SlurmCluster, tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    doctor = doctors(
        tmp_path,
        **replaying(tmp_path, node1="well", node2="drifts", node3="fails"),
        node4="trap '' TERM; sleep 600",
    )
    process = fleet(
        cluster,
        tmp_path,
        *("--nodes", "4", "--timeout", "60", "--doctor", doctor, "--lists", str(lists)),
    )
    code, report = wait_for(process)
    assert code == 1
    summary = report["fleet"]
    assert (summary["passing"], summary["failing"]) == (["node1"], ["node2", "node3"])
    assert summary["missing"] == ["node4"]
    assert finding(report, "fleet-missing")["found"] == "node4: had not ended after 60 s"
    assert "Python" in {drift["setting"] for drift in summary["drift"]}
    for name, nodes in {"passing": "node1", "failing": "node2\nnode3", "unknown": "node4"}.items():
        assert (lists / f"{name}_nodes.txt").read_text() == f"{nodes}\n"
    cluster.until(lambda: not cluster.jobs() and not cluster.ask("squeue", "--noheader"))
    assert [path.name for path in tmp_path.iterdir() if "fleet" in path.name] == []


def test_a_node_that_is_lost_is_silent_and_the_others_count(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    doctor = doctors(
        tmp_path,
        **replaying(tmp_path, **dict.fromkeys(NODES[:3], "well")),
        node4=f": >{shlex.quote(str(tmp_path / 'here'))}; sleep 600",
    )
    process = fleet(cluster, tmp_path, "--nodes", "4", "--timeout", "150", "--doctor", doctor)
    cluster.until((tmp_path / "here").exists)
    cluster.kill_node("node4")
    code, report = wait_for(process)
    assert code == 3
    assert report["fleet"]["passing"] == list(NODES[:3])
    assert report["fleet"]["missing"] == ["node4"]
    assert finding(report, "fleet-missing")["found"].startswith("node4: Slurm has it as down")
    cluster.until(lambda: not cluster.jobs())


def test_what_slurm_says_of_a_node_is_told(cluster: SlurmCluster, tmp_path: Path) -> None:
    cluster.ask("scontrol", "update", "nodename=node2", "state=drain", "reason=broken fan")
    hosts = tmp_path / "hosts"
    hosts.write_text("node[1-2]\nnode9\n")
    doctor = doctors(tmp_path, **replaying(tmp_path, node1="well"))
    code, report = wait_for(
        fleet(cluster, tmp_path, "--expect", str(hosts), "--timeout", "120", "--doctor", doctor)
    )
    assert code == 3
    assert report["fleet"]["passing"] == ["node1"]
    message = finding(report, "fleet-missing")["found"]
    assert "node2: Slurm has it as drained (broken fan)" in message
    assert "node9: Slurm knows no such node" in message


def test_findings_are_acknowledged_on_the_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    config = tmp_path / "known.yaml"
    rows = "".join(
        f"- {{id: {check}, nodes: '*', reason: new driver on Monday, expires: '2999-12-31'}}\n"
        for check in ("driver-loaded", "npu-present", "npu-smi")
    )
    config.write_text(f"acknowledged:\n{rows}")
    doctor = doctors(tmp_path, **replaying(tmp_path, **dict.fromkeys(NODES, "fails")))
    arguments = ("--nodes", "1", "--timeout", "120", "--doctor", doctor)
    code, report = wait_for(fleet(cluster, tmp_path, *arguments))
    assert (code, len(report["fleet"]["failing"])) == (1, 1)
    code, report = wait_for(fleet(cluster, tmp_path, *arguments, "--config", config.name))
    assert (code, len(report["fleet"]["failing"])) == (3, 0)


def test_a_check_that_does_not_start_says_why(cluster: SlurmCluster, tmp_path: Path) -> None:
    code, report = wait_for(
        fleet(cluster, tmp_path, "--nodes", "2", "--timeout", "120", "--doctor", "/no/doctor")
    )
    assert code == 3
    missing = finding(report, "fleet-missing")
    assert len(missing["nodes"]) == 2
    assert "the check ended with 127" in missing["found"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--nodes", "2", "--", "-p", "none"), "Invalid partition name"),
        (("--nodes", "9", "--timeout", "5"), "Slurm gave no nodes"),
        ((), "give --nodes N or --expect HOSTFILE"),
    ],
)
def test_what_slurm_refuses_is_no_fault_of_a_node(
    cluster: SlurmCluster, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    process = fleet(cluster, tmp_path, *arguments)
    out, error = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert text in error
    assert not cluster.ask("squeue", "--noheader")


def test_an_interrupted_check_leaves_nothing(cluster: SlurmCluster, tmp_path: Path) -> None:
    here = tmp_path / "here"
    doctor = doctors(tmp_path, **dict.fromkeys(NODES, f": >{shlex.quote(str(here))}; sleep 600"))
    hosts = tmp_path / "hosts"
    hosts.write_text("node[1-4]\n")
    process = fleet(cluster, tmp_path, "--expect", str(hosts), "--doctor", doctor)
    cluster.until(here.exists)
    process.send_signal(signal.SIGTERM)
    code, report = wait_for(process)
    assert (code, report["interrupted"]) == (130, True)
    assert report["fleet"]["missing"] == list(NODES)
    cluster.until(lambda: not cluster.jobs() and not cluster.ask("squeue", "--noheader"))


def test_a_step_of_an_allocation_ends_and_the_allocation_stays(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    doctor = doctors(tmp_path, **replaying(tmp_path, node1="well"), node2="trap '' TERM; sleep 600")
    hosts = tmp_path / "hosts"
    hosts.write_text("node[1-3]\n")
    check = [DOCTOR, "fleet", "check", "--slurm", "-l", "0", "--format", "json", "--timeout", "60"]
    call = shlex.join([*check, "--expect", str(hosts), "--doctor", doctor])
    done = cluster.run(
        *("salloc", "--nodelist=node[1-2]", "sh", "-c", f"{call}; squeue -h; squeue -h -s"),
        deadline=300,
        folder=tmp_path,
    )
    done.check_returncode()
    out, end = json.JSONDecoder().raw_decode(done.stdout)
    assert out["fleet"]["passing"] == ["node1"]
    message = finding(out, "fleet-missing")["found"]
    assert "node2: had not ended after 60 s" in message
    assert "node3: not in the allocation" in message
    queue = done.stdout[end:].split("\n")
    assert len([row for row in queue if "node[1-2]" in row]) == 1
    assert not [row for row in queue if "ascend-doctor" in row]
    assert not cluster.processes("SLURMD_NODENAME=node2")


def test_the_prolog_keeps_a_job_off_a_bad_node(cluster: SlurmCluster, tmp_path: Path) -> None:
    """docs/gates.md: a finding drains the node; drift shows when merged."""
    reports = tmp_path / "reports"
    reports.mkdir()
    gate = [shlex.quote(DOCTOR), "check", "--preset", "prolog", "--no-redact", "--format", "json"]
    rows = "\n".join(
        f"{node}) machine={machine(kind, node, tmp_path)} ;;"
        for node, kind in zip(NODES, ("well", "drifts", "fails", "well"), strict=True)
    )
    cluster.prolog.write_text(
        f"#!/bin/sh\ncase $SLURMD_NODENAME in\n{rows}\nesac\n"
        f"{' '.join(gate)} -o {shlex.quote(str(reports))}/$SLURMD_NODENAME.json"
        ' --replay "$machine"; [ $? -ne 1 ]\n'
    )
    job = cluster.ask(
        "sbatch", "--parsable", "--nodes=4", "--output=/dev/null", "--wrap", "srun hostname"
    ).strip()
    cluster.until(lambda: cluster.states()["node3"].startswith("drain"))
    cluster.until(lambda: len(list(reports.glob("*.json"))) == len(NODES))
    assert "Prolog error" in cluster.ask("scontrol", "show", "node", "node3")
    assert {name for name, state in cluster.states().items() if "drain" in state} == {"node3"}
    # Slurm requeues the job and holds it (man slurm.conf, Prolog).
    held = {"Restarts=1", "JobState=PENDING", "Priority=0"}
    cluster.until(lambda: held <= {*cluster.ask("scontrol", "show", "job", job).split()})

    done = run_program(
        [DOCTOR, "merge", str(reports), "--by-file", "--lists", str(tmp_path)], check=False
    )
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "passing_nodes.txt").read_text() == "node1\nnode4\n"
    assert (tmp_path / "failing_nodes.txt").read_text() == "node2\nnode3\n"
    cluster.ask("scancel", job)
    failing = ",".join((tmp_path / "failing_nodes.txt").read_text().split())
    names = cluster.ask(
        *("srun", "--nodes=2", "--ntasks-per-node=1", f"--exclude={failing}"),
        *("printenv", "SLURMD_NODENAME"),
    )
    assert sorted(names.split()) == ["node1", "node4"]


def test_the_health_check_drains_a_bad_node(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The script of docs/gates.md; SLURM_CONF replaces Slurm's default place."""
    rows = "\n".join(
        f"{node}) machine={machine(kind, node, tmp_path)} ;;"
        for node, kind in zip(NODES, ("well", "fails", "drifts", "well"), strict=True)
    )
    program = tmp_path / "health"
    program.write_text(
        f"#!/bin/bash\ncase $SLURMD_NODENAME in\n{rows}\nesac\n"
        f"export PATH={os.environ['PATH']} SLURM_CONF={cluster.conf}\n"
        f'{shlex.quote(DOCTOR)} check --preset prolog --replay "$machine"\n'
        '[ $? -ne 1 ] || scontrol update nodename="$SLURMD_NODENAME" state=drain'
        " reason=ascend-doctor\n"
    )
    program.chmod(0o755)
    before = cluster.conf.read_text()
    more = f"HealthCheckProgram={program}\nHealthCheckInterval=2\nHealthCheckNodeState=ANY\n"
    try:
        cluster.conf.write_text(before + more)
        cluster.ask("scontrol", "reconfigure")
        cluster.until(lambda: cluster.states().get("node2", "").startswith("drain"))
        assert "ascend-doctor" in cluster.ask("sinfo", "-R")
        assert {name for name, state in cluster.states().items() if state != "idle"} == {"node2"}
    finally:
        cluster.conf.write_text(before)
        cluster.ask("scontrol", "reconfigure")


def test_a_gang_meets_by_the_variables_of_its_step(
    cluster: SlurmCluster, examined_python: Path, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    check = ["--gang", "-l", "3", "--device", "cpu", "--nproc", "1", "--only", "allreduce"]
    # Real clusters resolve node names; here all are this machine.
    cluster.env["MASTER_ADDR"] = "127.0.0.1"
    try:
        process = fleet(
            cluster,
            tmp_path,
            *(*check, "--python", str(examined_python), "--nodes", "2", "--timeout", "280"),
            *("--reports", str(reports)),
        )
        code, report = wait_for(process)
    finally:
        del cluster.env["MASTER_ADDR"]
    assert (code, len(report["fleet"]["passing"])) == (0, 2)
    runs = [json.loads(path.read_text())["snapshot"]["probes"] for path in reports.glob("*.json")]
    launches = [probe for run in runs for probe in run if probe["probe"] == "allreduce"]
    assert [launch["world_size"] for launch in launches] == [2, 2]
    assert sorted(rank["rank"] for launch in launches for rank in launch["ranks"]) == [0, 1]
