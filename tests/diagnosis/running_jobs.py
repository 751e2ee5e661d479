"""Jobs that hang on simulated NPUs, started by torchrun alone, asked of by `ascend-doctor hang`.

`python -m tests.diagnosis.running_jobs FOLDER` runs every case and says whether rank and source
line are right. What is right is known by construction: the comments "hangs: KIND" of
`programs/hanging.py`. Half of the cases are armed: their environment lets a rank be asked for its
flight recorder. Of healthy and slow jobs the right word is that they go on, or that the slow rank
still works.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from tests.diagnosis.stalls import simulate
from tests.programs import free_ports, run_program

PROGRAM = Path(__file__).with_name("programs") / "hanging.py"
DOCTOR = Path(sys.executable).with_name("ascend-doctor")
# What only the recorders can tell: every rank waits in a collective.
RECORDED = ("barrier", "gather", "receive")
HANGS = (
    "pipe", "fifo", "server", "program", "filelock", "threadlock", "queue", "join", "event",
    "poll", "busy", "regex", "stop", "loader", "pause", "store", "pool", "asyncio", "sleep",
)  # fmt: skip
MOVING = ("healthy", "slow")
START_SECONDS = 120
QUIET_SECONDS = 4


@dataclass(frozen=True, kw_only=True)
class Case:
    kind: str
    guilty: int
    world: int
    armed: bool

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.guilty}-of-{self.world}{'-armed' * self.armed}"

    @property
    def line(self) -> str:
        rows = PROGRAM.read_text("utf-8").splitlines()
        number = next(n for n, row in enumerate(rows, 1) if row.endswith(f"# hangs: {self.kind}"))
        return f"{PROGRAM}:{number} in "


def draw(seed: int, count: int = 40) -> list[Case]:
    """Every kind at least once; repeats with another size."""
    chance = random.Random(seed)
    kinds = [*HANGS, *RECORDED, *MOVING]
    kinds += chance.choices(kinds, k=max(count - len(kinds), 0))
    cases = []
    for kind in kinds[:count]:
        world = chance.choice((4, 4, 4, 6, 8))
        armed = kind in RECORDED or chance.random() < 0.5
        cases.append(Case(kind=kind, guilty=chance.randrange(world), world=world, armed=armed))
    return cases


def ask(case: Case, folder: Path, python: Path, env: Mapping[str, str]) -> dict[str, object]:
    """Start the job, wait until it hangs, and ask the doctor."""
    path = folder / case.name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    armed = {
        "TORCH_HCCL_TRACE_BUFFER_SIZE": "512",
        "TORCH_HCCL_ENABLE_MONITORING": "1",
        "TORCH_HCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_HCCL_DEBUG_INFO_PIPE_FILE": f"{path}/pipe_",
        "TORCH_HCCL_DEBUG_INFO_TEMP_FILE": f"{path}/trace_",
    }
    (port,) = free_ports()
    argv = [
        str(python), "-m", "torch.distributed.run", "--master-addr=127.0.0.1",
        f"--master-port={port}", f"--nproc_per_node={case.world}", str(PROGRAM), case.kind,
        str(case.guilty), str(path),
    ]  # fmt: skip
    with (path / "output").open("wb") as log:
        job = subprocess.Popen(
            argv, stdout=log, stderr=log, start_new_session=True,
            env={**env, **(armed if case.armed else {})},
        )  # fmt: skip
    try:
        end = time.monotonic() + START_SECONDS
        while not (path / "reached").exists() and time.monotonic() < end:
            time.sleep(0.5)
        time.sleep(QUIET_SECONDS)
        done = run_program(
            [str(DOCTOR), "hang", "--pid", str(job.pid), "--json", "--no-redact"], check=False
        )
        (path / "answer").write_text(done.stdout + done.stderr)
        alive = job.poll() is None
    finally:
        for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
            if str(path).encode() in _command_line(pid):
                os.kill(pid, signal.SIGKILL)
        job.wait()
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return {"code": done.returncode, "stall": answer.get("stall") or {}, "alive": alive}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def judge(case: Case, answer: Mapping[str, object]) -> str:
    """``right``, ``rank`` (not the line), ``could not tell``, ``wrong`` or ``harmed``."""
    if not answer["alive"]:
        return "harmed"
    stall = answer["stall"]
    assert isinstance(stall, dict)
    absent = stall.get("absent") or []
    if case.kind in MOVING:
        works = [rank["rank"] for rank in absent if rank["kind"] == "working"]
        accused = [rank for rank in absent if rank["kind"] != "working"]
        fine = answer["code"] == 0 or (not accused and works in ([], [case.guilty]))
        return "right" if fine else "wrong"
    if not absent:
        return "could not tell"
    if [rank["rank"] for rank in absent] != [case.guilty]:
        return "wrong"
    lines = [absent[0].get("line", ""), absent[0].get("call", "")]
    return "right" if any(line.startswith(case.line) for line in lines) else "rank"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seed", default=1)
@click.option("--count", default=40)
@click.option("--first", default=0, help="Only from this one on.")
@click.option("--only", multiple=True, help="Kinds.")
@click.option("--python", type=click.Path(path_type=Path), default=Path(sys.executable))
def main(
    folder: Path, seed: int, count: int, first: int, only: tuple[str, ...], python: Path
) -> None:
    env = simulate(python)
    marks: Counter[str] = Counter()
    for case in draw(seed, count)[first:]:
        if only and case.kind not in only:
            continue
        mark = judge(case, ask(case, folder, python, env))
        marks[mark] += 1
        click.echo(f"{mark:<15} {case.name}")
    click.echo(", ".join(f"{number} {mark}" for mark, number in marks.most_common()))


if __name__ == "__main__":
    main()
