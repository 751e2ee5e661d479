import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.findings import Finding, Level
from tests.fleet.nodes import node, write
from tests.programs import run_program


def merge(*arguments: str) -> subprocess.CompletedProcess[str]:
    doctor = str(Path(sys.executable).with_name("ascend-doctor"))
    command = [doctor, "merge", *arguments]
    return run_program(command, check=False)


def test_the_lists_are_ready_for_a_scheduler(tmp_path: Path) -> None:
    bad = Finding(check="x", level=Level.ERROR, title="broken")
    reports, lists = tmp_path / "in", tmp_path / "out"
    reports.mkdir()
    lists.mkdir()
    write(reports, node("n1"), node("n2", bad), node("n3 --exclusive"))
    hosts = tmp_path / "hosts"
    hosts.write_text("n[1-2]\nn4\n")
    done = merge(str(reports), "--expect", str(hosts), "--lists", str(lists), "--format", "json")
    assert done.returncode == 1, done.stderr
    fleet = json.loads(done.stdout)["fleet"]
    assert fleet["missing"] == ["n4"]
    assert (lists / "passing_nodes.txt").read_text() == "n1\nn3_--exclusive\n"
    assert (lists / "failing_nodes.txt").read_text() == "n2\n"
    assert (lists / "unknown_nodes.txt").read_text() == "n4\n"


def test_expected_nodes_may_be_a_list(tmp_path: Path) -> None:
    write(tmp_path, node("n0"))
    done = merge(str(tmp_path), "--expect", "n[0-1],m7", "--format", "json")
    assert json.loads(done.stdout)["fleet"]["missing"] == ["n1", "m7"]
    done = merge(str(tmp_path), "--expect", "n[0-1", "--format", "json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.slow
def test_bad_arguments_are_one_line(tmp_path: Path) -> None:
    for arguments in (
        [str(tmp_path / "none")],
        [str(tmp_path)],
        [str(tmp_path), "--expect", str(tmp_path / "none")],
    ):
        done = merge(*arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1


def merge_folder(folder: Path, *arguments: str) -> dict[str, Any]:
    done = merge(str(folder), "--format", "json", *arguments)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.slow
def test_names_stay_and_addresses_home_and_secrets_do_not(
    tmp_path: Path, no_real_home: Path
) -> None:
    """A node may be called by its address, or as a token looks."""
    texts = f"{no_real_home}/x on 10.1.2.3 and 10.9.9.9 with token=abcdefgh12345678"
    bad = Finding(check="x", level=Level.ERROR, title="broken", observed=texts)
    names = ("10.1.2.3", "ms-aaaaaaaaaaaaaaaaaaaa")
    write(tmp_path, *(node(name, bad, address="192.168.7.7") for name in names))
    report = merge_folder(tmp_path)
    first, second = (
        row for row in report["findings"] if row["check"] in {"x", "fleet-duplicate-address"}
    )
    assert first["nodes"] == second["nodes"] == list(names)
    shown = json.dumps([first, second])
    assert "10.1.2.3" in first["found"] + second["found"]
    for hidden in ("192.168.7.7", "10.9.9.9", "abcdefgh12345678", str(no_real_home)):
        assert hidden not in shown
    assert report["redacted"]
    plain = merge_folder(tmp_path, "--no-redact")
    assert "192.168.7.7" in json.dumps(plain["findings"])
    assert not plain["redacted"]


@pytest.mark.slow
def test_files_name_nodes_where_that_is_asked_for(tmp_path: Path) -> None:
    """As with several slurmd of one machine."""
    write(tmp_path, node("host"))
    (tmp_path / "host.json").rename(tmp_path / "node1.json")
    write(tmp_path, node("host"))
    (tmp_path / "host.json").rename(tmp_path / "node2.json")
    assert merge_folder(tmp_path, "--by-file")["fleet"]["passing"] == ["node1", "node2"]
    assert merge_folder(tmp_path)["fleet"]["passing"] == ["host"]
