import os
import re
from pathlib import Path

import pytest

from ascend_doctor.collect import holders as module
from ascend_doctor.collect.holders import holders, scan
from ascend_doctor.facts import Holders
from ascend_doctor.machine.live import LiveMachine

from .replayed import replay

TICKS = os.sysconf("SC_CLK_TCK")


def process(proc: Path, pid: int, *opened: str, cgroup: str = "0::/user.slice\n") -> Path:
    """A procfs folder of a process started 40 s after boot."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, target in enumerate(opened):
        (folder / "fd" / str(number)).symlink_to(target)
    (folder / "comm").write_text("python (train) 3\n", "utf-8")
    after_name = ["S", *["0"] * 18, str(40 * TICKS), "0"]
    (folder / "stat").write_text(f"{pid} (python (train) 3) {' '.join(after_name)}\n", "utf-8")
    (folder / "cgroup").write_text(cgroup, "utf-8")
    return folder


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    process(tmp_path / "proc", 1)
    (tmp_path / "proc/uptime").write_text("100.50 3.0\n", "utf-8")
    (tmp_path / "proc/self").mkdir()
    return tmp_path / "proc"


def test_a_holder_and_its_devices(proc: Path) -> None:
    opened = (
        "/dev/davinci3",
        "/dev/null",
        "/dev/davinci0",
        "/dev/davinci3",
        "/dev/davinci_manager",
    )
    process(proc, 42, *opened)
    process(proc, 43, "/dev/davinci_manager", "/tmp/davinci5", "socket:[1]")
    answer = scan(str(proc))
    (holder,) = answer["processes"]
    assert answer["complete"]
    assert (holder["pid"], holder["devices"], holder["name"]) == (42, [0, 3], "python (train) 3")
    assert holder["age"] == 60.5
    assert holder["user"]
    assert holder["container"] is False


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ("0::/system.slice/docker-0123abc.scope\n", True),
        ("12:pids:/kubepods/besteffort/pod1\n", True),
        ("0::/\n", None),
        ("", None),
        ("0::/user.slice/user-1000.slice\n", False),
    ],
)
def test_containers_are_told_by_their_cgroup(proc: Path, cgroup: str, expected: object) -> None:
    process(proc, 42, "/dev/davinci0", cgroup=cgroup)
    assert scan(str(proc))["processes"][0]["container"] is expected


def test_processes_that_may_not_be_read_leave_the_list_incomplete(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(proc, 42, "/dev/davinci0")
    process(proc, 7, "/dev/davinci1")
    listdir = os.listdir

    def guarded(path: str) -> list[str]:
        if path.endswith("/7/fd"):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", guarded)
    answer = scan(str(proc))
    assert not answer["complete"]
    assert [process["pid"] for process in answer["processes"]] == [42]


def test_hidden_processes_leave_the_list_incomplete(proc: Path) -> None:
    (proc / "1").rename(proc / "x1")
    assert not scan(str(proc))["complete"]


def test_a_process_that_ends_meanwhile_is_skipped(proc: Path) -> None:
    (proc / "9").mkdir()  # no fd folder any more
    half = process(proc, 10, "/dev/davinci0")
    for name in ("comm", "stat", "cgroup"):
        (half / name).unlink()
    answer = scan(str(proc))
    assert answer["complete"]
    (holder,) = answer["processes"]
    assert (holder["pid"], holder["name"], holder["age"], holder["container"]) == (
        10,
        "",
        None,
        None,
    )


def test_time_is_bounded(proc: Path) -> None:
    process(proc, 42, "/dev/davinci0")
    assert scan(str(proc), seconds=-1.0) == {"processes": [], "complete": False}


def test_a_device_file_that_this_process_holds_is_found_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real /proc, with a plain file as the device."""
    path = tmp_path / "davinci5"
    path.touch()
    monkeypatch.setattr(module, "_DEVICE", re.compile(rf"{re.escape(str(tmp_path))}/davinci(\d)$"))
    with path.open("rb"):
        facts = holders(LiveMachine())
    (mine,) = [holder for holder in facts.processes if holder.pid == os.getpid()]
    assert mine.devices == (5,)
    assert mine.age is None or mine.age >= 0


def test_a_recorded_answer_is_replayed(tmp_path: Path) -> None:
    answer = {"processes": [{"pid": 5, "devices": [1], "user": "ann"}], "complete": False}
    facts = holders(replay(tmp_path, values={"holders": answer}))
    assert isinstance(facts, Holders)
    assert (facts.processes[0].pid, facts.processes[0].devices) == (5, (1,))
    assert not facts.complete
