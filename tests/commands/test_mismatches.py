"""Ranks of a pipeline stage that disagree with others in large worlds: both lines are named.

Labels come with the launches, which are drawn by a seed.
"""

import json
import random
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from ascend_doctor.diagnosis.called_lines import find_mismatch, parse_called_lines
from ascend_doctor.render.stall import mismatch_rows
from tests.knobs import draw, seed

PROGRAM = Path(__file__).parent / "programs" / "stages.py"
DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
# The call of the others; the erring rank's is marked with the kind, or is the second mark.
CALLS = {
    "order-gradient-first": "take-hidden", "order-gradient-late": "take-gradient",
    "order-flags-first": "norm", "order-loss-first": "norm", "order-broadcast": "norm",
    "size-hidden": "take-hidden", "size-gradient": "take-gradient", "size-tied": "tied",
    "size-norm": "norm", "dtype-hidden": "take-hidden", "dtype-tied": "tied",
    "dtype-norm": "norm", "group-tied": "tied", "group-norm": "norm", "branch-more": "attention",
    "branch-fewer": "attention feed", "branch-size": "attention", "branch-type": "feed",
    "branch-norm": "norm flags",
}  # fmt: skip
FEW = {"order-gradient-first", "dtype-hidden", "branch-more"}


class Drawn(NamedTuple):
    kind: str
    world: int
    tensor: int
    stages: int
    stage: int

    def lines(self) -> list[str]:
        """Of those who err, and of the others."""
        first, second = (*CALLS[self.kind].split(), self.kind)[:2]
        text = PROGRAM.read_text("utf-8").splitlines()
        at = {
            mark: n for n, line in enumerate(text, 1) for mark in re.findall(r'^ +"(.+?)":', line)
        }
        return [f"stages.py:{at[second]} ", f"stages.py:{at[first]} "]

    def is_erring(self, rank: int) -> bool:
        stage, offset = divmod(rank, self.world // self.stages)
        return stage == self.stage and (offset == 1 or not self.kind.startswith("branch"))


def draw_rows() -> list[Drawn]:
    drawn = random.Random(seed(20261129))
    rows = []
    for kind in CALLS:
        stages = drawn.choice([2, 4] if kind.startswith("branch") else [2, 4, 8])
        first = int(kind in {"order-gradient-late", "size-gradient"})
        last = stages - 1 - int(kind in {"order-gradient-first", "size-hidden", "dtype-hidden"})
        tied = kind.endswith("tied")
        stage = drawn.choice([0, stages - 1]) if tied else drawn.randint(first, last)
        world, tensor = drawn.choice([64, 128, 256, 512, 1024]), drawn.choice([2, 4, 8])
        rows.append(Drawn(kind, world, tensor, stages, stage))
    return rows


ROWS = draw_rows()


@pytest.mark.slow
@pytest.mark.parametrize("drawn", draw(ROWS, [row for row in ROWS if row.kind in FEW], 2), ids=str)
def test_both_lines_are_named(drawn: Drawn, examined_python: Path, tmp_path: Path) -> None:
    options = f"--python {examined_python} --true-size --real 1 --world {drawn.world} --stall 8"
    if drawn.kind.startswith("branch"):
        options = options.replace("--real 1", "--real 2")
    program = [*map(str, (PROGRAM, drawn.kind, drawn.stage, drawn.tensor, drawn.stages))]
    layout = f"--tensor-model-parallel-size {drawn.tensor}"
    layout += f" --pipeline-model-parallel-size {drawn.stages}"
    launch = ["python", "-m", "torch.distributed.run", "--nproc-per-node", "8", *program]
    with subprocess.Popen(
        [DOCTOR, "rehearse", *options.split(), "--", *launch, *layout.split()],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        end = threading.Timer(300, process.terminate)
        end.start()
        lines = []
        for line in process.stderr or ():
            lines.append(line)
            if "to read what was gathered again" in line:
                process.terminate()
        assert process.wait()
        end.cancel()
    ours, theirs = drawn.lines()
    assert any(ours in line and drawn.is_erring(_first_rank(line)) for line in lines), lines
    assert any(theirs in line and not drawn.is_erring(_first_rank(line)) for line in lines), lines


def _first_rank(line: str) -> int:
    match = re.search(r"ranks? (\d+)", line)
    return int(match[1]) if match else -1


def test_the_first_calls_that_differ_are_given_with_their_callers() -> None:
    """A wrapper more, so a stack of as many frames lacks the outermost."""

    def lines_of(rank: int) -> bytes:
        outer = [["/job/train.py", 20 + rank, "step"], ["/job/train.py", 90, "main"]]
        wrapper = ["/lib/patch.py", 22, "wrapper"]
        double = [["/lib/double.py", 85, "wrapper"], wrapper, outer[0], outer[1]]
        stack = [[wrapper, *outer, ["/job/train.py", 99, "<module>"]] if rank else double]
        calls = (
            ["3", "allreduce", "", "8 f", None, 8.5, 0],
            ["3", "allreduce", "", f"{9 + rank} f", None, 9.5, 0],
        )
        rows = [["3", "tensor", [0, 1]], stack, *calls]
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows) + b'["3", "cut'

    mismatch = find_mismatch({n: parse_called_lines(lines_of(n), n, "x") for n in (0, 1)})
    assert mismatch is not None
    _, *rows = (text for _, text in mismatch_rows(mismatch))
    for rank, (row, file) in enumerate(zip(rows[:2], ["double.py:85", "patch.py:22"], strict=True)):
        where = f"/lib/{file} in wrapper, for /job/train.py:{20 + rank} in step"
        assert row == f"rank {rank}: allreduce with {9 + rank} f, called at {where}"
