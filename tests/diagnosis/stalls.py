"""Stalls of four ranks on simulated NPUs, made at random from a seed, under `ascend-doctor run`.

`python -m tests.diagnosis.stalls FOLDER` runs them and says whether the rank, the group and the
source line are right. What is right is known by construction: the comments "stalls: KIND" of
`programs/stall.py`. What is simulated is CANN and the NPUs. `--py-spy DIR` has half of them with
py-spy from there on PATH.
"""

from __future__ import annotations

import contextlib
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ascend_doctor.diagnosis.stall_files import read_stall_files
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.simulator import build

PROGRAM = Path(__file__).with_name("programs") / "stall.py"
DOCTOR = Path(sys.executable).with_name("ascend-doctor")
RANKS = 4
AT_ONCE = 3
QUIET = 12  # seconds without progress
PATIENCE = 150
KINDS = ("sleep", "stop", "lock", "order", "group", "peer", "loader", "checkpoint")
GROUPS = {"peer": "default_pg", "checkpoint": "default_pg"}

Mark = Literal["right", "could not tell", "wrong", "not known"]


@dataclass(frozen=True, kw_only=True)
class Case:
    kind: str
    guilty: int
    step: int
    layout: Literal["pipeline", "data"]
    # Whether py-spy is on PATH; without it nobody can read the stack of a stopped process.
    spy: bool

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.guilty}-{self.step}-{self.layout}" + "-spy" * self.spy

    @property
    def line(self) -> str:
        """Where the guilty one stands, or what it calls wrongly."""
        rows = PROGRAM.read_text("utf-8").splitlines()
        return next(
            f"{PROGRAM}:{number} in "
            for number, row in enumerate(rows, 1)
            if row.endswith(f"# stalls: {self.kind}")
        )

    @property
    def group(self) -> str:
        """The group in which a rank waits for the guilty one."""
        return GROUPS.get(self.kind, "TENSOR_MODEL_PARALLEL_GROUP")


def draw(seed: int, count: int, *, spies: bool) -> list[Case]:
    """Different ones, every kind about equally often."""
    chance = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        kind = KINDS[len(cases) % len(KINDS)]
        case = Case(
            kind=kind,
            guilty=chance.randrange(RANKS - (kind == "peer")),
            step=chance.randrange(1, 6),
            layout="pipeline" if kind == "peer" or chance.random() < 0.5 else "data",
            spy=chance.random() < 0.5 and spies,
        )
        if case not in cases:
            cases.append(case)
    return cases


def simulate(python: Path, folder: Path) -> dict[str, str]:
    """The environment of a launch on simulated NPUs."""
    return build(python, cache=folder / "simulator").environment(
        {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        soc="Ascend910B3",
        devices=RANKS,
        memory_bytes=1 << 30,
    )


def make(case: Case, folder: Path, python: Path, env: Mapping[str, str]) -> tuple[Path, float]:
    """Run it until the verdict; gives the folder with what was gathered, and the seconds."""
    place = folder / case.name
    shutil.rmtree(place, ignore_errors=True)
    (place / "reached").mkdir(parents=True)
    argv = [
        str(DOCTOR), "run", "--anyway", "--only", "shared-memory", "--stall", str(QUIET),
        "--log", str(place / "run.log"), "--",
        str(python), "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}",
        str(PROGRAM), case.kind, str(case.guilty), str(case.step), case.layout,
    ]  # fmt: skip
    gathered, errors = place / "run-stall", place / "stderr"
    began, early = 0.0, 0
    with (
        errors.open("wb") as log,
        subprocess.Popen(
            argv, stdout=log, stderr=log, env={**env, "HANG_REACHED": str(place / "reached")}
        ) as launch,
    ):
        end = time.monotonic() + PATIENCE
        while launch.poll() is None and time.monotonic() < end:
            time.sleep(0.5)
            if not began and (place / "reached" / str(case.guilty)).exists():
                began, early = time.monotonic(), _reports(errors)
            if began and _reports(errors) > early:
                break
        seconds = time.monotonic() - began if began else 0.0
        if gathered.exists():  # else it never stalled
            shutil.copytree(gathered, place / "gathered")
        for path in gathered.glob("rank-*.json"):
            with contextlib.suppress(OSError):
                os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            launch.wait(60)
        launch.kill()
    return place / "gathered", seconds


def _reports(errors: Path) -> int:
    return errors.read_bytes().count(b"to read what was gathered")


def judge(case: Case, stall: Stall | None) -> dict[str, Mark]:
    """Rank, group and source line, each by itself."""
    if stall is None or not stall.absent:
        return {"rank": "could not tell", "group": "could not tell", "line": "could not tell"}
    accused = stall.absent[0]
    right = [rank.rank for rank in stall.absent] == [case.guilty]
    groups = {waits.group for waits in stall.waiting if case.guilty in waits.group_ranks}
    line = accused.call if case.kind in {"order", "group"} else accused.line
    at = "right" if line.startswith(case.line) else "wrong"
    if case.kind == "stop" and not case.spy:
        at = "not known"
    return {
        "rank": "right" if right else "wrong",
        "group": "right" if case.group in groups else "wrong",
        "line": at,
    }


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seed", default=1)
@click.option("--count", default=20)
@click.option("--first", default=0, help="Only from this one on.")
@click.option("--py-spy", "spies", type=click.Path(path_type=Path), help="Folder with py-spy.")
@click.option("--again", is_flag=True, help="Judge what was gathered before; run nothing.")
def main(
    folder: Path, *, seed: int, count: int, first: int, spies: Path | None, again: bool
) -> None:
    python = Path(os.environ.get("ASCEND_DOCTOR_TEST_PYTHON", sys.executable))
    env = simulate(python, folder)
    cases = draw(seed, count, spies=spies is not None)[first:]

    def run(case: Case) -> tuple[Path, float]:
        if again:
            return folder / case.name / "gathered", 0.0
        path = f"{spies}{os.pathsep}{env['PATH']}" if case.spy else env["PATH"]
        return make(case, folder, python, {**env, "PATH": path})

    counts = {part: Counter[str]() for part in ("rank", "group", "line")}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for case, (gathered, seconds) in zip(cases, pool.map(run, cases), strict=True):
            stall = read_stall_files([str(gathered)]).judge()
            marks = judge(case, stall)
            for part, mark in marks.items():
                counts[part][mark] += 1
            why = stall.undecided if stall else "nothing gathered"
            shown = ", ".join(f"{part} {mark}" for part, mark in marks.items())
            click.echo(f"{case.name:32} {seconds:5.0f} s  {shown}  {why}")
    for part, marks_of in counts.items():
        click.echo(f"{part}: " + ", ".join(f"{mark} {times}" for mark, times in marks_of.items()))


if __name__ == "__main__":
    main()
