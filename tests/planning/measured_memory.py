"""What a real GPTModel of megatron.core holds and keeps on one rank, on the CPU.

Groups only know their members, so that one process builds any rank of any layout; what collectives
would have received is not there, but its size is. Arguments: the folder of the probes. Input: a
list of {model, layout, run}. Answers: parameters by kind, and elements that backward needs a layer.
"""

import importlib
import json
import sys
from typing import Any

sys.path.append(sys.argv[1])

import _cuda_on_cpu  # type: ignore[import-not-found]
import _megatron  # type: ignore[import-not-found]

sys.path.remove(sys.argv[1])  # its modules are named after what they probe

import torch

_cuda_on_cpu.install("cpu", torch)


# The CPU must answer for CUDA before Megatron asks.
dist = importlib.import_module("torch.distributed")
fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")
parallel_state = importlib.import_module("megatron.core.parallel_state")
specs = importlib.import_module("megatron.core.models.gpt.gpt_layer_specs")
gpt = importlib.import_module("megatron.core.models.gpt.gpt_model")
random = importlib.import_module("megatron.core.tensor_parallel.random")
block = importlib.import_module("megatron.core.transformer.transformer_block")
configuration = importlib.import_module("megatron.core.transformer.transformer_config")
identity = importlib.import_module("megatron.core.transformer.identity_op")

_cuda_on_cpu.after_import(torch)
_megatron._do_without_te()


class Norm(torch.nn.RMSNorm):  # type: ignore[misc]
    def __init__(self, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps)


def replace_norms(spec: Any) -> None:
    for name, part in vars(spec.submodules).items():
        if "layernorm" in name and part is not identity.IdentityOp:
            setattr(spec.submodules, name, Norm)
        elif hasattr(part, "submodules") and part.submodules is not None:
            replace_norms(part)


def config(model: dict[str, Any], layout: dict[str, int], layers: int) -> Any:
    experts: dict[str, Any] = {}
    if model["experts"]:
        experts = {
            "num_moe_experts": model["experts"],
            "moe_router_topk": model["top_k"],
            "moe_ffn_hidden_size": model["expert_ffn"],
            "moe_token_dispatcher_type": "alltoall",
            "moe_router_load_balancing_type": "none",
        }
    return configuration.TransformerConfig(
        num_layers=layers,
        hidden_size=model["hidden"],
        num_attention_heads=model["heads"],
        num_query_groups=model["kv_heads"],
        kv_channels=model["head_dim"],
        ffn_hidden_size=model["ffn"],
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        normalization="RMSNorm",
        qk_layernorm=model["qk_norm"],
        hidden_dropout=0.0,
        attention_dropout=0.0,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        apply_rope_fusion=False,
        sequence_parallel=layout["tp"] > 1,
        use_cpu_initialization=True,
        perform_initialization=False,
        pipeline_dtype=torch.float32,
        tensor_model_parallel_size=layout["tp"],
        pipeline_model_parallel_size=layout["pp"],
        context_parallel_size=layout["cp"],
        expert_model_parallel_size=layout["ep"],
        expert_tensor_parallel_size=layout["etp"] or layout["tp"],
        **experts,
    )


def build(model: dict[str, Any], layout: dict[str, int], layers: int) -> Any:
    spec = specs.get_gpt_layer_local_spec(
        num_experts=model["experts"] or None,
        moe_grouped_gemm=False,
        qk_layernorm=model["qk_norm"],
        normalization="RMSNorm",
    )
    replace_norms(spec)
    settings = config(model, layout, layers)
    multiple = 128 * layout["tp"]
    padded = -(-model["vocabulary"] // multiple) * multiple
    return gpt.GPTModel(
        settings,
        block.TransformerBlockSubmodules(
            layer_specs=[spec] * (layers // layout["pp"]), layer_norm=Norm
        ),
        vocab_size=padded,
        max_sequence_length=4096,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        position_embedding_type="rope",
        share_embeddings_and_output_weights=model["tied"],
        parallel_output=True,
    )


def parameters(module: Any) -> dict[str, int]:
    counts = {"dense": 0, "expert": 0}
    for name, weight in module.named_parameters():
        kind = "expert" if ".experts." in name else "dense"
        counts[kind] += weight.numel()
    return counts


def saved_bytes(module: Any, sequence: int, batch: int) -> int:
    """Storage elements that backward needs, without weights and without scores of attention."""
    weights = {weight.untyped_storage().data_ptr() for weight in module.parameters()}
    storages: dict[int, float] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        square = tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] == sequence
        if tensor.is_floating_point() and not square and storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes() / 4
            held.append(tensor)
        return tensor

    held: list[Any] = []
    tokens = torch.randint(0, 100, (batch, sequence))
    places = torch.arange(sequence).expand(batch, -1)
    mask = torch.ones(1, 1, sequence, sequence, dtype=torch.bool).triu(1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(tokens, places, mask, labels=tokens).sum()
    return int(sum(storages.values()))


def answer(case: dict[str, Any]) -> dict[str, Any]:
    model, layout, run = case["model"], case["layout"], case["run"]
    rank = case.get("rank", 0)
    dist.init_process_group("fake", rank=rank, world_size=layout["npus"], store=fake.FakeStore())
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=layout["tp"],
        pipeline_model_parallel_size=layout["pp"],
        context_parallel_size=layout["cp"],
        expert_model_parallel_size=layout["ep"],
        expert_tensor_parallel_size=layout["etp"] or None,
        create_gloo_process_groups=False,
    )
    random.model_parallel_cuda_manual_seed(1)
    result: dict[str, Any] = parameters(build(model, layout, model["layers"]))
    if case["activations"]:
        sizes = [
            saved_bytes(build(model, layout, layers), run["sequence"], run["micro_batch"])
            for layers in (2, 4)
        ]
        result["layer"] = (sizes[1] - sizes[0]) / 2
        result["rest"] = sizes[0] - 2 * result["layer"]
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
    return result


if __name__ == "__main__":
    sys.stdout.write(json.dumps([answer(request) for request in json.load(sys.stdin)]) + "\n")
