"""Builds one expert with every way to say the expert tensor parallel size, and loads a weight.

The size (ETP) is asked for in two places that know nothing of each other:
``initialize_model_parallel`` makes the groups, and ``TransformerConfig`` is what weight loaders
read. Left out, each takes the tensor parallel size. The shapes follow the group; a loader cuts by
the configuration. Recorded of each of the four ways: both sizes, the shapes, and whether a weight
that is cut by the configuration fits.
"""

from __future__ import annotations

from typing import Any

import _on_megatron
import _probe
from _layouts import ProbeLayout
from _probe import Probe

MANIFEST = {
    "order": 280,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 180,
    "needs": ["allreduce", "mindspeed-patches"],
    "torchrun": True,
    "does": (
        "the shapes of an expert by where its tensor parallel size is given, and what a weight "
        "loader says"
    ),
    "on_cpu": "with megatron-core",
}

HIDDEN = 8
FFN = 16
EXPERTS = 4
TP = 2
# What initialize_model_parallel and what TransformerConfig is given.
WAYS = {
    "neither": (None, None),
    "both": (1, 1),
    "configuration only": (None, 1),
    "groups only": (1, None),
}


def body(probe: Probe) -> None:
    """Shapes of an expert by where its tensor parallel size is given."""
    if probe.world_size % TP:
        probe.skip("expert tensors sharded over two ranks need an even number of ranks")
    torch = _on_megatron.begin(probe)
    ways: dict[str, Any] = {}
    for name, (group, expert_size) in WAYS.items():
        with (
            _on_megatron.under(probe, ProbeLayout(tp=TP, etp=group)),
            probe.stage(f"expert of {name}"),
        ):
            ways[name] = measure(torch, expert_size)
            if probe.tampers(probe.stage_name):
                ways[name]["group"] += 1
            probe.measure("ways", ways)


def measure(torch: Any, expert_size: int | None) -> dict[str, Any]:
    """The sizes, the shapes of the first expert of this rank, and what a loader says."""
    from megatron.core import parallel_state

    config = configuration(torch, expert_size)
    expert = first_expert(config)
    # The configuration alone decides how a loader cuts; it holds no more than that number.
    size = config.expert_tensor_parallel_size
    errors = {}
    for name, layer, whole in (
        ("fc1", expert.linear_fc1, (2 * FFN, HIDDEN)),
        ("fc2", expert.linear_fc2, (HIDDEN, FFN)),
    ):
        cut = torch.zeros(whole).chunk(size, 0 if name == "fc1" else 1)[0].contiguous()
        try:
            cut.view(layer.weight.shape)
        except RuntimeError as error:
            errors[name] = str(error)
    return {
        "group": parallel_state.get_expert_tensor_parallel_world_size(),
        "configuration": size,
        "fc1": list(expert.linear_fc1.weight.shape),
        "fc2": list(expert.linear_fc2.weight.shape),
        "errors": errors,
    }


def configuration(torch: Any, size: int | None) -> Any:
    """Of a layer with gated experts; the size is not passed where it is None."""
    from megatron.core.transformer.transformer_config import TransformerConfig

    return TransformerConfig(
        num_layers=1,
        hidden_size=HIDDEN,
        num_attention_heads=TP,
        ffn_hidden_size=FFN,
        num_moe_experts=EXPERTS,
        moe_ffn_hidden_size=FFN,
        moe_token_dispatcher_type="alltoall",  # noqa: S106 - tokens are words
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        normalization="RMSNorm",
        sequence_parallel=True,
        use_cpu_initialization=True,
        params_dtype=torch.float32,
        tensor_model_parallel_size=TP,
        **({} if size is None else {"expert_tensor_parallel_size": size}),
    )


def first_expert(config: Any) -> Any:
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.spec_utils import build_module

    norm = _probe.neighbour("_tiny_gpt").Norm
    layer = get_gpt_layer_local_spec(
        num_experts=EXPERTS, moe_grouped_gemm=False, qk_layernorm=False, normalization="RMSNorm"
    )
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = norm
    return build_module(layer, config=config, layer_number=1).mlp.experts.local_experts[0]


if __name__ == "__main__":
    _probe.main(body, name="expert-shapes")
