import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest

from ascend_doctor.probe_results import ProbeResult, ProbeRun, Wrong
from ascend_doctor.probing.processes import Tail
from ascend_doctor.probing.records import RECORD_LIMIT, Record
from ascend_doctor.probing.request import ProbeRequest, ProbeWatch
from ascend_doctor.probing.schedule import Extent, plan, run_all
from tests.probes.started import launch

pytestmark = pytest.mark.slow

PROBES = Path(__file__).parent.parent / "probes"
MARK = "ASCEND_DOCTOR_TEST_MARK"
# What other tests of this process keep running.
BEFORE: list[psutil.Process] = []


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A word in the environment of everything that the test starts."""
    BEFORE[:] = psutil.Process().children(recursive=True)
    word = uuid.uuid4().hex
    monkeypatch.setenv(MARK, word)
    return word


def survivors(mark: str) -> list[psutil.Process]:
    """Living processes with the mark, and our zombies."""
    marked = (process for process in psutil.process_iter(["environ"]) if process.pid != os.getpid())
    ours = [child for child in psutil.Process().children(recursive=True) if child not in BEFORE]
    return ours + [
        process for process in marked if (process.info["environ"] or {}).get(MARK) == mark
    ]


def script(tmp_path: Path, body: str) -> str:
    path = tmp_path / "one.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    head = f"import os, signal, subprocess, sys, time\nsys.path.insert(0, {str(PROBES)!r})\n"
    path.write_text(
        f"{head}import _probe\n\ndef body(probe):\n{lines}\n_probe.main(body, name='one')\n",
        "utf-8",
    )
    return str(path)


def request(
    tmp_path: Path,
    body: str,
    *,
    deadline: float = 30.0,
    python: str = "",
    needs: tuple[str, ...] = (),
    name: str = "one",
) -> ProbeRequest:
    return ProbeRequest(
        probe=name,
        needs=needs,
        device="cpu",
        python=python or sys.executable,
        script=script(tmp_path, body),
        deadline=deadline,
    )


class Listener(ProbeWatch):
    def __init__(self) -> None:
        self.heard: list[tuple[int, str]] = []
        self.runs: list[ProbeRun] = []

    def entered(self, rank: int, stage: str, seconds: float) -> None:
        assert seconds >= 0
        self.heard.append((rank, stage))

    def ended(self, run: ProbeRun) -> None:
        self.runs.append(run)


def test_a_run_has_values_stages_and_output(tmp_path: Path, mark: str) -> None:
    body = "with probe.stage('a'):\n    print('hello')\n    probe.measure('x', [1])\n"
    listener = Listener()
    run = launch(request(tmp_path, body), watch=listener)
    (rank,) = run.ranks
    assert (run.exit_code, run.timed_out, run.missing) == (0, False, ())
    assert (rank.ok, rank.values, rank.output, rank.exit_code) == (True, {"x": [1]}, "hello", 0)
    assert listener.heard == [(0, "a")]
    assert listener.runs == [run]
    assert "--records" not in run.argv
    assert not survivors(mark)


def test_a_hang_ends_at_the_deadline_with_its_place(tmp_path: Path, mark: str) -> None:
    body = "with probe.stage('deep'):\n    time.sleep(600)"
    run = launch(request(tmp_path, body, deadline=1.5))
    (rank,) = run.ranks
    assert run.timed_out
    assert run.exit_code is None
    assert (rank.ok, rank.stage) == (None, "deep")
    assert "in body" in rank.stack
    assert not survivors(mark)


def test_a_stopped_process_is_known_by_its_silence(tmp_path: Path, mark: str) -> None:
    body = "with probe.stage('deep'):\n    os.kill(os.getpid(), signal.SIGSTOP)"
    run = launch(request(tmp_path, body, deadline=5.0))
    (rank,) = run.ranks
    assert rank.silent is not None
    assert rank.silent > 1
    assert rank.stack == ""
    assert not survivors(mark)


def test_descendants_in_other_sessions_are_ended_too(tmp_path: Path, mark: str) -> None:
    inner = "import os,time; os.fork() or (os.setsid(), os.fork(), time.sleep(600))"
    body = (
        f"subprocess.Popen([sys.executable, '-c', {inner!r}], env={{}}, start_new_session=True)\n"
        "time.sleep(0.5)"
    )
    run = launch(request(tmp_path, body))
    assert run.exit_code == 0
    assert run.left_behind == ()
    assert not survivors(mark)


def test_a_rank_that_is_killed_while_torch_compiles_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "extensions" / "fused" / "lock"
    lock.parent.mkdir(parents=True)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(lock.parent.parent))
    hold = f"os.open({str(lock)!r}, os.O_CREAT | os.O_EXCL)"
    body = f"{hold}\nprint('held', flush=True)\ntime.sleep(600)"
    run = launch(request(tmp_path, body, deadline=2.0))
    assert run.ranks[0].output == "held"
    assert run.timed_out
    assert not lock.exists()


def test_a_child_that_was_there_before_is_left_alone(tmp_path: Path) -> None:
    with psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as mine:
        launch(request(tmp_path, "pass"))
        assert mine.poll() is None
        mine.kill()


def test_megabytes_of_output_are_bounded(tmp_path: Path, mark: str) -> None:
    body = "for _ in range(300):\n    os.write(1, b'x' * 65536)\nos.write(2, b'\\nthe end')"
    run = launch(request(tmp_path, body))
    (rank,) = run.ranks
    assert rank.ok
    assert rank.output.endswith("the end")
    assert len(rank.output) < 1000
    assert not survivors(mark)


@pytest.mark.parametrize(
    ("body", "code"),
    [("os.kill(os.getpid(), signal.SIGSEGV)", -11), ("os._exit(7)", 7), ("os.abort()", -6)],
)
def test_an_end_without_result_keeps_exit_code(tmp_path: Path, body: str, code: int) -> None:
    (rank,) = launch(request(tmp_path, f"with probe.stage('deep'):\n    {body}")).ranks
    assert (rank.ok, rank.stage, rank.exit_code) == (None, "deep", code)


def test_an_interpreter_that_does_not_exist_starts_nothing(tmp_path: Path) -> None:
    run = launch(request(tmp_path, "pass", python="/no/such/python"))
    assert run.not_started == "/no/such/python: No such file or directory"
    assert run.blocks


def test_an_interpreter_that_fails_leaves_a_missing_rank(tmp_path: Path) -> None:
    run = launch(request(tmp_path, "pass", python="/bin/false"))
    assert (run.missing, run.exit_code, run.ranks) == ((0,), 1, ())


def test_an_interrupt_leaves_no_process(tmp_path: Path, mark: str) -> None:
    class Interrupting(ProbeWatch):
        def entered(self, *_: object) -> None:
            raise KeyboardInterrupt

    body = "with probe.stage('deep'):\n    time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        launch(request(tmp_path, body), watch=Interrupting())
    assert not survivors(mark)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_doctor_that_is_ended_leaves_no_process(
    tmp_path: Path, mark: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # SIGKILL leaves the folder of the records
    endless = request(tmp_path, "with probe.stage('deep'):\n    time.sleep(600)")
    code = (
        "import sys\n"
        "from ascend_doctor.probing.launching import launch_together\n"
        "from ascend_doctor.probing.request import ProbeRequest, ProbeWatch\n"
        "class Ready(ProbeWatch):\n"
        "    def entered(self, *_): print('ready', flush=True)\n"
        f"one = ProbeRequest(probe='one', device='cpu', python={endless.python!r},"
        f" script={endless.script!r})\n"
        "launch_together((one,), watch=Ready())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as doctor:
        assert doctor.stdout is not None
        assert doctor.stdout.readline() == b"ready\n"
        doctor.send_signal(number)
        doctor.wait(120)
    for _ in range(200):
        if not survivors(mark):
            break
        time.sleep(0.1)
    assert not survivors(mark)


def test_a_launch_closes_what_it_opens(tmp_path: Path) -> None:
    before = (len(os.listdir("/proc/self/fd")), threading.active_count())
    launch(request(tmp_path, "pass"))
    launch(request(tmp_path, "pass", python="/no/such/python"))
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_temporary_files_of_a_probe_go_with_its_records(tmp_path: Path) -> None:
    body = "import tempfile\nprobe.measure('file', tempfile.mkstemp()[1])"
    (rank,) = launch(request(tmp_path, body)).ranks
    assert not Path(rank.values["file"]).exists()


@pytest.mark.parametrize("level", range(5))
def test_the_plan_of_a_level(level: int) -> None:
    requests = plan(level, device="cpu", nproc=4, python="python")
    levels = [request.level for request in requests]
    assert max(levels, default=0) == level
    # Later levels build on earlier ones.
    assert levels == sorted(levels)
    assert all(Path(request.script).is_file() for request in requests)
    assert {request.world_size for request in requests if request.torchrun} == (
        {4} if level > 2 else set()
    )
    assert {request.world_size for request in requests if not request.torchrun} <= {1}


def test_needs_come_first() -> None:
    requests = plan(4, device="npu", nproc=2, python="python")
    names = [request.probe for request in requests]
    for request in requests:
        assert all(names.index(need) < names.index(request.probe) for need in request.needs)


def parts(script: Path) -> set[str]:
    """The modules beside a probe that it imports, also indirectly."""
    parts: set[str] = set()
    waiting = [script]
    while waiting:
        text = waiting.pop().read_text("utf-8")
        names = set(re.findall(r"^ *(?:import|from) (_\w+)", text, re.MULTILINE)) - {"__future__"}
        waiting += [script.with_name(f"{name}.py") for name in names - parts]
        parts |= names
    return parts


def test_ranks_are_small_and_forked_on_simulated_devices() -> None:
    for small in (True, False):
        several = plan(4, device="npu", nproc=2, python="python", extent=Extent(small=small))
        for request in several:
            ranks = small and request.torchrun
            assert ("--small" in request.argv, "torchrun" in request.shared_argv) == (ranks, ranks)


def test_who_comes_to_megatron_through_mindspeed_waits_for_it() -> None:
    requests = plan(4, device="npu", nproc=2, python="python")
    through = {request.probe for request in requests if "_megatron" in parts(Path(request.script))}
    needing = {request.probe for request in requests if "mindspeed-patches" in request.needs}
    assert "smoke-train" in through
    assert needing == through | {"mindspeed-forward"}


def test_only_what_needs_a_failed_probe_does_not_run(tmp_path: Path) -> None:
    body = "probe.measure('blocks', 'torch does not import')"
    first, second, third = run_all(
        [
            request(tmp_path, body),
            request(tmp_path, body, name="two", needs=("other", "one")),
            request(tmp_path, body, name="three"),
        ]
    )
    assert first.ranks[0].ok
    assert second.not_started == "torch does not import"
    assert third.not_started == ""


def test_the_total_time_out_is_shared(tmp_path: Path) -> None:
    hang = request(tmp_path, "time.sleep(600)")
    second_hang = request(tmp_path, "time.sleep(600)", name="two")
    first, second = run_all([hang, second_hang], total=1.5)
    assert first.timed_out
    assert first.shortened
    assert second.not_started == "the total time-out of 1.5 s was used up before"
    (late,) = run_all([hang], total=0.5)
    assert late.not_started == "the total time-out of 0.5 s was used up before"


@pytest.mark.parametrize(
    ("run", "blocks"),
    [
        (ProbeRun(probe="x", ranks=(ProbeResult(ok=True),)), ""),
        (ProbeRun(probe="x", not_started="why"), "why"),
        (ProbeRun(probe="x", missing=(1,)), "the probe x failed"),
        (ProbeRun(probe="x", ranks=(ProbeResult(),)), "the probe x failed"),
        (
            ProbeRun(probe="x", ranks=(ProbeResult(ok=True, wrong=(Wrong(what="a"),)),)),
            "the probe x failed",
        ),
    ],
)
def test_what_blocks_the_next_probes(run: ProbeRun, blocks: str) -> None:
    assert run.blocks == blocks


def test_a_record_survives_anything_that_a_rank_writes(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    path.write_bytes(
        b'\xff\x00{"event"\n[]\n{"event": "stage", "time": 1}\n{"event": "end", "time": "x"}\n'
        b'{"event": "value", "time": 2, "key": "a", "value": NaN}\n'
        + b"[" * 100_000
        + b'\n{"event": "stage", "time": 3, "name": "\\u001b[31m"}\n{"event": "sta'
    )
    record = Record(str(tmp_path), 0)
    assert record.read() == (("\x1b[31m", 3.0),)
    with path.open("ab") as file:
        file.write(b'ge", "time": 5, "name": "b"}\n')
    assert record.read() == (("b", 5.0),)
    result = record.result(9.0)
    assert result.stages == {"\x1b[31m": 2.0, "b": 4.0}
    assert result.ok is None
    assert not record.started


def test_a_record_without_end_is_not_read_without_end(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.jsonl"
    with path.open("wb") as file:
        file.truncate(RECORD_LIMIT + 5)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"event": "stage", "time": 3, "name": "late"}\n')
    record = Record(str(tmp_path), 0)
    assert record.read() == ()
    assert record.read() == ()


def test_a_tail_keeps_the_end() -> None:
    tail = Tail(limit=100)
    for number in range(1000):
        tail.feed(f"line {number}\n".encode())
    assert len(tail.text) == 100
    assert tail.last_lines.splitlines()[-1] == "line 999"
    wide = Tail()
    wide.feed(b"\xff" + b"y" * 5000)
    assert len(wide.last_lines) == 400


def allreduce(python: Path, *, ranks: int, fault: str = "", deadline: float = 60.0) -> ProbeRun:
    env = {**os.environ, "ASCEND_DOCTOR_PROBE_FAULT": fault}
    requests = plan(3, device="cpu", nproc=ranks, python=str(python), env=env)
    (request,) = [request for request in requests if request.probe == "allreduce"]
    total = deadline if deadline < request.deadline else None
    (run,) = run_all([request], total=total)
    return run


def test_four_ranks_add_up(examined_python: Path, mark: str) -> None:
    run = allreduce(examined_python, ranks=4)
    assert (run.exit_code, run.missing, len(run.ranks)) == (0, (), 4)
    for rank in run.ranks:
        assert (rank.ok, rank.wrong, rank.compared, rank.world_size) == (True, (), 40, 4)
        assert rank.values["group_s"] >= 0
    assert not survivors(mark)


@pytest.mark.parametrize(
    ("fault", "stage", "code"),
    [
        ("rank=1,stage=sum f,do=segv", "sum float32", -11),
        ("rank=1,stage=rendezvous,do=exit", "rendezvous", 3),
        ("rank=1,stage=barrier,do=kill", "barrier", -9),
    ],
)
def test_a_rank_that_dies_is_known(
    examined_python: Path, mark: str, fault: str, stage: str, code: int
) -> None:
    run = allreduce(examined_python, ranks=2, fault=fault)
    rank = run.ranks[1]
    assert (rank.ok, rank.stage, rank.exit_code) == (None, stage, code)
    assert not run.timed_out
    assert not survivors(mark)


def test_a_rank_that_hangs_ends_with_all_others(examined_python: Path, mark: str) -> None:
    run = allreduce(examined_python, ranks=3, fault="rank=1,stage=sum,do=hang", deadline=30)
    assert run.timed_out
    assert [rank.stage for rank in run.ranks] == ["sum float32"] * 3
    assert "all_reduce" in run.ranks[0].stack
    assert "all_reduce" not in run.ranks[1].stack
    assert not survivors(mark)


def test_a_rank_that_prints_megabytes_passes(examined_python: Path, mark: str) -> None:
    run = allreduce(examined_python, ranks=2, fault="rank=1,stage=link,do=spam")
    assert all(rank.ok for rank in run.ranks)
    assert 0 < len(run.ranks[1].output) <= 20 * 401
    assert run.ranks[0].output == ""
    assert not survivors(mark)


def test_a_wrong_value_is_seen_by_every_rank(examined_python: Path) -> None:
    run = allreduce(examined_python, ranks=2, fault="rank=1,stage=sum int64,do=value")
    for rank in run.ranks:
        assert rank.ok
        counts = (1, 128, 131072, 262147, 524291, 786435, 1179651)
        assert [wrong.what.split(",")[0] for wrong in rank.wrong] == [
            f"sum of {count} int64" for count in counts
        ]


def test_a_module_of_the_current_folder_is_not_run(
    examined_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    run = allreduce(examined_python, ranks=2)
    assert [rank.ok for rank in run.ranks] == [True, True]
    assert not (tmp_path / "ran").exists()


def test_one_device_computes(examined_python: Path) -> None:
    several = plan(2, device="cpu", nproc=1, python=str(examined_python))
    request = next(request for request in several if request.probe == "device")
    (rank,) = launch(request).ranks
    assert rank.ok
    assert set(rank.values["matmul"]) == {"float32", "float16", "bfloat16"}
    assert rank.values["matmul"]["float32"]["error_relative"] < 1e-5


def test_the_trap_of_the_autoload_is_told_from_a_broken_torch(
    examined_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    request = plan(1, device="npu", nproc=1, python=str(examined_python))[0]
    run = launch(request)
    values = run.ranks[0].values
    if values["modules"]["torch"]["ok"]:
        pytest.skip("this environment has CANN")
    assert values["autoload_trap"] is True
    assert values["modules"]["torch without autoload"]["ok"] is True
    assert "libhccl.so" in values["modules"]["torch_npu"]["error"]
    assert "libhccl.so" in run.blocks
