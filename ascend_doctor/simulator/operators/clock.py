"""Virtual time at true size: what a call costs the chip and the host (runtime/clock.c).

A call costs the longer of its arithmetic and its traffic: the matrix products in the function that
computes it, which torch counts on meta tensors, and its tensors, each once.
"""

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch_npu
from torch.utils.flop_counter import FlopCounterMode

from .faults import tensors_of
from .kernels import DEVICE
from .memory import host, wait_for
from .plans import INTEGERS, META, SMALL_INTEGERS, tensors_in, to_meta

RATES = "ASCEND_SIMULATOR_CLOCK"
# Of CANN's sparse modes those with a lower triangle of scores.
_TRIANGLES = frozenset({2, 3})
_acl = ctypes.CDLL("libascendcl.so")
_acl.sim_spend.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_char_p]
_acl.aclrtSynchronizeStream.argtypes = [ctypes.c_void_p]
_acl.sim_clock_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_stream_of = torch_npu._C._npu_getCurrentRawStream


def _read_rates() -> dict[str, float]:
    pairs = (word.partition("=") for word in os.environ.get(RATES, "").split())
    return {name: float(value) for name, _, value in pairs}


_rates = _read_rates()
is_running = bool(_rates)


class Cost(NamedTuple):
    """Of one call: seconds on the chip, and whether its cube units bound them."""

    seconds: float
    cube: bool


class _Spent:
    def __init__(self, name: bytes) -> None:
        self.name = name  # whose bytes the runtime reads later
        self.seconds = {True: 0.0, False: 0.0}
        self.calls = 0
        self.most = 0.0
        self.lines: list[str] = []

    def total(self) -> float:
        return sum(self.seconds.values())


_MOST_OPERATORS = 10
_spent: dict[str, _Spent] = {}


def weigh(
    ways: Iterable[Callable[..., Any]], args: tuple[Any, ...], kwargs: dict[str, Any], plan: Any
) -> Cost:
    """The cost of a call with results by ``plan``; ``ways`` compute it."""
    values = tensors_of((*args, *kwargs.values()))
    moved = sum(each.numel() * each.element_size() for each in values)
    moved += sum(each.elements * each.dtype.itemsize for each in tensors_in(plan))
    cube = _count(ways, args, kwargs) / _rates["cube"]
    memory = moved / _rates["memory"]
    return Cost(max(cube, memory) + _rates["kernel"], cube > memory)


def _count(ways: Iterable[Callable[..., Any]], args: Any, kwargs: Any) -> float:
    """Floating-point operations of matrix products, by the way that has the most."""
    most = 0.0
    values = [_lower(value) for value in args]
    named = {name: _lower(value) for name, value in kwargs.items() if name != "pin_memory"}
    if "device" in kwargs:
        named["device"] = META
    for way in ways:
        counter = FlopCounterMode(display=False)
        with contextlib.suppress(Exception), counter:  # a meta kernel may raise anything
            way(*values, **named)
        most = max(most, float(counter.get_total_flops()))
    return most / 2 if kwargs.get("sparse_mode") in _TRIANGLES else most


def _lower(value: Any) -> Any:
    """A meta tensor, but an integer one with its values: they say which rows go together."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in INTEGERS or value.numel() > SMALL_INTEGERS:
            return to_meta(value)
        if value.device.type != DEVICE:
            return value
        wait_for(value.get_device())
        return host(value).clone()
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)([_lower(each) for each in value])
    return to_meta(value)


def spend(name: str, cost: Cost, device: int, lines: Callable[[], list[str]]) -> None:
    """Let the current stream run a call that the host launches now."""
    known = _spent.get(name)
    if known is None:
        known = _spent[name] = _Spent(name.encode())
    _acl.sim_spend(_stream_of(device), cost.seconds, _rates["launch"], known.name)
    known.seconds[cost.cube] += cost.seconds
    known.calls += 1
    if cost.seconds > known.most:
        known.most, known.lines = cost.seconds, lines()


def wait_on_host(device: int) -> None:
    """What reads a value waits for the stream that makes it."""
    _acl.aclrtSynchronizeStream(_stream_of(device))


def read() -> dict[str, Any]:
    """Seconds since the start: of the process, of the current stream, and by operator."""
    values = (ctypes.c_double * 5)()
    _acl.sim_clock_read(_stream_of(torch.npu.current_device()), values)
    return {
        "seconds": values[4],
        "busy": values[1],
        "starved": values[2],
        "waited": values[3],
        "cube": sum(each.seconds[True] for each in _spent.values()),
        "memory": sum(each.seconds[False] for each in _spent.values()),
        "operators": {name: (each.total(), each.calls) for name, each in _spent.items()},
    }


def compare(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What passed between two readings."""
    known = before["operators"]
    rows = [
        {"operator": name, "seconds": seconds - then, "calls": calls - called,
         "lines": _spent[name].lines}
        for name, (seconds, calls) in after["operators"].items()
        for then, called in [known.get(name, (0.0, 0))]
        if calls > called
    ]  # fmt: skip
    rows.sort(key=lambda row: -row["seconds"])
    parts = {name: after[name] - before[name] for name in after if name != "operators"}
    calls = sum(row["calls"] for row in rows)
    return {**parts, "calls": calls, "operators": rows[:_MOST_OPERATORS]}
