"""Declared faults that bite in operators, read from ASCEND_SIMULATOR_FAULTS.

Its form is "kind key=value ...;kind ...". Every kind takes rank and device, which choose where it
bites, and step, how often all goes well before. The kinds here:

kernel-missing        op=mm,add  the ops package has no binary for these operators
fused-softmax-missing the fused masked softmax fails as uncompiled kernels do
operators-fail        code=561103  every operator fails as with the ops package of another SoC
nonzero-crash         indexing by a boolean mask ends with 507018 and breaks the device for good
double-unsupported    an operator on float64 fails
nan                   the first matrix product in optimizer step number `step` gives a NaN
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .memory import host

Kernel = Callable[..., Any]
BY_MASK = frozenset({"index", "index_put", "index_put_", "_index_put_impl_", "nonzero"})
PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "npu_linear"})
SOFTMAX = frozenset({"npu_scaled_masked_softmax", "npu_scaled_masked_softmax_backward"})
AICPU_EXCEPTION = 507018
COPIES = frozenset({"_to_copy", "_copy_from", "clone", "contiguous"})
ZEROS = frozenset({"zeros", "zeros_like", "zero_"})
_optimizer_steps = 0


@dataclass
class OperatorFault:
    kind: str
    options: dict[str, str]
    seen: int = field(default=0)

    def bites_here(self, device: int) -> bool:
        rank, options = os.environ.get("RANK", "-1"), self.options
        return options.get("rank", rank) == rank and options.get("device", str(device)) == str(
            device
        )

    def is_due(self) -> bool:
        self.seen += 1
        return self.seen > int(self.options.get("step", "0"))


def read_faults() -> list[OperatorFault]:
    """All faults of the environment, those of the runtime among them."""
    faults = []
    for text in os.environ.get("ASCEND_SIMULATOR_FAULTS", "").split(";"):
        kind, *pairs = text.split() or [""]
        if kind:
            faults.append(OperatorFault(kind, dict(p.split("=", 1) for p in pairs if "=" in p)))
    return faults


def tensors_of(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_of(value)


def _aclnn(operator: str) -> str:
    """The name in CANN, as far as a rule can tell it: add_ -> InplaceAdd, npu_swiglu -> Swiglu."""
    if operator in COPIES or operator in ZEROS:
        return "InplaceCopy" if operator in COPIES else "InplaceZero"
    words = operator.removeprefix("npu_").strip("_").split("_")
    prefix = "Inplace" if operator.endswith("_") else ""
    return prefix + "".join(w[:1].upper() + w[1:] for w in words)


def _refusal(operator: str, code: str) -> RuntimeError:
    name = _aclnn(operator)
    return RuntimeError(
        f"{operator}:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:88 NPU function error: "
        f"call aclnn{name} failed, error code is {code}\n[ERROR] simulated fault"
    )


def _unbuilt(operator: str) -> RuntimeError:
    now = datetime.now().astimezone().strftime("%Y-%m-%d-%H:%M:%S.%f")[:-3] + ".000"
    return RuntimeError(
        f"{operator}: EZ9999: [PID: {os.getpid()}] {now} Cannot find bin of op "
        f"{_aclnn(operator)}, integral key 0/1/|float/ND/float/ND/.\n[ERROR] simulated fault"
    )


def _no_double(operator: str) -> RuntimeError:
    return RuntimeError(
        f"call aclnn{_aclnn(operator)} failed, detail:EZ1001: The param dtype not implemented for "
        "DT_DOUBLE, should be in dtype support list [DT_FLOAT,DT_FLOAT16,DT_BFLOAT16].\n"
        "[ERROR] simulated fault"
    )


def _break_device(index: int) -> None:
    """Poison the device: this synchronisation and every later operator on it fails."""
    message = (
        f"wait for compute device to finish failed, runtime result = {AICPU_EXCEPTION}."
        "[FUNC:ReportCallError] Aicpu kernel execute failed, kernel_name=NonzeroV2, "
        f"error code is {AICPU_EXCEPTION}"
    )
    ctypes.CDLL("libascendcl.so").sim_fail(AICPU_EXCEPTION, message.encode())
    torch.npu.current_stream(index).synchronize()


def _spoil(result: Any) -> None:
    for tensor in tensors_of([result]):
        if tensor.is_floating_point() and tensor.numel():
            host(tensor).view(-1)[0] = float("nan")


def _bite(fault: OperatorFault, operator: str, values: list[torch.Tensor], device: int) -> None:
    """Raise, or break the device, where the fault wants this call to go wrong."""
    kind = fault.kind
    if kind == "nonzero-crash":
        masks = any(t.dtype in (torch.bool, torch.uint8) for t in values[1:])
        if (masks or operator == "nonzero") and fault.is_due():
            _break_device(device)
    elif kind == "double-unsupported":
        if any(t.dtype == torch.float64 for t in values) and fault.is_due():
            raise _no_double(operator)
    elif kind in _REFUSALS and fault.is_due():
        raise _REFUSALS[kind](operator, fault)


_REFUSALS: dict[str, Callable[[str, OperatorFault], RuntimeError]] = {
    "kernel-missing": lambda operator, _fault: _unbuilt(operator),
    "fused-softmax-missing": lambda _operator, _fault: _refusal(
        "npu_scaled_masked_softmax", "561103"
    ),
    "operators-fail": lambda operator, fault: _refusal(
        operator, fault.options.get("code", "561103")
    ),
}


def _concerns(fault: OperatorFault, operator: str) -> bool:
    return {
        "kernel-missing": operator in fault.options.get("op", "").split(","),
        "fused-softmax-missing": operator in SOFTMAX,
        "operators-fail": True,
        "nonzero-crash": operator in BY_MASK,
        "double-unsupported": True,
        "nan": operator in PRODUCTS,
    }.get(fault.kind, False)


def with_faults(name: str, kernel: Kernel, faults: list[OperatorFault]) -> Kernel:
    """The kernel itself where no fault concerns the operator, which is the usual case."""
    operator = name.partition("::")[2].partition(".")[0]
    concerning = [f for f in faults if _concerns(f, operator)]
    if not concerning:
        return kernel

    def faulty(*args: Any, **kwargs: Any) -> Any:
        values = list(tensors_of((*args, *kwargs.values())))
        device = next((t.get_device() for t in values if not t.is_cpu), -1)
        if device < 0:
            device = torch.npu.current_device()
        biting = [f for f in concerning if f.bites_here(device)]
        for fault in biting:
            _bite(fault, operator, values, device)
        result = kernel(*args, **kwargs)
        for fault in biting:
            at_step = int(fault.options.get("step", "0")) == _optimizer_steps
            if fault.kind == "nan" and at_step and not fault.seen:
                fault.seen = 1
                _spoil(result)
        return result

    return faulty


def count_optimizer_steps() -> None:
    """Let `nan` know the step: every optimizer's step counts."""

    def count_step(*_arguments: Any) -> None:
        global _optimizer_steps  # noqa: PLW0603
        _optimizer_steps += 1

    register_optimizer_step_post_hook(count_step)
