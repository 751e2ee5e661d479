"""Registers the simulated kernels over those of torch_npu."""

import os

import torch

from . import (  # noqa: F401 - importing them fills the table
    activations,
    aten,
    attention,
    casts,
    dropout,
    host_tensors,
    losses,
    matrices,
    moe,
    moe_routing_map,
    normalization,
    optimizers,
    peaks,
    plans,
    ring_attention,
    softmax,
    triangles,
    true_size,
)
from .faults import count_optimizer_steps, read_faults, with_faults
from .kernels import kernel_for
from .table import FUNCTIONS
from .torch_releases import override

NAMESPACES = ("aten", "npu", "atb")


def contiguous(
    tensor: torch.Tensor, *, memory_format: torch.memory_format = torch.contiguous_format
) -> torch.Tensor:
    """The tensor itself where its memory is in order, else a copy."""
    if tensor.is_contiguous(memory_format=memory_format):
        return tensor
    return tensor.clone(memory_format=memory_format)


def register() -> list[torch.library.Library]:
    """Register everything; the registrations live as long as the returned objects."""
    libraries = {n: torch.library.Library(n, "IMPL", "PrivateUse1") for n in NAMESPACES}
    kernels = dict(aten.cpu_kernels())
    for namespace in NAMESPACES:
        for name, operator in aten.registered(namespace):
            if name in FUNCTIONS:
                kernels[name] = kernel_for(FUNCTIONS[name], operator._schema)
    kernels["aten::contiguous"] = contiguous
    faults = read_faults()
    if any(f.kind == "nan" for f in faults):
        count_optimizer_steps()
    if folder := os.environ.get(plans.FOLDER):
        operators = {name: op for space in NAMESPACES for name, op in aten.registered(space)}
        kernels = true_size.make_sized_kernels(kernels, operators, FUNCTIONS)
        peaks.record(folder)
        host_tensors.spare()
    for name, kernel in kernels.items():
        namespace, _, rest = name.partition("::")
        override(libraries[namespace], rest, with_faults(name, kernel, faults))
    composite = torch.library.Library("aten", "IMPL", "AutogradPrivateUse1")
    override(composite, "one_hot", kernels["aten::one_hot"])
    return [*libraries.values(), composite]
