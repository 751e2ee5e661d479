import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ascend_doctor.simulator import Tree
from tests.simulator.conftest import PROGRAMS, Forked, Run, torchrun

# Seconds until HCCL calls a collective hung, before haste.
SOON = {"HCCL_EXEC_TIMEOUT": "100"}
# torch_npu's queue of launches may lose the error of a call.
AT_ONCE = {"TASK_QUEUE_ENABLE": "0"}


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_collective_gives_the_right_values(forked: Forked, ranks: int) -> None:
    """Collectives x types x reductions x sizes, through torch_npu's own ProcessGroupHCCL."""
    right(forked("collectives.py", ranks=ranks, memory=4 << 30), ranks)


def test_every_collective_with_sanitizers(
    simulate: Run, examined_python: Path, sanitized: Tree
) -> None:
    launch = torchrun(2, PROGRAMS / "collectives.py")
    right(simulate(examined_python, *launch, memory=4 << 30, tree=sanitized), 2)


def right(done: subprocess.CompletedProcess[str], ranks: int) -> None:
    assert done.returncode == 0, done.stderr[-3000:]
    counts = dict(re.findall(r"^(\w+) (\d+)$", done.stdout, re.MULTILINE))
    assert {name: int(count) for name, count in counts.items()} == {
        "reductions": 198,
        "uneven_reductions": 36,
        "moves": 216,
        "uneven_moves": 9 * (2 * ranks + 1),
        "groups": 2,
        "objects_and_overlap": 4,
    }
    refused = next(line for line in done.stdout.splitlines() if line.startswith("refused"))
    assert refused.split()[1:] == [
        "all_reduce:float64",
        "reduce:float64",
        "reduce_scatter:float64",
        "reduce_scatter:uint8",
    ]


@pytest.mark.parametrize("ranks", [1, 3, 16])
def test_any_number_of_ranks(simulate: Run, ranks: int) -> None:
    done = simulate(sys.executable, PROGRAMS / "plain_hccl.py", ranks, devices=16)
    assert done.stdout == "ok\n", done.stderr[-3000:]


def test_collectives_with_sanitizers(simulate: Run, sanitized: Tree) -> None:
    done = simulate(sys.executable, PROGRAMS / "plain_hccl.py", 4, tree=sanitized)
    assert done.stdout == "ok\n", done.stderr[-3000:]


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("hccl-absent rank=1", ["rank 0 stopped", "EI0015", "Failed to connect agent[1]"]),
        ("hccl-hangs rank=1", ["rank 0 stopped", "EI0006", "Getting socket times out"]),
        ("hccl-hangs rank=1 step=2", ["rank 0 step 1 value 2", "EI0002", "from remote rank [1]"]),
        ("hccl-port rank=0", ["rank 0 stopped", "EJ0003", "Failed to bind the IP port"]),
        ("hccl-wrong rank=1 step=1", ["rank 0 step 1 value 2\n", "rank 1 step 0 value 2\n"]),
        ("hccl-slow rank=1 seconds=0.1", ["rank 0 step 3 value 2"]),
    ],
)
def test_faults_end_in_the_errors_of_hccl(forked: Forked, fault: str, texts: list[str]) -> None:
    done = forked("steps.py", ranks=2, faults=(fault,), haste=20, env={**SOON, **AT_ONCE})
    # Whichever is first: the error at the wait, or torch_npu's watchdog.
    output = done.stdout + done.stderr
    assert [text for text in texts if text not in output] == [], output
    if fault.startswith("hccl-wrong"):
        assert "rank 1 step 1 value 2\n" not in done.stdout


def test_a_wait_that_no_watchdog_ends_gives_its_error_code(forked: Forked) -> None:
    env = {"TORCH_HCCL_ASYNC_ERROR_HANDLING": "0", **SOON}
    done = forked("steps.py", ranks=2, faults=("hccl-hangs rank=1 step=2",), haste=20, env=env)
    assert "rank 0 stopped" in done.stdout
    assert "error code is 507048" in done.stdout


def test_the_watchdog_tells_why_it_ends_a_rank(forked: Forked) -> None:
    faults = ("hccl-hangs rank=1 step=2",)
    env = {"LINGER": "1", **SOON}
    done = forked("steps.py", ranks=2, faults=faults, haste=20, env=env)
    _, separator, reason = done.stderr.rpartition("HCCL watchdog thread terminated with exception:")
    assert separator, done.stderr
    assert reason.lstrip().startswith("EI0002: ")
    assert "exitcode  : -6" in done.stderr


def test_a_rank_that_dies_ends_the_job(forked: Forked) -> None:
    done = forked("steps.py", ranks=2, faults=("hccl-dies rank=1 step=2",), haste=20)
    assert done.returncode != 0
    assert "exitcode  : -9" in done.stderr


def test_gathering_objects_can_hang_alone(forked: Forked) -> None:
    fault = "hccl-hangs rank=1 on=AllGather:uint8"
    done = forked("steps.py", ranks=2, faults=(fault,), haste=20, env=SOON)
    assert "rank 0 step 3 value 2" in done.stdout
    assert "objects" not in done.stdout
    # Whichever is first: the error at the wait, or torch_npu's watchdog.
    assert "rank 0 stopped" in done.stdout or "exitcode  : -6" in done.stderr


def test_two_ranks_on_one_device_are_refused(forked: Forked) -> None:
    done = forked("steps.py", ranks=2, env={"ONE_DEVICE": "3"})
    assert "EJ0001" in done.stdout
    assert "Ranks 0 and 1 use device 3." in done.stdout


def test_more_ranks_than_devices_are_refused(forked: Forked) -> None:
    done = forked("steps.py", ranks=2, env={"ASCEND_RT_VISIBLE_DEVICES": "0"})
    assert "error code is 107001" in done.stderr


def test_a_connect_timeout_out_of_range_is_refused(forked: Forked) -> None:
    done = forked("steps.py", ranks=2, env={"HCCL_CONNECT_TIMEOUT": "60", **AT_ONCE})
    assert (
        "Value 60 for environment variable HCCL_CONNECT_TIMEOUT is invalid. "
        "Expected value : range[120, 7200]."
    ) in done.stdout


def test_nothing_is_left_of_killed_ranks(built: Tree, examined_python: Path) -> None:
    """All ranks are killed in the middle of a job that hangs: no segment, no process stays."""
    before = set(os.listdir("/dev/shm"))
    env = built.environment(
        os.environ, soc="Ascend910B3", devices=8, memory_bytes=1 << 30,
        faults=("hccl-hangs rank=1 step=2",),
    )  # fmt: skip
    launcher = subprocess.Popen(
        [examined_python, *map(str, torchrun(2, PROGRAMS / "steps.py"))],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    everybody: list[psutil.Process] = []
    try:
        assert launcher.stdout is not None
        for line in launcher.stdout:
            if line.startswith(b"rank 0 step 1"):
                break
        everybody = psutil.Process(launcher.pid).children(recursive=True)
        assert len(everybody) >= 2
    finally:
        launcher.kill()
        for process in everybody:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        launcher.communicate()
    psutil.wait_procs(everybody, timeout=10)
    assert not any(process.is_running() for process in everybody)
    assert set(os.listdir("/dev/shm")) <= before
