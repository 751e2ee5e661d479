"""Operators at true size: memory as the device's allocator counts it, and no large values.

What is large has its shape from a meta kernel and its memory from torch_npu's allocator; it is
never written. What is small, or of integers alone, is computed, since sizes and branches depend on
it. A small result of large ones is 1, or 0 as an integer.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import clock, factories, peaks
from .faults import tensors_of
from .kernels import DEVICE, Kernel, find_outputs, return_sources
from .memory import host, wait_for
from .plans import (
    INTEGERS,
    META,
    SMALL,
    SMALL_INTEGERS,
    CallSizes,
    Sized,
    Value,
    make_plan,
    make_results,
    tensors_in,
    to_meta,
)

Tensor = torch.Tensor
# Results whose values decide what a program does next, where they cannot be computed.
_DECIDED = {"npu::_amp_foreach_non_finite_check": False, "aten::equal": True}
_READ = frozenset({"aten::_local_scalar_dense", "aten::item", "aten::is_nonzero"})
# The host waits for these, as their values or the size of their results go back to it.
_WAITED_FOR = _READ | {
    "aten::equal", "aten::nonzero", "aten::masked_select", "aten::_unique2",
    "aten::repeat_interleave.Tensor",
}  # fmt: skip
_FILLS = frozenset({
    "aten::zeros", "aten::zero_", "aten::zeros_like", "aten::fill_.Scalar", "aten::ones",
    "aten::full",
})  # fmt: skip
_ROUTES = frozenset({"aten::topk", "aten::topk.values"})
_BY_NUMBER = ("arange", "linspace", "range", "logspace")
# Operators of torch_npu with a meta kernel that change where values lie, and stay its own.
_NATIVE = ("format", "copy", "storage", "resize", "identity", "record")
# Elements that op-plugin allocates beside the results, in floats of the first tensor's size.
_TEMPORARIES = {"npu::npu_apply_adam_w.out": 1}


def _balance(results: Any, experts: int) -> Any:
    """Give each expert as many rows as another, in the indices of a router's topk."""
    indices = results[1]
    has_rows = indices.dim() > 1
    if has_rows and experts > 1 and indices.numel() <= SMALL_INTEGERS:
        wait_for(indices.get_device())
        numbers = factories.arange(indices.numel()) % experts
        host(indices).copy_(numbers.view(indices.shape))
        peaks.assume("topk gives each expert as many rows as another")
    return results


def _holds_host(to: Tensor, source: Tensor, non_blocking: bool = False) -> bool:
    """Whether the host waits until a copy has come."""
    if to.is_cpu is not source.is_cpu and to.numel() > SMALL:
        peaks.assume("copies between the host and an NPU are as fast as its memory")
    return to.is_cpu and not non_blocking


class SizedKernel:
    """A kernel that computes what is small by ``compute``, and makes the rest by its plan.

    ``function`` computes on host tensors, or is None; it gives the plan where there is no meta
    kernel.
    """

    def __init__(
        self, name: str, operator: Any, compute: Kernel, function: Callable[..., Any] | None
    ) -> None:
        schema = operator._schema
        self._name, self._compute, self._operator = name, compute, operator
        self._outputs = find_outputs(schema)
        self._sources = return_sources(schema)
        self._returns = len(schema.returns)
        self._numbers = any(word in name for word in _BY_NUMBER)
        self._takes_device = any(each.name == "device" for each in schema.arguments)
        has_meta = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "Meta")
        self._ways = ([operator] if has_meta else []) + ([function] if function else [])
        self._plans: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and device.type != DEVICE:
            return self._compute(*args, **kwargs)
        seen = CallSizes()
        key: Any = (
            seen.describe(args, self._numbers),
            tuple(kwargs), seen.describe(kwargs.values(), self._numbers),
        )  # fmt: skip
        try:
            plan, cost = self._plans[key]
        except KeyError:
            plan, cost = self._plans[key] = self._learn(args, kwargs, seen)
        except TypeError:  # a symbol, a list in a list
            plan, cost = self._learn(args, kwargs, seen)
        if cost is not None and (seen.device or device) is not None:
            self._spend(cost, args, kwargs)
        if plan is None:
            result = self._compute(*args, **kwargs)
            routes = self._name in _ROUTES and args[0].is_floating_point()
            return _balance(result, args[0].shape[-1]) if routes else result
        if isinstance(plan, Value):
            return plan.value
        where = device or seen.device or torch.device(DEVICE)
        if where.index is None:
            where = torch.device(DEVICE, torch.npu.current_device())
        result = self._answer(plan, args, kwargs, where)
        peaks.look(self._name, plan)
        return result

    def _learn(self, args: Any, kwargs: Any, seen: CallSizes) -> tuple[Any, clock.Cost | None]:
        plan = self._find_plan(args, kwargs, seen)
        if not clock.is_running:
            return plan, None
        return plan, clock.weigh(self._ways or [self._operator], args, kwargs, plan)

    def _spend(self, cost: clock.Cost, args: Any, kwargs: Any) -> None:
        device = torch.npu.current_device()
        clock.spend(self._name, cost, device, peaks.job_lines)
        if self._name in _WAITED_FOR or (
            self._name == "aten::copy_" and _holds_host(*args, **kwargs)
        ):
            clock.wait_on_host(device)

    def _find_plan(self, args: tuple[Any, ...], kwargs: dict[str, Any], seen: CallSizes) -> Any:
        """The sizes of the results, or None where they are to be computed."""
        if self._name in _READ:
            return None
        if self._name in _DECIDED:
            return Value(_DECIDED[self._name]) if seen.largest > SMALL else None
        plan = self._ask(args, kwargs)
        if plan is None:
            if seen.largest > SMALL and not self._outputs:
                peaks.assume(f"{self._name} has results of a size that its values decide")
            return None
        tensors = list(tensors_in(plan))
        largest = max((each.elements for each in tensors), default=0)
        largest = max(largest, seen.largest)
        floats = seen.floats or any(
            each.elements > SMALL and each.dtype not in INTEGERS for each in tensors
        )
        casts = self._name == "aten::copy_" and args[0].dtype in INTEGERS
        if largest <= SMALL_INTEGERS and (not floats or casts or self._name in _FILLS):
            return None
        return None if largest <= SMALL else plan

    def _ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Sizes by what works on meta tensors, or None."""
        values = [to_meta(value) for value in args]
        named = {key: to_meta(value) for key, value in kwargs.items() if key != "pin_memory"}
        if self._takes_device:
            named["device"] = META
        for way in self._ways:
            with contextlib.suppress(Exception):  # a meta kernel may raise anything
                plan = make_plan(way(*values, **named))
                several = isinstance(plan, list) and self._returns > 1
                return plan[: self._returns] if several else plan
        return None

    def _answer(
        self, plan: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device
    ) -> Any:
        self._take_temporaries(args, kwargs, device)
        plans = plan if isinstance(plan, list) and self._returns > 1 else [plan]
        if self._outputs:
            outputs = list(tensors_of(kwargs[name] for name in self._outputs))
            for output, sized in zip(outputs, plans, strict=False):
                if isinstance(sized, Sized) and tuple(output.shape) != sized.size:
                    output.resize_(sized.size)
            results = outputs[: self._returns]
        else:
            results = [
                make_results(sized, device) if source is None else source.find(args, kwargs)
                for source, sized in zip(self._sources, plans, strict=False)
            ]
        if self._name in _ROUTES:
            _balance(results, args[0].shape[-1])
        if not results:
            return None
        return results[0] if self._returns == 1 else tuple(results)

    def _take_temporaries(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device
    ) -> None:
        if times := _TEMPORARIES.get(self._name):
            first = next(tensors_of((*kwargs.values(), *args)))
            factories.empty(times * first.numel(), dtype=torch.float32, device=device)


def answer_by_meta(operators: dict[str, Any], computed: Iterable[str]) -> dict[str, Kernel]:
    """Kernels of operators that are only known by the sizes of their results."""
    kernels: dict[str, Kernel] = {}
    known = frozenset(computed)
    for name, operator in operators.items():
        schema = operator._schema
        if (
            name.startswith("npu::")
            and name not in known
            and not find_outputs(schema)
            and not any(word in name for word in _NATIVE)
            and torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "Meta")
            and any("Tensor" in str(each.type) for each in schema.returns)
        ):
            kernels[name] = _refusing(name)
    return kernels


def _refusing(name: str) -> Kernel:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{name} is not simulated")

    return refuse


def make_sized_kernels(
    kernels: dict[str, Kernel], operators: dict[str, Any], functions: dict[str, Any]
) -> dict[str, Kernel]:
    """All kernels at true size, by the name of their operator."""
    every = {**kernels, **answer_by_meta(operators, kernels)}
    return {
        name: SizedKernel(name, operators[name], kernel, functions.get(name))
        if name in operators and name != "aten::contiguous"
        else kernel
        for name, kernel in every.items()
    }
