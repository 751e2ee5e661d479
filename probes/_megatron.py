"""Brings in the megatron.core of this interpreter the way a training job on this device would.

On NPUs through MindSpeed's adaptor where MindSpeed is installed, else through torch_npu's
transfer_to_npu; on CUDA as it is; on the CPU through ``_cuda_on_cpu``, which no other device gets.
"""

from __future__ import annotations

import contextlib
import copy
import gc
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
TRANSFER = "torch_npu.contrib.transfer_to_npu"
# What was done to this process, which several probes may share.
_once: dict[str, Any] = {}


def find_installed() -> bool:
    """Whether there is a megatron.core; nothing of it is imported."""
    return _there("megatron") and _there("megatron.core")


def _there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def begin(probe: Probe) -> Any:
    """Torch, with megatron.core; skips where there is none."""
    if not find_installed():
        probe.skip(ABSENT)
    torch = probe.torch()
    load(probe, torch)
    return torch


def load(probe: Probe, torch: Any) -> None:
    """Import what must come before megatron.core, then it, and record which one it is."""
    with probe.stage("megatron"), _probe.importing():
        if "through" not in _once:
            _once["through"] = _prepare(probe.device, torch)
            _once["mended"] = _mend_transfer(torch)
        import megatron.core

        probe.measure("megatron", str(megatron.core.__version__))
        probe.measure("megatron_path", os.path.dirname(str(megatron.core.__file__)))
        probe.measure("through", _once["through"])
        probe.measure("mended", _once["mended"])


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

        return TRANSFER
    return "nothing"


def _mend_transfer(torch: Any) -> list[str]:
    """Mend what transfer_to_npu breaks for everybody in this process, Megatron or not."""
    if _once["through"] != TRANSFER or torch.npu.get_device_capability() is not None:
        return []
    # torch 2.13's broadcast asks it of every tensor that says is_cuda, which all say now, and takes
    # it apart (torch/distributed/distributed_c10d.py; torch_npu 2.13.0, npu/__init__.py).
    os.environ["TORCH_NPU_DEVICE_CAPABILITY"] = "8.0"
    return ["TORCH_NPU_DEVICE_CAPABILITY=8.0"]


def prepare_training(probe: Probe, torch: Any) -> None:
    """Mend what stops a plain megatron.core from training here; records what that was."""
    with probe.stage("megatron for training"):
        if "trains" not in _once:
            _once["trains"] = _mend(probe, torch)
        probe.measure("mended", [*_once["mended"], *_once["trains"]])


def _mend(probe: Probe, torch: Any) -> list[str]:
    mended = []
    if probe.device == "cpu":
        _cuda_on_cpu.after_import(torch)
    if probe.device == "npu" and not _names_cuda(torch):
        # Megatron's optimizers sort parameters by these texts; MindSpeed answers so itself.
        _cuda_on_cpu.name_cuda(torch)
        mended.append("Tensor.type() says torch.cuda")
    plain = _once["through"] == TRANSFER
    if probe.device == "npu" and plain and not torch.cuda.default_generators:
        # transfer_to_npu of torch_npu 2.13.0 does so itself, that of 2.7.1 does not; MindSpeed
        # patches who asks (mindspeed/core/tensor_parallel/random.py).
        torch.npu.init()
        torch.cuda.default_generators = torch.npu.default_generators
        mended.append("torch.cuda.default_generators")
    return [*mended, *_do_without_te()]


@contextlib.contextmanager
def forgetting(*modules: Any) -> Iterator[None]:
    """Give the global variables of Megatron's modules back the values that they had before.

    destroy_model_parallel keeps some of them, and all groups with their threads and HCCL's buffers;
    those are destroyed. A slow rank may still make or use what a fast one takes down.
    """
    from torch.distributed.distributed_c10d import _world, barrier, destroy_process_group

    before = [
        (module, {name: _copy(value) for name, value in vars(module).items() if _GLOBAL(name)})
        for module in modules
    ]
    groups = list(_world.pg_map)
    try:
        yield
        if groups:
            barrier()
    finally:
        for module, values in before:
            vars(module).update(values)
    for group in [group for group in _world.pg_map if group not in groups]:
        destroy_process_group(group)
    gc.collect()


def _copy(value: Any) -> Any:
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
    return [*mended, *_keep_step_apart()]


def _keep_step_apart() -> list[str]:
    """Let the distributed optimizer load what it has saved when its Adam is torch's.

    That Adam has a ``step`` of each weight, which Megatron saves with the groups of weights and
    looks for beside the moments: "KeyError: 'step'". Before the first step there is none, which
    ends in "assert len(steps) == 1". What it loads is one tensor for all weights, and each weight
    counts it up (0.12.1 to 0.16.1).
    """
    from megatron.core.optimizer import distrib_optimizer

    if getattr(distrib_optimizer, "HAVE_APEX_OR_TE", True):
        return []
    owner = distrib_optimizer.DistributedOptimizer
    get = owner._get_main_param_and_optimizer_states  # noqa: SLF001
    put = owner._set_main_param_and_optimizer_states  # noqa: SLF001

    def got(self: Any, weight: Any) -> Any:
        return {key: value for key, value in get(self, weight).items() if key != "step"}

    def set_(self: Any, weight: Any, tensors: Any) -> None:
        step = {key: value for key, value in get(self, weight).items() if key == "step"}
        put(self, weight, {**step, **tensors})

    state_dict = owner.state_dict

    def state_of(self: Any) -> Any:
        if not self.optimizer.state:
            _step_nowhere(self.optimizer)
        return state_dict(self)

    load_state_dict = owner.load_state_dict

    def load_state(self: Any, state: Any) -> None:
        load_state_dict(self, state)
        for moments in self.optimizer.state.values():
            moments["step"] = moments["step"].clone()

    owner.state_dict = state_of
    owner.load_state_dict = load_state
    owner._get_main_param_and_optimizer_states = got  # noqa: SLF001
    owner._set_main_param_and_optimizer_states = set_  # noqa: SLF001
    return ["DistributedOptimizer keeps Adam's step apart"]


def _step_nowhere(optimizer: Any) -> None:
    """Weights without gradients stay what they are; all others get moments of 0."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
        for weight in group["params"]:
            weight.grad = weight.detach() * 0
    optimizer.step()
    optimizer.zero_grad()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def _names_cuda(torch: Any) -> bool:
    return str(torch.zeros(1, device="npu").type()).startswith("torch.cuda")
