"""All aten operators that torch_npu registers, computed by the CPU kernels of torch."""

from collections.abc import Iterator
from typing import Any

import torch

from .generators import drawing, elements_in
from .kernels import DEVICE, Kernel, kernel_for

# These allocate, or touch nothing but metadata, and stay torch_npu's own, as do all operators that
# change a tensor's sizes in place and all views. So does _to_copy, which allocates and copies; its
# cast to float64 is one to float32 (torch_npu 2.7.1: csrc/aten/common/ToKernelNpu.cpp, line 39).
_NATIVE = frozenset({
    "aten::_to_copy",
    "aten::empty.memory_format", "aten::empty_like", "aten::empty_strided", "aten::is_pinned",
    "aten::is_set_to", "aten::new_empty_strided", "aten::_pin_memory", "aten::record_stream",
})  # fmt: skip
_COMPUTED_HERE = frozenset({"aten::contiguous", "aten::native_dropout"})


def registered(namespace: str) -> Iterator[tuple[str, Any]]:
    """Names and overloads of a namespace that torch_npu implements and that have a schema."""
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"):
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if space == namespace:
            try:
                operator = getattr(getattr(torch.ops, space), packet)
                yield name, getattr(operator, overload or "default")
            except (AttributeError, RuntimeError):
                continue  # an implementation left over for an operator that this torch lacks


def cpu_kernels() -> Iterator[tuple[str, Kernel]]:
    """A kernel for every registered aten operator that torch can compute on the CPU."""
    on_cpu = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    for name, operator in registered("aten"):
        if name in _NATIVE or name in _COMPUTED_HERE or not on_cpu(name, "CPU"):
            continue
        schema = operator._schema
        views = (r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        if torch.Tag.inplace_view in operator.tags or any(views):
            continue
        if any("Generator" in str(a.type) for a in schema.arguments):
            yield name, _random(operator, schema)
        elif name.startswith("aten::randperm"):
            yield name, _random(torch.ops.aten.randperm.generator, schema)
        else:
            yield name, kernel_for(operator._op, schema)


def _random(operator: Any, schema: torch.FunctionSchema) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        npu = kwargs.pop("generator", None)
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        device = kwargs.get("device") or next(
            (t.device for t in tensors if t.device.type == DEVICE), torch.device(DEVICE)
        )
        sizes = [v for v in args if isinstance(v, (list, tuple))]
        count = elements_in(tensors) or (torch.Size(sizes[0]).numel() if sizes else 0)
        if not tensors and not sizes and args:
            count = int(args[0])  # randperm

        def draw(cpu: torch.Generator) -> Any:
            def compute(*lowered: Any, **named: Any) -> Any:
                return operator(*lowered, generator=cpu, **named)

            return kernel_for(compute, schema)(*args, **kwargs)

        return drawing(npu, device, count, draw)

    return kernel
