"""Turn a function on CPU tensors into a kernel for the simulated NPU, guided by its schema."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .memory import CPU, forget_views, host, make_written, upload, wait_for

Tensor = torch.Tensor
Kernel = Callable[..., Any]
DEVICE = "npu"


class Arguments:
    """One call's arguments with host tensors in place of device tensors."""

    __slots__ = ("device", "named", "positional")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.device: torch.device | None = None
        self.positional = self._lower_all(args)
        self.named = kwargs
        if kwargs:
            self.named = dict(zip(kwargs, self._lower_all(kwargs.values()), strict=True))

    def _lower_all(self, values: Iterable[Any]) -> list[Any]:
        lowered = []
        for value in values:
            if isinstance(value, Tensor):
                if not value.is_cpu and (self.device is not None or self._is_first(value)):
                    lowered.append(host(value))
                    continue
            elif isinstance(value, (list, tuple)):
                lowered.append(self._lower_all(value))
                continue
            lowered.append(value)
        return lowered

    def _is_first(self, value: Tensor) -> bool:
        """Whether it is on the device; all that is queued there has then run."""
        if value.device.type != DEVICE:
            return False
        self.device = value.device
        wait_for(value.get_device())
        return True


@dataclass(frozen=True)
class Written:
    """A result that ``write`` puts where it belongs, for what is too large to be copied there."""

    size: Sequence[int]
    dtype: torch.dtype
    write: Callable[[Tensor], object]


def lift(result: Any, device: torch.device) -> Any:
    """The result of a CPU function with its tensors moved to the device."""
    if isinstance(result, Tensor):
        return upload(result, device) if result.is_cpu else result
    if isinstance(result, Written):
        return make_written(result.size, result.dtype, device, result.write)
    if isinstance(result, (list, tuple)):
        return type(result)(lift(r, device) for r in result)
    return result


def functional(compute: Kernel, schema: torch.FunctionSchema) -> Kernel:
    """A kernel whose results are all new tensors."""
    returns = len(schema.returns)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        lowered = Arguments(args, kwargs)
        result = compute(*lowered.positional, **lowered.named)
        if returns > 1:
            result = _match_returns(result, returns, schema.name)
        return lift(result, lowered.device or torch.device(DEVICE))

    return kernel


def _match_returns(results: Sequence[Any], returns: int, name: str) -> Sequence[Any]:
    """As many results as this release of torch_npu declares; torch would read on past them.

    torch_npu 2.7.1 has no gradient of `sink`, which is empty there.
    """
    dropped = any(not isinstance(r, Tensor) or r.numel() for r in results[returns:])
    if dropped or len(results) < returns:
        raise RuntimeError(f"{name}: {len(results)} results are computed, {returns} are declared")
    return results[:returns]


def creating(compute: Kernel) -> Kernel:
    """A kernel whose `device` argument says where its results belong."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        lowered = Arguments(args, kwargs)
        if device is not None and device.type != DEVICE:
            return compute(*lowered.positional, **lowered.named)
        lowered.named["device"] = CPU
        lowered.named.pop("pin_memory", None)
        result = compute(*lowered.positional, **lowered.named)
        return lift(result, device or lowered.device or torch.device(DEVICE))

    return kernel


def in_place(compute: Kernel, schema: torch.FunctionSchema) -> Kernel:
    """A kernel that writes into its arguments and returns some of them, or new tensors."""
    places = return_sources(schema)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        lowered = Arguments(args, kwargs)
        try:
            result = compute(*lowered.positional, **lowered.named)
        except BaseException:
            forget_views()  # an operator that fails to resize an argument has changed its sizes
            raise
        return _return_tensors(places, args, kwargs, result, lowered.device)

    return kernel


def writing_out(compute: Kernel, schema: torch.FunctionSchema) -> Kernel:
    """A kernel with `out` arguments, written aside because the operator may resize them."""
    places = return_sources(schema)
    names = [a.name for a in schema.arguments if a.is_out]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        targets = [kwargs[n] for n in names]
        lowered = Arguments(args, kwargs)
        for name, target in zip(names, targets, strict=True):
            lowered.named[name] = _set_aside(target)
        result = compute(*lowered.positional, **lowered.named)
        for name, target in zip(names, targets, strict=True):
            _take_over(target, lowered.named[name])
        return _return_tensors(places, args, kwargs, result, lowered.device)

    return kernel


def updating_list(compute: Kernel) -> Kernel:
    """A kernel that reads and writes the tensors of a list `out`, and returns them."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        lowered = Arguments(args, kwargs)
        compute(*lowered.positional, **lowered.named)
        return tuple(kwargs["out"])

    return kernel


def _set_aside(target: Any) -> Any:
    """A host tensor, or a list of them, to be written in the place of an `out` argument."""
    if not isinstance(target, Tensor):
        return [_set_aside(each) for each in target]
    if target.device.type != DEVICE:
        return target
    return torch.empty_strided(target.size(), target.stride(), dtype=target.dtype)


def _take_over(target: Any, written: Any) -> None:
    if not isinstance(target, Tensor):
        for each, result in zip(target, written, strict=True):
            _take_over(each, result)
    elif target.device.type == DEVICE:
        if target.shape != written.shape:
            target.resize_(written.shape)
        host(target).copy_(written)


class ReturnSource(NamedTuple):
    """The argument that a return is: by position, or by name where that is given."""

    position: int
    name: str

    def find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return kwargs[self.name] if self.name else args[self.position]


def find_outputs(schema: torch.FunctionSchema) -> list[str]:
    """Names of arguments that results are written to.

    The `.out` overloads of torch_npu that take a list do not mark it (npu_apply_adam_w).
    """
    by_name = schema.overload_name.endswith("out")
    return [a.name for a in schema.arguments if a.is_out or (by_name and a.name == "out")]


def return_sources(schema: torch.FunctionSchema) -> tuple[ReturnSource | None, ...]:
    """For each return the argument it is, or None for a new tensor."""
    places: list[ReturnSource | None] = []
    for value in schema.returns:
        source = None
        if value.alias_info is not None and value.alias_info.is_write:
            for position, argument in enumerate(schema.arguments):
                info = argument.alias_info
                if info is not None and info.before_set == value.alias_info.before_set:
                    source = ReturnSource(position, argument.name if argument.kwarg_only else "")
        places.append(source)
    return tuple(places)


def _return_tensors(
    places: tuple[ReturnSource | None, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    device: torch.device | None,
) -> Any:
    if not places:
        return None
    values = (result,) if len(places) == 1 else result
    results = []
    for spot, value in zip(places, values, strict=True):
        if spot is None:
            results.append(lift(value, device or torch.device(DEVICE)))
        else:
            results.append(spot.find(args, kwargs))
    return results[0] if len(results) == 1 else tuple(results)


def gradients(compute: Kernel, dy: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The gradients of inputs, as autograd derives them from what computes the result."""
    with torch.enable_grad():
        leaves = [each.detach().requires_grad_() for each in inputs]
        return torch.autograd.grad(compute(*leaves), leaves, dy)


def kernel_for(compute: Kernel, schema: torch.FunctionSchema) -> Kernel:
    """The kernel for `schema` that computes with `compute` on host tensors."""
    if any(a.is_out for a in schema.arguments):
        return writing_out(compute, schema)
    if find_outputs(schema):
        return updating_list(compute)
    if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        return in_place(compute, schema)
    if any(a.name == "device" and str(a.type) == "Optional[Device]" for a in schema.arguments):
        return creating(compute)
    return functional(compute, schema)
