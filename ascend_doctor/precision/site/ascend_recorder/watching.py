"""Looks on while modules are called, gradients are made and optimizers step."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ascend_recorder.recording import RankRecording

_DEPTH = 4
# Elements with a gradient far below the others' are noise, of which Adam makes whole steps.
_NOISE = 0.05


def watch(recording: RankRecording) -> None:
    """Record every call of a module from now on, and every step of an optimizer."""
    calls = _Calls(recording)
    original = torch.nn.Module.__call__

    @functools.wraps(original)
    def call(module: Any, *arguments: Any, **keywords: Any) -> Any:
        # Inside a compiled model these lines would become part of it.
        if not recording.active or torch.compiler.is_compiling():
            return original(module, *arguments, **keywords)
        return calls.run(original, module, arguments, keywords)

    torch.nn.Module.__call__ = call
    steps = _Steps(recording)
    optimizers = importlib.import_module("torch.optim.optimizer")
    optimizers.register_optimizer_step_pre_hook(steps.before)
    optimizers.register_optimizer_step_post_hook(steps.after)


def tensors(value: Any, slot: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.Tensor):
        yield slot or "0", value
        return
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    for key, item in items if depth else ():
        yield from tensors(item, f"{slot}.{key}" if slot else str(key), depth - 1)


class _Calls:
    def __init__(self, recording: RankRecording) -> None:
        self._recording = recording
        self._local = threading.local()

    def run(self, original: Any, module: Any, arguments: Any, keywords: Any) -> Any:
        callers = self._local.__dict__.setdefault("callers", [])
        if not callers:
            self._recording.begin_call()
        name = self._recording.naming.name(module, callers)
        call = self._recording.count("call", name)
        if not callers:
            self._state(module, call)
        self._values("input", name, call, module, (*arguments, keywords))
        callers.append(module)
        try:
            result = original(module, *arguments, **keywords)
        finally:
            callers.pop()
        self._values("output", name, call, module, result)
        return result

    def _state(self, model: Any, call: int) -> None:
        recording = self._recording
        for name, parameter in recording.naming.parameters():
            if name not in recording.weights:
                recording.weights.add(name)
                recording.add("weight", name, parameter)
                if parameter.requires_grad:
                    parameter.register_hook(functools.partial(self._gradient, name))
        if call == 0:
            for module in model.modules():
                for path, buffer in module.named_buffers(recurse=False):
                    name = recording.naming.name(module, [model])
                    recording.add("buffer", f"{name}.{path}", buffer)

    def _values(self, kind: str, name: str, call: int, module: Any, value: Any) -> None:
        recording = self._recording
        fields = {"type": type(module).__name__, "call": call}
        for slot, tensor in tensors(value):
            attached = tensor.requires_grad and torch.is_grad_enabled()
            recording.add(kind, name, tensor, slot=slot, attached=attached, **fields)
            # A weight that is passed on, as of shared embeddings, has its own hook.
            if attached and not isinstance(tensor, torch.nn.Parameter):
                tensor.register_hook(self._hook(f"{kind}-gradient", name, slot=slot, **fields))

    def _hook(self, kind: str, name: str, **fields: Any) -> Any:
        step = self._recording.step

        def record(gradient: Any) -> None:
            # A graph kept from an earlier step belongs to that one.
            if self._recording.active and self._recording.step == step:
                self._recording.add(kind, name, gradient, **fields)

        return record

    def _gradient(self, name: str, gradient: Any) -> None:
        if self._recording.active:
            call = self._recording.count("weight-gradient", name)
            self._recording.add("weight-gradient", name, gradient, call=call)


class _Steps:
    """Steps of optimizers: their state before, their input, their output."""

    def __init__(self, recording: RankRecording) -> None:
        self._recording = recording

    def before(self, optimizer: Any, *_: Any) -> None:
        recording = self._recording
        if not recording.active:
            return
        for name, parameter in self._parameters(optimizer):
            state = optimizer.state.get(parameter, {})
            for key in sorted(key for key in state if isinstance(state[key], torch.Tensor)):
                recording.add("state", name, state[key], slot=str(key))
        if not recording.optimized:
            # Megatron-LM adds gradients up beside its parameters.
            for name, parameter in recording.naming.parameters():
                if getattr(parameter, "main_grad", None) is not None:
                    recording.add("main-gradient", name, parameter.main_grad)
        for name, parameter in self._parameters(optimizer):
            if parameter.grad is not None:
                recording.add("gradient", name, parameter.grad)

    def after(self, optimizer: Any, *_: Any) -> None:
        recording = self._recording
        if not recording.active:
            return
        for name, parameter in self._parameters(optimizer):
            weights = None if parameter.grad is None else _signal(parameter.grad)
            recording.add("update", name, parameter, weights=weights)
        recording.optimized = True

    def _parameters(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        for number, group in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(group["params"]):
                name = self._recording.naming.parameter(parameter)
                yield name or f"{type(optimizer).__name__}.{number}.{position}", parameter


def _signal(gradient: Any) -> Any:
    """From 0 for elements of a gradient that are noise beside the others, to 1.

    On an NPU torch_npu makes single precision of double: no number may need the range of that.
    """
    least = torch.finfo(torch.float32).tiny
    size = gradient.detach().double().abs()
    square = (size / size.max().clamp_min(least)).square() if size.numel() else size
    return square / (square + _NOISE**2 * square.mean() + least)
