"""MindSpeed's own C++ operators, which it compiles at first use against CANN's kernels.

The simulated CANN has no such kernels, so `load` of these builders gives functions on torch_npu's
operators. The signatures are those that mindspeed/ops/csrc binds (core_r0.15.3 and
2.3.0_core_r0.12.1). Every other builder compiles as on hardware.
"""

# ruff: noqa: PLR0913, PLR0917  the signatures are those of MindSpeed

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch_npu

from . import factories
from .memory import host, wait_for
from .optimizers import apply_adam_w
from .plans import is_computed

Tensor = torch.Tensor
BUILDERS = {
    "mindspeed.op_builder.builder": "MindSpeedOpBuilder",
    "mindspeed.op_builder.atb_builder": "AtbOpBuilder",
}  # modules and their classes that have a `load` of their own
BY_ROWS, BY_INNER = 0, 2


def _group(
    x: list[Tensor], weight: list[Tensor], bias: list[Tensor], groups: Any, **kind: Any
) -> Any:
    if not isinstance(groups, Tensor):
        groups = factories.tensor(groups, device=x[0].device)
    return torch_npu.npu_grouped_matmul(
        x, weight, bias=bias or None, group_list=groups, split_item=3, **kind
    )


def _gmm(
    x: list[Tensor], weight: list[Tensor], bias: list[Tensor], group_list: Any,
    group_type: int | None = None, group_list_type: int | None = None,
) -> Any:  # fmt: skip
    kind = BY_ROWS if group_type is None else group_type
    return _group(
        x, weight, bias, group_list, group_type=kind, group_list_type=group_list_type or 0
    )


def _gmm_backward(
    grad: list[Tensor], x: list[Tensor], weight: list[Tensor], group_list: Any,
    group_list_type: int | None = None,
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:  # fmt: skip
    kind = {"group_list_type": group_list_type or 0}
    transposed = [w.transpose(-1, -2) for w in weight]
    dx = _group(grad, transposed, [], group_list, group_type=BY_ROWS, **kind)
    turned = [tensor.transpose(0, 1) for tensor in x]
    dw = _group(turned, grad, [], group_list, group_type=BY_INNER, **kind)
    return dx, [d.reshape(w.shape) for d, w in zip(dw, weight, strict=True)], []


def _gmm_backward_fusion(
    grad: list[Tensor], weight: list[Tensor], group_list: Any, group_list_type: int | None = None
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    transposed = [w.transpose(-1, -2) for w in weight]
    kind = {"group_type": BY_ROWS, "group_list_type": group_list_type or 0}
    return _group(grad, transposed, [], group_list, **kind), [], []


def _groupmatmul_add(x: Tensor, dy: Tensor, group_list: Tensor, grad: Tensor) -> None:
    torch_npu.npu_grouped_matmul_add_(grad, x, dy, group_list)


def _matmul_add(dy: Tensor, x: Tensor, grad: Tensor) -> None:
    """It takes no memory of the device: the kernel adds into ``grad``."""
    if is_computed(grad):
        wait_for(grad.get_device())
        host(grad).add_(host(dy).float().flatten(0, -2).t() @ host(x).float().flatten(0, -2))


def _rotary(x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0) -> Tensor:
    return torch_npu.npu_rotary_mul(x, cos, sin, "interleave" if mode else "half")


def _permute(
    tokens: Tensor, indices: Tensor, num_out_tokens: int | None = 0, padded_mode: bool = False
) -> Any:
    return torch_npu.npu_moe_token_permute(tokens, indices, num_out_tokens, padded_mode)


def _unpermute(*args: Any, **kwargs: Any) -> Tensor:
    return torch_npu.npu_moe_token_unpermute(*args, **kwargs)


def _apply_fused_adamw_v2(
    param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, max_exp_avg_sq: Tensor,
    state_step: Tensor, lr: float, beta1: float, beta2: float, weight_decay: float, eps: float,
    amsgrad: bool, maximize: bool,
) -> None:  # fmt: skip
    if not is_computed(param):
        return
    before = float(state_step) - 1
    wait_for(param.get_device())
    apply_adam_w(
        beta1**before, beta2**before, lr, weight_decay, beta1, beta2, eps, host(grad),
        host(max_exp_avg_sq) if amsgrad else None, amsgrad, maximize,
        out=[host(param), host(exp_avg), host(exp_avg_sq)],
    )  # fmt: skip


OPERATORS = {
    "npu_apply_fused_adamw_v2": {"npu_apply_fused_adamw_v2": _apply_fused_adamw_v2},
    "grouped_matmul": {
        "npu_gmm": _gmm,
        "npu_gmm_backward": _gmm_backward,
        "npu_gmm_backward_fusion": _gmm_backward_fusion,
    },
    "npu_groupmatmul_add_fp32": {"npu_groupmatmul_add_fp32": _groupmatmul_add},
    "npu_matmul_add_fp32": {"npu_matmul_add_fp32": _matmul_add},
    "npu_rotary_position_embedding": {"npu_rotary_position_embedding": _rotary},
    "npu_moe_token_permute": {"npu_moe_token_permute": _permute},
    "npu_moe_token_unpermute": {"npu_moe_token_unpermute": _unpermute},
    "rms_norm": {"rms_norm": lambda x, gamma, eps: torch_npu.npu_rms_norm(x, gamma, eps)[0]},
    "swiglu": {"swiglu": lambda x, dim=-1: torch_npu.npu_swiglu(x, dim=dim)},
}
OPERATORS["grouped_matmul_v2"] = OPERATORS["grouped_matmul"]


def _loading(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def load(builder: Any, *args: Any, **kwargs: Any) -> Any:
        functions = OPERATORS.get(builder.name)
        return (
            compiled(builder, *args, **kwargs)
            if functions is None
            else SimpleNamespace(**functions)
        )

    return load


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        builder = getattr(module, BUILDERS[module.__name__])
        builder.load = _loading(builder.load)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in BUILDERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def watch_for_mindspeed() -> None:
    """Change MindSpeed's builders when they are imported."""
    sys.meta_path.insert(0, _Finder())
