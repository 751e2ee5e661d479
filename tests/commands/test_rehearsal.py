"""A command of the user's own on simulated NPUs: ``rehearse -- COMMAND``."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.programs import run_bytes, run_program

DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
HEADER = "ascend-doctor: simulated: 2 Ascend910B3 with 4 GiB each; nothing here is about hardware\n"
TRAIN = """
import os, sys, torch, torch_npu, torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
model = torch.nn.Linear(64, 64).npu()
wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.AdamW(wrapped.parameters())
for step in range(3):
    loss = wrapped(torch.ones(8, 64, device="npu")).square().mean()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print({"loss": round(loss.item(), 4), "epoch": step}, flush=True)
if rank == 1 and "die" in sys.argv:
    os.kill(os.getpid(), 9)
dist.barrier()
dist.destroy_process_group()
"""
Rehearse = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One cache and one folder for temporary files for all of these."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "tmp").mkdir()
    return {**os.environ, "XDG_CACHE_HOME": str(folder), "TMPDIR": str(folder / "tmp")}


@pytest.fixture
def command(simulated_python: Path) -> list[str]:
    return [DOCTOR, "rehearse", "--python", str(simulated_python), "--npus", "2"]


@pytest.fixture
def rehearse(environment: dict[str, str], command: list[str], tmp_path: Path) -> Iterator[Rehearse]:
    def run(*launch: str, typed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return run_bytes(
            [*command, "--", *launch],
            check=False,
            timeout=600,
            cwd=tmp_path,
            env=environment,
            input=typed,
        )

    yield run
    assert list_rest(environment) == []


def list_rest(environment: dict[str, str]) -> list[str]:
    return sorted(os.listdir(environment["TMPDIR"]))


def test_what_a_command_prints_is_its_own(rehearse: Rehearse) -> None:
    script = r"cat; printf '\0\377\033[31m\r\nno end'; printf 'to err' >&2"
    done = rehearse("sh", "-c", script, typed=b"typed\n")
    assert done.stdout == b"typed\n\0\377\033[31m\r\nno end"
    assert done.stderr == HEADER.encode() + b"to err"
    assert done.returncode == 0


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_its_exit_code_is_ours(rehearse: Rehearse, script: str, code: int) -> None:
    done = rehearse("sh", "-c", script)
    assert done.returncode == code
    assert f"it ended with {code}" in done.stderr.decode()
    assert "nothing in its output says why" in done.stderr.decode()  # it has none


def test_a_script_finds_the_machine(rehearse: Rehearse, simulated_python: Path) -> None:
    script = "npu-smi info -l; command -v python; echo $ASCEND_DOCTOR_SIMULATED; npu-smi set -t x"
    done = rehearse("sh", "-c", script)
    printed = done.stdout.decode()
    assert "Total Count                              : 2" in printed
    assert f"\n{simulated_python.parent}/python\n1\n" in printed
    assert b"npu-smi of a simulated machine: no answer to: set -t x" in done.stderr
    assert done.returncode == 1


def test_what_does_not_exist_is_not_started(rehearse: Rehearse, tmp_path: Path) -> None:
    done = rehearse("no-such-program")
    assert done.returncode == 2
    assert done.stderr == b"ascend-doctor: no-such-program: no such program\n"
    assert not list(tmp_path.glob("*.log"))


def test_options_of_the_check_are_refused(command: list[str]) -> None:
    for arguments in (("-l", "1", "--", "true"), ("--log", "x.log")):
        done = run_bytes([*command, *arguments], check=False)
        assert done.returncode == 2, done
        assert arguments[0].strip("-")[0] in done.stderr.decode()


def test_ranks_train_and_are_counted(rehearse: Rehearse, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
    done = rehearse("python", *launch)
    seen = done.stderr.decode()
    assert done.returncode == 0, seen
    assert done.stdout.count(b"'loss'") == 3
    assert "simulated: 3 steps, loss " in seen
    assert "of 4 GiB, on 2 of 2 NPUs" in seen
    assert "AllReduce of 2 ranks" in seen


def test_a_killed_rank_is_diagnosed(rehearse: Rehearse, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
    done = rehearse("python", *launch, "die")
    assert done.returncode == 1
    assert "it ended with 1; what its output" in done.stderr.decode()
    assert "rank 1" in done.stderr.decode().lower()


def test_ranks_that_fail_before_a_pipe_are_diagnosed(rehearse: Rehearse, tmp_path: Path) -> None:
    """As in scripts that end in `| tee logs/train.log`, and so with 0."""
    (tmp_path / "train.py").write_text("raise ValueError('no such layout')")
    launch = "python -m torch.distributed.run --standalone --nproc-per-node 2 train.py 2>&1 | cat"
    done = rehearse("sh", "-c", launch)
    assert done.returncode == 0
    assert "it ended with 0, though its ranks failed; what its output" in done.stderr.decode()


def test_a_shell_has_simulated_npus(
    examined_python: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    count = "import torch, torch_npu; print(torch.npu.device_count())"
    script = f"""
        export PATH={examined_python.parent}:$PATH VIRTUAL_ENV={examined_python.parent.parent}
        before=$(env | sort)
        source <({DOCTOR} env --simulated --shell bash)
        python -c '{count}'; echo $ASCEND_DOCTOR_SIMULATED
        source <({DOCTOR} env --undo --shell bash)
        [ "$(env | sort)" = "$before" ] && echo undone
    """
    done = run_program(
        ["bash", "-c", script],
        check=False,
        # The machine of a shell stays until that ends.
        env={**environment, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout.splitlines() == ["8", "1", "undone"], done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_it(
    command: list[str], environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """A signal reaches the command; where we are killed, all ends that it had started."""
    script = (
        "trap 'echo told; exit 9' TERM INT; setsid sleep 600 & echo $!; while :; do sleep .1; done"
    )
    with subprocess.Popen(
        [*command, "--", "bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A shell's background job and its children ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        sleeper = int(process.stdout.readline())
        assert psutil.pid_exists(sleeper)
        process.send_signal(number)
        try:
            code = process.wait(60)
        finally:
            process.kill()
        rest = process.stdout.read()
    assert (code, rest) == ((-9, "") if number == signal.SIGKILL else (9, "told\n"))
    limit = time.monotonic() + 20
    while (psutil.pid_exists(sleeper) or list_rest(environment)) and time.monotonic() < limit:
        time.sleep(0.1)
    assert not psutil.pid_exists(sleeper)
    assert list_rest(environment) == []


def test_a_signal_that_comes_before_the_command_starts_reaches_it() -> None:
    program = (
        "import os, signal, subprocess, sys\n"
        "from ascend_doctor.probing.keeper import signals_passed_on\n"
        "with signals_passed_on() as pass_on_to:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    process = subprocess.Popen(['sleep', '60'])\n"
        "    pass_on_to(process)\n"
        "    print(process.wait(30))\n"
    )
    done = run_program([sys.executable, "-c", program], check=False)
    assert (done.returncode, done.stdout) == (0, "-15\n"), done.stderr


def test_what_hides_does_not_outlive_us(
    command: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    """A daemon outside its session and a program that ignores signals end with us."""
    daemon = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "    print(os.getpid(), flush=True)\n"
        "    for stream in range(3): os.close(stream)\n"
        "    time.sleep(600)\n"
    )
    script = f"trap '' TERM HUP INT; {sys.executable} -c \"$0\"; echo $$; while :; do sleep 1; done"
    with subprocess.Popen(
        [*command, "--", "bash", "-c", script, daemon],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        started = [int(process.stdout.readline()) for _ in range(2)]
        assert all(map(psutil.pid_exists, started))
        process.kill()
    limit = time.monotonic() + 30
    while any(map(psutil.pid_exists, started)) or list_rest(environment):
        assert time.monotonic() < limit
        time.sleep(0.1)
