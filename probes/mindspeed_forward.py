"""Runs what MindSpeed gives Megatron on one device: types, attention without a mask, the CP ring.

Each case is a process of its own, because MindSpeed's arguments are set once. ``types``: what
Tensor.type() says; Megatron's optimizers sort parameters by it. ``flash``, ``batch`` and
``neither``: a causal attention without a mask, for which MindSpeed makes one, from use_flash_attn,
from micro_batch_size, or from neither, by value. ``ring``: the ranks of the context parallel ring
after the groups were made, in a world of two of which only the members are there.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import _cases
import _probe
from _members import pretend
from _patches import import_patched, name_of
from _probe import Probe

MANIFEST = {
    "order": 80,
    "level": 2,
    "seconds": 300,
    "seconds_cpu": 90,
    "needs": ["device", "mindspeed-patches"],
    "does": (
        "with MindSpeed: what tensors call themselves, causal attention without a mask by value, "
        "the ring of context parallelism"
    ),
    "on_cpu": "skipped: MindSpeed is for NPUs",
}

CASE_SECONDS = 180.0
# Sequence, batch, heads, head size; what fits the fused operator and small tests.
SEQUENCE, BATCH, HEADS, SIZE = 64, 2, 4, 16
DTYPES = ("float32", "float16", "bfloat16")


def body(probe: Probe) -> None:
    """MindSpeed's attention, types and ring groups on one device."""
    if probe.device != "npu":
        probe.skip(f"MindSpeed is for NPUs; the device is {probe.device}")
    with probe.stage("find"):
        for name in ("mindspeed", "megatron"):
            if importlib.util.find_spec(name) is None:
                probe.skip(f"{name} is not installed")
    _cases.run(probe, __file__, list(CASES), limit=CASE_SECONDS, apart=True)


def groups(torch: Any, world_size: int, context: int) -> Any:
    """Megatron's groups, over a backend that only knows members."""
    from megatron.core import parallel_state

    pretend(torch, 0, world_size)
    parallel_state.initialize_model_parallel(
        context_parallel_size=context, create_gloo_process_groups=False
    )
    return parallel_state


def types(torch: Any, device: str) -> dict[str, Any]:
    import_patched()
    tensors = {name: torch.zeros(1, device=device, dtype=getattr(torch, name)) for name in DTYPES}
    return {
        "types": {name: str(tensor.type()) for name, tensor in tensors.items()},
        "parameter": str(torch.nn.Parameter(tensors["float32"]).type()),
    }


def attention(torch: Any, device: str, **options: Any) -> dict[str, Any]:
    """The largest error of a causal attention that gets no mask, in float16."""
    # MindSpeed 26.1.0 reads this without a default; Megatron's command line has one.
    options = {"transformer_impl": "local", **options}
    sizes = {"seq_length": SEQUENCE, "hidden_size": HEADS * SIZE, "num_attention_heads": HEADS}
    import_patched(context_parallel_size=1, tensor_model_parallel_size=1, **sizes, **options)
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.dot_product_attention import DotProductAttention
    from megatron.core.transformer.enums import AttnMaskType

    groups(torch, 1, 1)
    model_parallel_cuda_manual_seed(1234)
    config = TransformerConfig(
        num_layers=1,
        hidden_size=HEADS * SIZE,
        num_attention_heads=HEADS,
        attention_dropout=0.0,
        fp16=True,
        params_dtype=torch.float16,
    )
    for name, value in options.items():
        setattr(config, name, value)
    layer = DotProductAttention(
        config, layer_number=1, attn_mask_type=AttnMaskType.causal, attention_type="self"
    )
    generator = torch.Generator().manual_seed(1234)
    shape = (SEQUENCE, BATCH, HEADS, SIZE)
    query, key, value = (torch.randn(shape, generator=generator).half() for _ in range(3))
    output = layer(
        query.to(device), key.to(device), value.to(device), None, attn_mask_type=AttnMaskType.causal
    )
    # Megatron's axes are sequence, batch, head, size.
    exact = [tensor.double().permute(1, 2, 0, 3) for tensor in (query, key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(*exact, is_causal=True)
    expected = expected.permute(2, 0, 1, 3).reshape(SEQUENCE, BATCH, HEADS * SIZE)
    off = (output.detach().cpu().double() - expected).abs().max().item()
    return {"class": name_of(type(layer)), "forward": name_of(type(layer).forward), "off": off}


def ring(torch: Any, _: str) -> dict[str, Any]:
    options = {"context_parallel_size": 2, "use_flash_attn": True, "tp_2d": False}
    import_patched(tensor_model_parallel_size=1, **options)
    state = groups(torch, 2, 2)
    utils = importlib.import_module("mindspeed.core.context_parallel.model_parallel_utils")
    return {
        "group": list(
            torch.distributed.get_process_group_ranks(state.get_context_parallel_group())
        ),
        "ring": list(utils.get_ring_ranks_for_intra_window()),
    }


CASES: dict[str, _cases.Case] = {
    "types": types,
    "flash": lambda torch, device: attention(torch, device, use_flash_attn=True),
    "batch": lambda torch, device: attention(torch, device, micro_batch_size=BATCH),
    "neither": attention,
    "ring": ring,
}


if __name__ == "__main__":
    _cases.answer(CASES)
    _probe.main(body, name="mindspeed-forward")
