"""What a rank's memory was at true size, and where: written for ascend-doctor when it ends.

ASCEND_SIMULATOR_TRUE_SIZE names the folder, a file a rank. Values of large tensors are not
computed, so nothing here rests on one.
"""

import atexit
import ctypes
import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch_npu
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from . import clock
from .plans import tensors_in

# Results below so many elements set no peak that is worth a look.
_WORTH_A_LOOK = 1 << 19
_MOST_LINES = 48
# Whatever ends a rank later, what was seen of so many steps is kept.
_STEPS_KEPT = 3
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_statistics = torch_npu._C._npu_memoryStats


class _Rank:
    def __init__(self) -> None:
        self.folder = ""
        # Of each optimizer: a job may have one for experts, and all step in one step of training.
        self.counts: Counter[int] = Counter()
        self.stepping = False
        self.peak = 0
        self.operator = ""
        self.lines: list[str] = []
        self.moments: dict[str, int] = {}
        self.assumptions: dict[str, None] = {}
        # At the ends of the last two steps.
        self.times: list[dict[str, Any]] = []

    @property
    def steps(self) -> int:
        return max(self.counts.values(), default=0)

    def moment(self) -> str:
        if self.stepping:
            return "first optimizer step" if self.steps == 0 else "later optimizer steps"
        return {0: "first step"}.get(self.steps, "later steps")


_rank = _Rank()


def record(folder: str) -> None:
    """Begin: peaks are looked for, and written to ``folder`` at the end."""
    _rank.folder = folder
    register_optimizer_step_pre_hook(_begin_step)
    register_optimizer_step_post_hook(_end_step)
    atexit.register(write)


def _begin_step(*_: Any) -> None:
    _note(_count_bytes())
    _rank.stepping = True


def _end_step(optimizer: Any, *_: Any) -> None:
    _note(_count_bytes())
    _rank.stepping = False
    before = _rank.steps
    _rank.counts[id(optimizer)] += 1
    if clock.is_running and _rank.steps > before:
        _rank.times = [*_rank.times[-1:], clock.read()]
    if _rank.steps <= _STEPS_KEPT:
        write()


def assume(text: str) -> None:
    """Note what was taken for granted, once."""
    _rank.assumptions.setdefault(text)


def look(operator: str, plan: Any) -> None:
    """Note a peak of this process's memory, with the operator and the Python lines that made it."""
    if all(sized.elements < _WORTH_A_LOOK for sized in tensors_in(plan)):
        return
    bytes_now = _count_bytes()
    _note(bytes_now)
    if bytes_now > _rank.peak:
        _rank.peak, _rank.operator = bytes_now, operator
        _rank.lines = _lines(sys._getframe(1))


def _note(bytes_now: int) -> None:
    moment = _rank.moment()
    if bytes_now > _rank.moments.get(moment, 0):
        _rank.moments[moment] = bytes_now


def _count_bytes() -> int:
    statistics = _statistics(torch.npu.current_device())
    return int(statistics["allocated_bytes"]["all"]["current"])


def _lines(frame: FrameType | None) -> list[str]:
    # Autograd computes gradients on a thread without lines; the main one waits for them.
    return _lines_of(frame) or _lines_of(sys._current_frames()[threading.main_thread().ident or 0])


def _lines_of(frame: FrameType | None) -> list[str]:
    lines: list[str] = []
    while frame is not None and len(lines) < _MOST_LINES:
        name = frame.f_code.co_filename
        if not name.startswith(_OWN):
            lines.append(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return lines


def job_lines() -> list[str]:
    """The Python lines that called what runs, innermost first."""
    return _lines(sys._getframe(1))


def write() -> None:
    """Write what was seen; a rank that never opened a device has nothing to say."""
    if not torch.npu.is_initialized():
        return
    statistics = _statistics(torch.npu.current_device())
    left_out = getattr(ctypes.CDLL(None), "sim_left_out", int)  # host/holes.c
    if left_out():
        assume("zeros of saved files stand for values, and take no room on this machine")
    seen = {
        "rank": int(os.environ.get("RANK", "0")),
        "pid": os.getpid(),
        "steps": _rank.steps,
        "allocated": statistics["allocated_bytes"]["all"]["peak"],
        "reserved": statistics["reserved_bytes"]["all"]["peak"],
        "sampled": _rank.peak,
        "operator": _rank.operator,
        "lines": _rank.lines,
        "moments": _rank.moments,
        "assumptions": list(_rank.assumptions),
        "step": clock.compare(*_rank.times) if len(_rank.times) > 1 else None,
    }
    path = Path(_rank.folder) / f"rank-{seen['rank']}-{os.getpid()}.json"
    path.with_suffix(".part").write_text(json.dumps(seen), "utf-8")
    path.with_suffix(".part").replace(path)
