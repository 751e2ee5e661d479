"""Hangs of four ranks on simulated NPUs, made at random from a seed.

What is simulated is CANN and the NPUs; torch, torch_npu, its watchdog and torchrun are the real
ones.
"""

import contextlib
import random
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.diagnosis.logs import of_paths

PROGRAM = Path(__file__).with_name("programs") / "hang.py"
RANKS = 4
# They mostly wait.
AT_ONCE = 3
KINDS = ("sleep", "stop", "order", "group", "peer", "loader")
# The pipeline's last rank sends to none.
_SENDERS = RANKS - 1
# On a busy machine a rank may lose patience before the guilty one hangs.
_TRIES = 3
# Seconds in which torchrun ends its ranks, even a stopped one.
_ENDING = 60

Verdict = Literal["right", "could not tell", "wrong"]


@dataclass(frozen=True, kw_only=True)
class Hang:
    kind: str
    guilty: int
    step: int
    layout: Literal["pipeline", "data"]
    # Whether torch_npu's watchdog should report who is out of step.
    report: bool

    @property
    def name(self) -> str:
        report = "-report" if self.report else ""
        return f"{self.kind}-{self.guilty}-{self.step}-{self.layout}{report}"


def draw_hangs(seed: int, count: int) -> list[Hang]:
    """All different, kinds about equal, half with the watchdog's report."""
    chance = random.Random(seed)
    hangs: list[Hang] = []
    while len(hangs) < count:
        kind = KINDS[len(hangs) % len(KINDS)]
        alone = kind != "peer" and chance.random() < 0.5
        hang = Hang(
            kind=kind,
            guilty=chance.randrange(_SENDERS if kind == "peer" else RANKS),
            step=chance.randrange(1, 5),
            layout="data" if alone else "pipeline",
            report=chance.random() < 0.5,
        )
        if hang not in hangs:
            hangs.append(hang)
    return hangs


def make_hang(
    hang: Hang, folder: Path, python: Path, environment: Mapping[str, str]
) -> Path | None:
    """The folder with the logs; None where it never hung as intended."""
    path, reached = (folder / part / hang.name for part in ("unfinished", "reached"))
    for _ in range(_TRIES):
        for tree in (path, reached):
            shutil.rmtree(tree, ignore_errors=True)
            tree.mkdir(parents=True)
        ended = _run(hang, path, python, {**environment, "HANG_REACHED": str(reached)})
        if ended and len(list(reached.iterdir())) == RANKS:
            return path.rename(folder / hang.name)
    return None


def _run(hang: Hang, path: Path, python: Path, environment: Mapping[str, str]) -> bool:
    """Whether torchrun ended by itself."""
    argv = [
        str(python), "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}",
        "--redirects=3", f"--log-dir={path}",
        str(PROGRAM), hang.kind, str(hang.guilty), str(hang.step), hang.layout,
    ]  # fmt: skip
    env = {**environment, "TORCH_HCCL_DESYNC_DEBUG": str(int(hang.report))}
    with (
        (path / "torchrun.log").open("wb") as log,
        subprocess.Popen(argv, stdout=log, stderr=log, env=env) as launcher,
    ):
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(300)
            return True
        # Killed at once it would leave its ranks behind.
        launcher.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(_ENDING)
        launcher.kill()
    return False


def judge_hang(hang: Hang, path: Path) -> Verdict:
    diagnosis = of_paths(path)
    if diagnosis.guilty is None or not diagnosis.guilty.ranks:
        return "could not tell"
    return "right" if diagnosis.guilty.ranks == (hang.guilty,) else "wrong"
