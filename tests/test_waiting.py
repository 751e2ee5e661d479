"""How long to wait for a process: what it waits for a processor does not count."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.machine import waiting
from ascend_doctor.machine.waiting import MOST_STRETCH, Deadline, await_end, communicate
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.probing import schedule
from ascend_doctor.probing.request import LaunchNodes, ProbeRequest, not_started
from ascend_doctor.probing.schedule import run_all

PARENT, CHILD = 10, 11


class World:
    """A clock, and a procfs of a parent and a child."""

    def __init__(self, proc: Path) -> None:
        self.proc, self.now = proc, 100.0
        self.usage = {PARENT: [0.0, 0.0], CHILD: [0.0, 0.0]}
        for pid, child in ((PARENT, CHILD), (CHILD, "")):
            (proc / f"{pid}/task/{pid}").mkdir(parents=True)
            (proc / f"{pid}/task/{pid}/children").write_text(f"{child} ")
        (proc / "pressure").mkdir()
        self.pass_seconds(0)

    def pass_seconds(
        self, seconds: float, *, ran: float = 0.0, delayed: float = 0.0, pid: int = CHILD
    ) -> None:
        self.now += seconds
        self.usage[pid][0] += ran
        self.usage[pid][1] += delayed
        for number, (first, second) in self.usage.items():
            text = f"{first * 1e9:.0f} {second * 1e9:.0f} 1\n"
            (self.proc / f"{number}/task/{number}/schedstat").write_text(text)

    def wait(self, seconds: float, **options: float) -> Deadline:
        return Deadline(seconds, PARENT, proc=str(self.proc), clock=lambda: self.now, **options)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_time_in_which_a_process_could_run_counts(world: World) -> None:
    wait = world.wait(30)
    for _ in range(10):
        world.pass_seconds(3, ran=1, delayed=2)
        assert wait.time_left() > 0
    assert wait.time_left() == pytest.approx(20)
    assert wait.is_busy
    for _ in range(10):
        world.pass_seconds(2, ran=2)
        wait.time_left()
    assert wait.time_left() == 0
    assert not wait.is_cut


def test_a_process_that_sleeps_has_its_seconds_and_no_more(world: World) -> None:
    wait = world.wait(5)
    for _ in range(5):
        assert wait.time_left() > 0
        world.pass_seconds(1)
    assert wait.time_left() == 0
    assert not wait.is_busy
    assert wait.idle(CHILD) == wait.idle(PARENT) == 5


def test_what_ran_or_waited_for_a_processor_was_not_idle(world: World) -> None:
    wait = world.wait(100)
    for ran, delayed in ((5.0, 0.0), (0.0, 5.0), (0.1, 0.1)):
        world.pass_seconds(10, ran=ran, delayed=delayed)
        wait.time_left()
    assert wait.idle(CHILD) == wait.idle(PARENT) == pytest.approx(9.9)
    world.pass_seconds(10, ran=5, pid=PARENT)
    wait.time_left()
    assert wait.idle(PARENT) == 0
    assert wait.idle(CHILD) == pytest.approx(19.9)


def test_a_thread_that_looks_in_now_and_then_stretches_nothing(world: World) -> None:
    wait = world.wait(10)
    for _ in range(10):
        world.pass_seconds(1, ran=0.001, delayed=0.01, pid=PARENT)
        wait.time_left()
    assert wait.time_left() == pytest.approx(0.1)
    assert not wait.is_busy


def test_a_wait_has_a_ceiling(world: World) -> None:
    whole, lower = world.wait(1), world.wait(1, ceiling=2)
    world.pass_seconds(2, delayed=2)
    assert lower.time_left() == 0 < whole.time_left()
    world.pass_seconds(MOST_STRETCH, delayed=MOST_STRETCH)
    assert whole.time_left() == 0
    assert lower.is_cut
    assert whole.is_cut


@pytest.mark.parametrize(
    ("file", "before", "after", "left"),
    [
        ("loadavg", "0.5 0 0 1/1 1", "0.5 0 0 1/1 1", 8.0),
        ("loadavg", f"{4 * waiting.load_of()[1]} 0 0", f"{4 * waiting.load_of()[1]} 0 0", 9.5),
        ("pressure/cpu", "some avg10=0.00 total=1000000", "some avg10=0.00 total=2500000", 9.5),
    ],
)
def test_without_a_count_of_delays_pressure_or_load_says_it(
    world: World, file: str, before: str, after: str, left: float
) -> None:
    (world.proc / file).write_text(before)
    wait = world.wait(10)
    for pid in (PARENT, CHILD):
        (world.proc / f"{pid}/task/{pid}/schedstat").unlink()
        stat = world.proc / f"{pid}/task/{pid}/stat"
        stat.write_text(f"{pid} (a) b) R" + " 0" * 10 + f" {100 * (pid == CHILD)} 100 0")
    (world.proc / file).write_text(after)
    world.now += 2
    assert wait.time_left() == pytest.approx(left)
    assert wait.idle(CHILD) == 0


@pytest.fixture(params=["while 1: pass", "time.sleep(1000)"])
def child(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    code = f"import time; print(1, flush=True)\n{request.param}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # under way
        yield process
        process.kill()


@pytest.mark.slow
def test_a_real_child_that_never_ends_is_late_on_any_machine(
    child: subprocess.Popen[bytes],
) -> None:
    busy = "while" in str(child.args)
    wait = Deadline(1.5, child.pid)
    assert not await_end(child, wait)
    assert busy == (wait.idle(child.pid) < 1)
    os.kill(child.pid, signal.SIGSTOP)
    stopped = Deadline(1.5, child.pid)
    assert not await_end(child, stopped)
    assert stopped.idle(child.pid) >= 1
    assert not stopped.is_busy
    with pytest.raises(subprocess.TimeoutExpired):
        communicate(child, 0.1)
    child.kill()
    assert await_end(child, Deadline(60, child.pid))


@pytest.mark.parametrize(
    ("total", "load", "tries", "story"),
    [
        (None, "", [20.0, 40.0], "no end after 20 s"),
        (None, "load 9 on 2 cores", [20.0, 40.0], "no end after 20 s, load 9 on 2 cores"),
        (10.0, "", [20.0], ""),  # no time is left for more than it had
    ],
)
def test_what_timed_out_is_tried_once_more_with_more_time(
    monkeypatch: pytest.MonkeyPatch, total: float | None, load: str, tries: list[float], story: str
) -> None:
    requests = []

    def fail(batch: tuple[ProbeRequest, ...], **_: object) -> tuple[ProbeRun, ...]:
        requests.append(batch[0])
        run = not_started(batch[0], "")
        return (msgspec.structs.replace(run, timed_out=True, seconds=20.0, load=load),)

    monkeypatch.setattr(schedule, "launch_together", fail)
    request = ProbeRequest(probe="a", device="cpu", python="p", script="s", deadline=20.0)
    (run,) = run_all([request], total=total)
    assert [request.deadline for request in requests] == tries
    assert [request.patience for request in requests] == [1.0, 2.0][: len(tries)]
    assert run.first_try == story
    on_two = msgspec.structs.replace(request, nodes=LaunchNodes(count=2))
    assert run_all([on_two], total=total)[0].first_try == ""


def test_a_part_that_had_no_end_is_late() -> None:
    late = ProbeResult(ok=True, values={"late": True})
    waited = ProbeResult(ok=False, error="DistBackendError: EI0006 socket")
    assert ProbeRun(probe="a", ranks=(late,)).is_late
    assert ProbeRun(probe="a", ranks=(waited,)).is_late
    assert not ProbeRun(probe="a", ranks=(ProbeResult(ok=False, error="ValueError: x"),)).is_late
