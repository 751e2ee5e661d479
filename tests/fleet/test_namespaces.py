"""Four hosts, each with a control and a data network, whose data networks have faults."""

from __future__ import annotations

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
from tests.knobs import WHOLE, seed

ROOT = Path(__file__).parent.parent.parent
HOSTS = 4
# Of every ten placements: six have all three faults, one has one, one two, one only a link that is
# cut, and one nothing at all.
PLACEMENTS = 50 if WHOLE else 4
SEED = seed(1)
KIND = {"slow": "slow", "lossy": "lossy", "cut": "failed"}


class Placement(NamedTuple):
    """Faults by host, and a link that is cut between two of them."""

    faults: dict[int, str]
    link: tuple[int, int] | None = None


def placement(number: int) -> Placement:
    rng = random.Random(SEED * 1000 + number)
    hosts = rng.sample(range(HOSTS), HOSTS)
    faults = rng.sample(sorted(KIND), len(KIND))
    # The first four are one of each.
    shape = (0, 9, 8, 6)[number] if number < 4 else number % 10
    if shape == 9:
        return Placement({}, (min(hosts[:2]), max(hosts[:2])))
    count = {6: 1, 7: 2, 8: 0}.get(shape, 3)
    return Placement(dict(zip(hosts[:count], faults, strict=False)))


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    with lab(HOSTS) as found:
        yield found


def checked(
    hosts: Lab, number: int, python: Path, folder: Path, *, timeout: int = 240
) -> subprocess.Popen[str]:
    """The check of one host, with its report in the folder."""
    program = Path(sys.executable).with_name("ascend-doctor")
    meet = ("--nnodes", str(HOSTS), "--node-rank", str(number))
    place = ("--rdzv-endpoint", f"{CONTROL.format(1)}:{PORT}", "--timeout", str(timeout))
    report = ("--no-redact", "--format", "json", "-o", str(folder / f"n{number}.json"))
    return hosts.start(
        number,
        [
            *(str(program), "check", "--only", "pair-rounds", "--device", "cpu", "--nproc", "1"),
            *("--python", str(python), "--quiet", *meet, *place, *report),
        ],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "data0"},
    )


def ended(process: subprocess.Popen[str]) -> int:
    output, errors = process.communicate(timeout=300)
    assert process.returncode in {0, 1, 3}, output + errors
    return process.returncode


def findings(folder: Path, number: int) -> list[dict[str, Any]]:
    report = json.loads((folder / f"n{number}.json").read_text())
    return [one for one in report["findings"] if one["check"] == "pair-rounds"]


def accused(folder: Path, number: int) -> dict[tuple[str, ...], set[str]]:
    """Kinds by who is accused of them."""
    found: dict[tuple[str, ...], set[str]] = {}
    words = {text: kind for table in (_DOES, _LINK) for kind, text in table.items()}
    for one in findings(folder, number):
        if one["level"] == "error":
            kinds = {kind for text, kind in words.items() if one["title"].endswith(text)}
            found.setdefault(tuple(one["nodes"]), set()).update(kinds)
    return found


@pytest.mark.parametrize("number", range(PLACEMENTS))
def test_every_fault_is_named_and_nobody_else(
    hosts: Lab,
    examined_python: Path,
    tmp_path: Path,
    number: int,
) -> None:
    faults, link = placement(number)
    hosts.mend()
    for host, fault in faults.items():
        hosts.spoil(host, fault)
    if link:
        hosts.part(*link)
    runs = [checked(hosts, one, examined_python, tmp_path) for one in range(HOSTS)]
    codes = [ended(one) for one in runs]
    wanted: dict[tuple[str, ...], set[str]] = {
        (f"n{host}",): {KIND[faults[host]]} for host in faults
    }
    if link:
        wanted[f"n{link[0]}", f"n{link[1]}"] = {"failed"}
    for one in range(HOSTS):
        named = accused(tmp_path, one)
        # What loses messages may be slow for that, too; it is the same host.
        assert set(named) == set(wanted), findings(tmp_path, one)
        assert all(kinds <= named[who] for who, kinds in wanted.items())
        assert not [one for one in findings(tmp_path, one) if one["level"] == "unknown"]
    assert codes == [1 if wanted else 0] * HOSTS


def test_a_host_that_does_not_come_is_named_and_not_accused(
    hosts: Lab, examined_python: Path, tmp_path: Path
) -> None:
    hosts.mend()
    hosts.spoil(2, "gone")
    runs = [checked(hosts, one, examined_python, tmp_path, timeout=110) for one in range(HOSTS)]
    assert [ended(one) for one in runs] == [3] * HOSTS
    for one in (0, 1, 3):
        found, well = findings(tmp_path, one)
        assert (found["level"], well["level"]) == ("unknown", "ok")
        assert found["title"] == "pair-rounds: node 2 did not come to the meeting point"
    (found,) = findings(tmp_path, 2)
    assert found["level"] == "unknown"
    assert "no fault of a node" in found["title"]
    report = json.loads((tmp_path / "n0.json").read_text())
    (run,) = [one for one in report["snapshot"]["probes"] if one["probe"] == "pair-rounds"]
    rows = run["ranks"][0]["values"]["pairs"]
    assert {tuple(one["pair"]) for one in rows} == {(0, 1), (0, 3), (1, 3)}
    assert {one["outcome"] for one in rows} == {"ok"}


@pytest.mark.parametrize("how", ["killed", "gone"])
def test_node_0_ends_in_the_middle(
    hosts: Lab, examined_python: Path, tmp_path: Path, how: str
) -> None:
    hosts.mend()
    hosts.spoil(3, "cut")  # a round lasts until its pair gives up
    script = ROOT / "probes" / "pair_rounds.py"
    meet = ("--nnodes", str(HOSTS), "--node-rank", "0", "--nproc-per-node", "1")
    place = ("--rdzv-endpoint", f"{CONTROL.format(1)}:{PORT}", "--records", str(tmp_path))
    first = hosts.start(
        0,
        [str(examined_python), str(script), "--device", "cpu", *meet, *place],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "data0", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    runs = [checked(hosts, one, examined_python, tmp_path, timeout=120) for one in (1, 2, 3)]
    record = tmp_path / "rank-0.jsonl"
    while not (record.exists() and '"round 0"' in record.read_text()):
        assert first.poll() is None
        time.sleep(0.1)
    if how == "gone":
        hosts.spoil(0, "gone")
    else:
        for pid in hosts.processes(0):
            psutil.Process(pid).kill()
    codes = [ended(one) for one in runs]
    for pid in hosts.processes(0):
        psutil.Process(pid).kill()
    first.communicate(timeout=30)
    assert codes == [3, 3, 3]
    for one in (1, 2, 3):
        assert [found["level"] for found in findings(tmp_path, one)] == ["unknown"]
        assert "no fault of a node" in findings(tmp_path, one)[0]["title"]
    assert [hosts.processes(one) for one in range(HOSTS)] == [[]] * HOSTS
