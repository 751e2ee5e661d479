"""Answers the CUDA calls of megatron.core on the CPU. For ``--device cpu`` alone, and only then.

megatron.core names CUDA in about a hundred places: ``torch.cuda.current_device()`` and
``device="cuda"`` where it allocates, streams and events around copies, the generator of the device,
and "torch.cuda.FloatTensor" where it sorts parameters by type. Each gets the answer that lets the
same code run on CPU tensors. What Megatron computes is not touched.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any


class Nothing:
    """A stream or an event: on the CPU all that was asked for is already done."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return _done()


def _done() -> Any:
    """A function that does nothing; torch's compiler wants another one under each name."""
    return lambda *_, **__: Nothing()


def install(device: str, torch: Any) -> None:
    """Replace what names CUDA. Raises ValueError on any device but the CPU."""
    if device != "cpu":
        raise ValueError(f"CUDA calls are answered by the CPU on the CPU only, not on {device}")
    _answer_calls(torch)
    _keep_tensors(torch)
    _redirect(torch)
    _share_connections(torch.distributed.distributed_c10d)


def _share_connections(c10d: Any) -> None:
    """Give gloo's groups one thread for connections: that of each wakes up every 10 ms."""
    gloo = c10d.ProcessGroupGloo
    device = functools.cache(gloo.create_default_device)

    class Gloo(gloo):  # type: ignore[misc]
        def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
            options = gloo._Options()  # noqa: SLF001 - torch has no other way
            for name, value in {"devices": [device()], "threads": 2, "timeout": timeout}.items():
                setattr(options, f"_{name}", value)
            super().__init__(store, rank, size, options)

    c10d.ProcessGroupGloo = Gloo


def _answer_calls(torch: Any) -> None:
    cuda, cpu = torch.cuda, torch.device("cpu")
    cuda.current_device = lambda: cpu
    for name in ("synchronize", "empty_cache", "set_device"):
        setattr(cuda, name, _done())
    cuda.Stream = cuda.Event = Nothing
    cuda.current_stream = lambda *_: Nothing()
    cuda.default_stream = lambda *_: Nothing()
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.nvtx.range_push, cuda.nvtx.range_pop = _done(), _done()
    cuda.manual_seed = lambda seed: torch.manual_seed(seed)  # noqa: PLW0108 - see _done
    cuda.get_rng_state = lambda *_, **__: torch.get_rng_state()
    cuda.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)


def _keep_tensors(torch: Any) -> None:
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor
    torch.nn.Module.cuda = lambda module, *_, **__: module
    name_cuda(torch)


def name_cuda(torch: Any) -> None:
    """Let Tensor.type() say torch.cuda.FloatTensor."""
    kind = torch.Tensor.type

    def name_device(tensor: Any, *arguments: Any, **options: Any) -> Any:
        answer = kind(tensor, *arguments, **options)
        return f"torch.cuda.{answer.split('.')[-1]}" if isinstance(answer, str) else answer

    torch.Tensor.type = name_device


def _redirect(torch: Any) -> None:
    """device="cuda" means the CPU, in this thread."""
    from torch.overrides import TorchFunctionMode

    def on_cpu(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "cuda" else value
        return "cpu" if isinstance(value, str) and value.startswith("cuda") else value

    class OnCpu(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, _: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            options = dict(options or {})
            options.pop("pin_memory", None)  # there is nothing to copy to
            if "device" in options:
                options["device"] = on_cpu(options["device"])
            if function is torch.Tensor.to:
                arguments = tuple(on_cpu(argument) for argument in arguments)
            return function(*arguments, **options)

    # Never left: it is for the whole of the process.
    OnCpu().__enter__()


def after_import(torch: Any) -> None:
    """Replace what megatron.core has bound when it was imported."""
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()  # noqa: SLF001
    random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)  # noqa: SLF001

    def on_host(tensor: Any, as_numpy: bool = False, **_: Any) -> Any:
        # Megatron converts only what comes from a GPU, and gloo takes no tensors as lengths.
        return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor

    moe_utils.maybe_move_tensor_to_cpu = on_host
    token_dispatcher.maybe_move_tensor_to_cpu = on_host
