"""Four hosts, each with a control and a data network, whose data networks have faults."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from ascend_doctor.checks.probes.pair_rounds import _DOES, _LINK
from tests.fleet.namespaces import CONTROL, PORT, Lab, lab
from tests.knobs import draw, seed
from tests.programs import on_cpu

ROOT = Path(__file__).parent.parent.parent
HOSTS = 4
# Of ten placements: six have three faults, one has one, one two, one only a cut link, one none.
PLACEMENTS = draw(range(50), range(4), 2)
SEED = seed(1)
KIND = {"slow": "slow", "lossy": "lossy", "cut": "failed"}


class Placement(NamedTuple):
    """Faults by host, and a cut link between two."""

    faults: dict[int, str]
    link: tuple[int, int] | None = None


def placement(number: int) -> Placement:
    rng = random.Random(SEED * 1000 + number)
    hosts = rng.sample(range(HOSTS), HOSTS)
    faults = rng.sample(sorted(KIND), len(KIND))
    # The first four: one of each.
    shape = (0, 9, 8, 6)[number] if number < 4 else number % 10
    if shape == 9:
        return Placement({}, (min(hosts[:2]), max(hosts[:2])))
    count = {6: 1, 7: 2, 8: 0}.get(shape, 3)
    return Placement(dict(zip(hosts[:count], faults, strict=False)))


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    with lab(HOSTS) as hosts:
        yield hosts


def start_check(
    hosts: Lab, number: int, python: Path, folder: Path, *, timeout: int = 240
) -> subprocess.Popen[str]:
    program = Path(sys.executable).with_name("ascend-doctor")
    meet = ("--nnodes", str(HOSTS), "--node-rank", str(number))
    endpoint = ("--rdzv-endpoint", f"{CONTROL.format(1)}:{PORT}", "--timeout", str(timeout))
    report = ("--no-redact", "--format", "json", "-o", str(folder / f"n{number}.json"))
    return hosts.start(
        number,
        [
            *(str(program), "check", "--only", "pair-rounds", "--device", "cpu", "--nproc", "1"),
            *("--python", str(python), "--quiet", *meet, *endpoint, *report),
        ],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "data0"},
    )


def wait_for(process: subprocess.Popen[str]) -> int:
    output, errors = process.communicate(timeout=300)
    assert process.returncode in {0, 1, 3}, output + errors
    return process.returncode


def findings(folder: Path, number: int) -> list[dict[str, Any]]:
    report = json.loads((folder / f"n{number}.json").read_text())
    return [finding for finding in report["findings"] if finding["check"] == "pair-rounds"]


def list_accused(folder: Path, number: int) -> dict[tuple[str, ...], set[str]]:
    """Kinds by accused nodes."""
    kinds_by_nodes: dict[tuple[str, ...], set[str]] = {}
    words = {text: kind for table in (_DOES, _LINK) for kind, text in table.items()}
    for finding in findings(folder, number):
        if finding["level"] == "error":
            kinds = {kind for text, kind in words.items() if finding["title"].endswith(text)}
            kinds_by_nodes.setdefault(tuple(finding["nodes"]), set()).update(kinds)
    return kinds_by_nodes


@pytest.mark.parametrize("number", PLACEMENTS)
def test_every_fault_is_named_and_nobody_else(
    hosts: Lab, examined_python: Path, tmp_path: Path, number: int
) -> None:
    faults, link = placement(number)
    hosts.mend()
    for host, fault in faults.items():
        hosts.spoil(host, fault)
    if link:
        hosts.part(*link)
    runs = [start_check(hosts, host, examined_python, tmp_path) for host in range(HOSTS)]
    codes = [wait_for(run) for run in runs]
    expected: dict[tuple[str, ...], set[str]] = {
        (f"n{host}",): {KIND[faults[host]]} for host in faults
    }
    if link:
        expected[f"n{link[0]}", f"n{link[1]}"] = {"failed"}
    for observer in range(HOSTS):
        named = list_accused(tmp_path, observer)
        # A host that loses messages may also be slow.
        assert set(named) == set(expected), findings(tmp_path, observer)
        assert all(kinds <= named[who] for who, kinds in expected.items())
        assert not [
            finding for finding in findings(tmp_path, observer) if finding["level"] == "unknown"
        ]
    assert codes == [1 if expected else 0] * HOSTS


def test_a_host_that_does_not_come_is_named_and_not_accused(
    hosts: Lab, examined_python: Path, tmp_path: Path
) -> None:
    hosts.mend()
    hosts.spoil(2, "gone")
    runs = [
        start_check(hosts, host, examined_python, tmp_path, timeout=110) for host in range(HOSTS)
    ]
    assert [wait_for(run) for run in runs] == [3] * HOSTS
    for number in (0, 1, 3):
        finding, well = findings(tmp_path, number)
        assert (finding["level"], well["level"]) == ("unknown", "ok")
        assert finding["title"] == "pair-rounds: node 2 did not come to the meeting point"
    (finding,) = findings(tmp_path, 2)
    assert finding["level"] == "unknown"
    assert "no fault of a node" in finding["title"]
    report = json.loads((tmp_path / "n0.json").read_text())
    (run,) = [probe for probe in report["snapshot"]["probes"] if probe["probe"] == "pair-rounds"]
    rows = run["ranks"][0]["values"]["pairs"]
    assert {tuple(row["pair"]) for row in rows} == {(0, 1), (0, 3), (1, 3)}
    assert {row["outcome"] for row in rows} == {"ok"}


@pytest.mark.parametrize("how", ["killed", "gone"])
def test_node_0_ends_in_the_middle(
    hosts: Lab, examined_python: Path, tmp_path: Path, how: str
) -> None:
    hosts.mend()
    hosts.spoil(3, "cut")  # a round lasts until its pair gives up
    script = ROOT / "probes" / "pair_rounds.py"
    meet = ("--nnodes", str(HOSTS), "--node-rank", "0", "--nproc-per-node", "1")
    endpoint = ("--rdzv-endpoint", f"{CONTROL.format(1)}:{PORT}", "--records", str(tmp_path))
    first = hosts.start(
        0,
        [str(examined_python), str(script), "--device", "cpu", *meet, *endpoint],
        env=on_cpu(GLOO_SOCKET_IFNAME="data0"),
    )
    runs = [start_check(hosts, host, examined_python, tmp_path, timeout=120) for host in (1, 2, 3)]
    record = tmp_path / "rank-0.jsonl"
    while not (record.exists() and '"round 0"' in record.read_text()):
        assert first.poll() is None
        time.sleep(0.1)
    if how == "gone":
        hosts.spoil(0, "gone")
    else:
        for pid in hosts.processes(0):
            psutil.Process(pid).kill()
    codes = [wait_for(run) for run in runs]
    for pid in hosts.processes(0):
        psutil.Process(pid).kill()
    first.communicate(timeout=30)
    assert codes == [3, 3, 3]
    for host in (1, 2, 3):
        assert [finding["level"] for finding in findings(tmp_path, host)] == ["unknown"]
        assert "no fault of a node" in findings(tmp_path, host)[0]["title"]
    assert [hosts.processes(host) for host in range(HOSTS)] == [[]] * HOSTS
