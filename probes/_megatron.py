"""Brings in the megatron.core of this interpreter the way a training job on this device would.

On NPUs through MindSpeed's adaptor where MindSpeed is installed, else through torch_npu's
transfer_to_npu; on CUDA as it is; on the CPU through ``_cuda_on_cpu``, which no other device gets.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import os
import re
from collections.abc import Iterator
from typing import Any

import _cuda_on_cpu
import _probe
from _probe import Probe

_GLOBAL = re.compile(r"_[A-Z][A-Z0-9_]*$").match
ABSENT = "megatron-core is not installed"
# What was done to this process, which several probes may share.
_once: dict[str, Any] = {}


def installed() -> bool:
    """Whether there is a megatron.core; nothing of it is imported."""
    return _there("megatron") and _there("megatron.core")


def _there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def load(probe: Probe, torch: Any) -> None:
    """Import what must come before megatron.core, then it, and record which one it is."""
    with probe.stage("megatron"), _probe.importing():
        if "through" not in _once:
            _once["through"] = _prepare(probe.device, torch)
        import megatron.core

        probe.measure("megatron", str(megatron.core.__version__))
        probe.measure("megatron_path", os.path.dirname(str(megatron.core.__file__)))
        probe.measure("through", _once["through"])


def _prepare(device: str, torch: Any) -> str:
    if device == "cpu":
        _cuda_on_cpu.install(device, torch)
        return "CUDA calls answered by the CPU"
    if device == "npu" and _there("mindspeed"):
        # MindSpeed must patch megatron.core before anybody imports it.
        import mindspeed.megatron_adaptor  # noqa: F401

        return "mindspeed.megatron_adaptor"
    if device == "npu":
        from torch_npu.contrib import transfer_to_npu  # noqa: F401

        return "torch_npu.contrib.transfer_to_npu"
    return "nothing"


def prepare_training(probe: Probe, torch: Any) -> None:
    """Mend what stops a plain megatron.core from training here; records what that was."""
    with probe.stage("megatron for training"):
        if "mended" not in _once:
            _once["mended"] = _mend(probe, torch)
        probe.measure("mended", _once["mended"])


def _mend(probe: Probe, torch: Any) -> list[str]:
    mended = []
    if probe.device == "cpu":
        _cuda_on_cpu.after_import(torch)
    if probe.device == "npu" and not _names_cuda(torch):
        # Megatron's optimizers sort parameters by these texts; MindSpeed answers so itself.
        _cuda_on_cpu.name_cuda(torch)
        mended.append("Tensor.type() says torch.cuda")
    return [*mended, *_do_without_te()]


@contextlib.contextmanager
def forgetting(*modules: Any) -> Iterator[None]:
    """Give the global variables of Megatron's modules back the values that they had before.

    destroy_model_parallel keeps some of them: who holds position embeddings, and the tracker of the
    experts' losses, which has as many rows as the first model had layers.
    """
    before = [
        (module, {name: _copied(one) for name, one in vars(module).items() if _GLOBAL(name)})
        for module in modules
    ]
    try:
        yield
    finally:
        for module, values in before:
            vars(module).update(values)


def _copied(value: Any) -> Any:
    """What Megatron fills stays as it is now; a group cannot be copied, and does not change."""
    return copy.copy(value) if isinstance(value, (dict, list, set)) else value


def _do_without_te() -> list[str]:
    """Give what megatron.core only gets from Transformer Engine and asks for without it, too."""
    from megatron.core import fp8_utils
    from megatron.core.transformer.moe import moe_utils

    mended = []
    gating = getattr(moe_utils, "RouterGatingLinearFunction", None)
    asked = gating is not None and "te_general_gemm" in gating.forward.__code__.co_names
    if asked and not hasattr(moe_utils, "te_general_gemm"):
        # 0.13.1 to 0.16.1: NameError in the router. None is what it means by "not there".
        moe_utils.te_general_gemm = None
        mended.append("moe_utils.te_general_gemm")
    try:
        fp8_utils.quantize_param_shard([], [], [], None)
    except RuntimeError:
        # 0.12.1: the distributed optimizer fails although no parameter is FP8.
        fp8_utils._quantize_param_shard_impl = lambda *_: None  # noqa: SLF001
        mended.append("fp8_utils.quantize_param_shard")
    return mended


def _names_cuda(torch: Any) -> bool:
    return str(torch.zeros(1, device="npu").type()).startswith("torch.cuda")
