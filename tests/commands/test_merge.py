from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ascend_doctor.findings import Finding, Level
from tests.fleet.nodes import node, write


def merge(*arguments: str) -> subprocess.CompletedProcess[str]:
    doctor = str(Path(sys.executable).with_name("ascend-doctor"))
    command = [doctor, "merge", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


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
    told = json.loads(done.stdout)["fleet"]
    assert told["missing"] == ["n4"]
    assert (lists / "passing_nodes.txt").read_text() == "n1\nn3_--exclusive\n"
    assert (lists / "failing_nodes.txt").read_text() == "n2\n"
    assert (lists / "unknown_nodes.txt").read_text() == "n4\n"


def test_bad_arguments_are_one_line(tmp_path: Path) -> None:
    for arguments in (
        [str(tmp_path / "none")],
        [str(tmp_path)],
        [str(tmp_path), "--expect", str(tmp_path / "none")],
    ):
        done = merge(*arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
