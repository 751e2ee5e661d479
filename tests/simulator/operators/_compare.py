"""What the scripts beside this file share: they run in the interpreter that has torch_npu.

A script registers cases, functions that raise when the simulated NPU is wrong, and calls `main`,
which runs them and prints one JSON object a line for the test that started it.
"""

# mypy: ignore-errors
# torch is in the interpreter that runs this, not in the one that checks it.

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch_npu  # noqa: F401  it registers the device
from torch.utils._python_dispatch import TorchDispatchMode

Case = Callable[[], None]
CASES: dict[str, Case] = {}
NPU = torch.device("npu", 0)


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def cases(name: str, values: Iterable[Any]) -> Callable[[Callable[[Any], None]], None]:
    """Register a function once for each value, under the value's text."""

    def register(function: Callable[[Any], None]) -> None:
        for value in values:
            CASES[f"{name}[{value}]"] = lambda value=value: function(value)

    return register


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Equal on the CPU in shape, dtype and value."""
    if isinstance(expected, torch.Tensor):
        assert actual.device.type == "npu", f"result is on {actual.device}"
        torch.testing.assert_close(
            actual.detach().cpu(), expected.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    elif isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for part, other in zip(actual, expected, strict=True):
            close(part, other, tolerance)
    else:
        assert actual == expected, f"{actual} is not {expected}"


def same(
    on_npu: Callable[..., Any],
    on_cpu: Callable[..., Any],
    *inputs: Any,
    tolerance: float = 1e-5,
) -> None:
    """Both functions agree in values and in the gradients of every input that wants one."""
    mine = [_copy(x, NPU) for x in inputs]
    theirs = [_copy(x, torch.device("cpu")) for x in inputs]
    actual, expected = on_npu(*mine), on_cpu(*theirs)
    close(actual, expected, tolerance)
    actual, expected = ([x] if isinstance(x, torch.Tensor) else x for x in (actual, expected))
    pairs = [(a, b) for a, b in zip(actual, expected, strict=True) if _differentiable(b)]
    if not pairs:
        return
    weights = [torch.randn_like(b) for _, b in pairs]
    torch.autograd.backward([a for a, _ in pairs], [w.npu() for w in weights])
    torch.autograd.backward([b for _, b in pairs], weights)
    for own, other in zip(mine, theirs, strict=True):
        if isinstance(other, torch.Tensor) and other.grad is not None:
            assert own.grad is not None, "no gradient arrived"
            close(own.grad, other.grad, tolerance)


def _copy(value: Any, device: torch.device) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().to(device).requires_grad_(value.requires_grad)


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


class Called(TorchDispatchMode):
    """Notes the operators that are called below autograd, gradients among them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, operator: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        schema = operator._schema
        self.names.add(f"{schema.name}.{schema.overload_name}".rstrip("."))
        return operator(*args, **(kwargs or {}))


def main() -> None:
    torch.set_num_threads(1)
    notes = "--called" in sys.argv
    names = [word for word in sys.argv[1:] if word != "--called"]
    for name, function in CASES.items():
        if names and name not in names:
            continue
        torch.manual_seed(20)
        called = Called()
        try:
            with called if notes else contextlib.nullcontext():
                function()
            line: dict[str, Any] = {"case": name, "ok": True, "called": sorted(called.names)}
        except Exception as error:  # noqa: BLE001  a failing case is a result
            text = "".join(traceback.format_exception(error)[-3:])
            line = {"case": name, "ok": False, "error": text[-2000:]}
        print("CASE " + json.dumps(line), flush=True)  # noqa: T201
    os._exit(0)  # torch_npu's own shutdown is not what is tested
