"""Hangs of four ranks on simulated NPUs, made at random from a seed.

`python -m tests.diagnosis.hangs FOLDER` runs them and says what is made of
their logs. What is simulated is CANN and the NPUs; torch, torch_npu, its watchdog and torchrun are
the real ones.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from ascend_doctor.simulator import build
from tests.diagnosis.logs import of_paths

PROGRAM = Path(__file__).with_name("programs") / "hang.py"
RANKS = 4
# They wait more than they compute.
AT_ONCE = 3
KINDS = ("sleep", "stop", "order", "group", "peer", "loader")
# The last rank of the pipeline has nobody to send to.
_SENDERS = RANKS - 1

Verdict = Literal["right", "could not tell", "wrong"]


@dataclass(frozen=True, kw_only=True)
class Hang:
    kind: str
    guilty: int
    step: int
    layout: Literal["pipeline", "data"]
    # Whether torch_npu's watchdog was asked to report who is out of step.
    report: bool

    @property
    def name(self) -> str:
        report = "-report" if self.report else ""
        return f"{self.kind}-{self.guilty}-{self.step}-{self.layout}{report}"


def drawn(seed: int, count: int) -> list[Hang]:
    """Different ones, every kind about equally often, half of them with the watchdog's report."""
    chance = random.Random(seed)
    found: list[Hang] = []
    while len(found) < count:
        kind = KINDS[len(found) % len(KINDS)]
        alone = kind != "peer" and chance.random() < 0.5
        one = Hang(
            kind=kind,
            guilty=chance.randrange(_SENDERS if kind == "peer" else RANKS),
            step=chance.randrange(1, 5),
            layout="data" if alone else "pipeline",
            report=chance.random() < 0.5,
        )
        if one not in found:
            found.append(one)
    return found


def made(hang: Hang, folder: Path, python: Path, environment: Mapping[str, str]) -> Path:
    """Run it to its end; gives the folder with torchrun's own output and the logs of the ranks."""
    place = folder / hang.name
    place.mkdir(parents=True)
    argv = [
        str(python), "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}",
        "--redirects=3", f"--log-dir={place}",
        str(PROGRAM), hang.kind, str(hang.guilty), str(hang.step), hang.layout,
    ]  # fmt: skip
    env = {**environment, "TORCH_HCCL_DESYNC_DEBUG": str(int(hang.report))}
    with (place / "torchrun.log").open("wb") as log:
        subprocess.run(argv, check=False, stdout=log, stderr=log, timeout=300, env=env)
    return place


def judged(hang: Hang, place: Path) -> Verdict:
    found = of_paths(place)
    if found.guilty is None or not found.guilty.ranks:
        return "could not tell"
    return "right" if found.guilty.ranks == (hang.guilty,) else "wrong"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seed", default=1)
@click.option("--count", default=40)
@click.option("--first", default=0, help="Only from this one on.")
@click.option("--last", default=1 << 20, help="Only up to this one.")
@click.option("--armed", is_flag=True, help="All with the report, as `ascend-doctor run` starts.")
def main(folder: Path, *, seed: int, count: int, first: int, last: int, armed: bool) -> None:
    python = Path(os.environ.get("ASCEND_DOCTOR_TEST_PYTHON", sys.executable))
    tree = build(python, cache=folder / "simulator")
    environment = tree.environment(
        {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        soc="Ascend910B3",
        devices=RANKS,
        memory_bytes=1 << 30,
    )
    chosen = drawn(seed, count)[first:last]
    if armed:
        chosen = list(dict.fromkeys(replace(one, report=True) for one in chosen))

    def logs(hang: Hang) -> Path:
        place = folder / hang.name
        return place if place.exists() else made(hang, folder, python, environment)

    # Judged here and not in the pool: an automaton is of one thread.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for hang, place in zip(chosen, pool.map(logs, chosen), strict=True):
            click.echo(f"{judged(hang, place):15} {hang.name}")


if __name__ == "__main__":
    main()
