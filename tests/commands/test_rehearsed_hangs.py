"""Ranks that hang or fail in ``rehearse -- COMMAND``: the closing lines name the right one.

Each row was labelled before its first run.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.knobs import draw

PROGRAM = Path(__file__).parents[1] / "diagnosis" / "programs" / "rehearsed_hang.py"
DOCTOR = str(Path(sys.executable).with_name("ascend-doctor"))
STALL = 6
PATIENCE = 150
_ACCUSED = re.compile(r"\bguilty +rank (\d+):")
_OPERATION = re.compile(r"\bwaits? in (\S+) number \d+ of")


class Label(NamedTuple):
    """Who is named, and in what the others wait; None and "" in a healthy job."""

    rank: int | None
    operation: str = "allreduce"
    # The command ends by itself; others are interrupted after the report of the stall.
    ends: bool = False
    limit: str = "1836"  # HCCL_EXEC_TIMEOUT
    stall: int = STALL
    # Seconds in the hanging round until the interrupt, before a stall is reported.
    interrupted: int | None = None


LABELS = {
    "asleep": Label(2),
    "asleep-first": Label(1, operation=""),
    "dead": Label(3, ends=True),
    "stopped": Label(0),
    "exception": Label(2, ends=True),
    "fewer": Label(3),
    "other-collective": Label(1, ends=True),
    "other-order": Label(2, ends=True),
    "other-size": Label(0, ends=True),
    "barrier": Label(1, operation="barrier|allreduce", ends=True),
    "subset": Label(3),
    # The send may be extra or a receive missing: neither is accused.
    "send": Label(None, operation="send"),
    "interleaved": Label(1),
    "slow": Label(None, operation="", ends=True),
    "timeout": Label(2, ends=True, limit="5", stall=60),
    "interrupted": Label(2, stall=60, interrupted=14),
    "lock": Label(2),
    "queue": Label(1),
    "busy": Label(0),
    "writer": Label(3),
    "socket": Label(1),
    "child": Label(2),
    "asleep-second": Label(1, operation="broadcast"),
    "crash": Label(1, ends=True),
    "abort": Label(0, ends=True),
    "exit": Label(2, ends=True),
    "memory": Label(3, ends=True),
    "other-root": Label(1, ends=True),
    "other-type": Label(3, ends=True),
    "reduce": Label(2, ends=True),
    **{kind: Label(0) for kind in ("poll", "asyncio")},
    **{kind: Label(1) for kind in ("filelock", "regex", "store")},
    **{kind: Label(2) for kind in ("join", "loader", "pool")},
    **{kind: Label(3) for kind in ("pipe", "event", "pause")},
}

# Each spends a minute in imports.
FEW = ("asleep", "dead", "other-size")


def rehearse(kind: str, label: Label, python: Path, folder: Path, *more: str) -> tuple[int, str]:
    """Exit code and stderr of a rehearsal, interrupted where it hangs."""
    launch = f"-m torch.distributed.run --standalone --nproc-per-node 4 {PROGRAM} {kind}"
    options = f"--python {python} --npus 4 --stall {label.stall}"
    process = subprocess.Popen(
        [DOCTOR, "rehearse", *options.split(), *more, "--", "python", *launch.split()],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HCCL_EXEC_TIMEOUT": label.limit},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lines.extend, args=(process.stderr,))
    reader.start()
    awaited = "round 3" if label.interrupted else "no progress"
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.2)
        if not label.ends and any(awaited in line for line in lines):
            time.sleep(label.interrupted or 1)
            break
    # SIGINT is ignored below a shell that put the tests into the background.
    process.send_signal(signal.SIGTERM)
    code = process.wait(400)
    reader.join()
    process.stderr.close()
    return code, "".join(lines)


def read_answer(text: str) -> tuple[set[int], set[str]]:
    return {int(rank) for rank in _ACCUSED.findall(text)}, set(_OPERATION.findall(text))


@pytest.mark.slow
@pytest.mark.parametrize("kind", draw(LABELS, FEW, 3))
def test_who_did_not_enter_is_named(kind: str, simulated_python: Path, tmp_path: Path) -> None:
    label = LABELS[kind]
    code, text = rehearse(kind, label, simulated_python, tmp_path)
    accused, operations = read_answer(text)
    assert accused == ({label.rank} if label.rank is not None else set()), text
    assert not label.operation or any(
        re.fullmatch(label.operation, operation) for operation in operations
    ), text
    assert (code == 0) is (kind == "slow")


@pytest.mark.slow
def test_a_rank_at_true_size_is_named_with_its_line(simulated_python: Path, tmp_path: Path) -> None:
    code, text = rehearse("asleep", LABELS["asleep"], simulated_python, tmp_path, "--true-size")
    assert read_answer(text)[0] == {2}, text
    assert re.search(rf"stands at \S*{PROGRAM.name}:\d+ in ", text), text
    assert code
