"""Ten training steps of a tiny mixture-of-experts GPT of megatron.core, on the CPU or on NPUs.

usage: megatron_moe.py cpu|npu|mindspeed TP EP PP, alone or under torchrun; the losses of the run
are printed by the rank that has them. On the CPU, and on NPUs without MindSpeed, the places where
megatron.core insists on CUDA, or on Transformer Engine, are replaced first.
"""
# mypy: ignore-errors
# torch is in the interpreter that runs this, not in the one that checks it.
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204  untyped replacements

import contextlib
import json
import os
import sys

import torch

MODE, (TP, EP, PP) = sys.argv[1], (int(x) for x in sys.argv[2:5])
sys.argv = sys.argv[:1]  # MindSpeed reads them when it is imported
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
STEPS, SEQUENCE, VOCABULARY = 10, 32, 128


def replace_cuda_by_cpu() -> torch.device:
    class Nothing:
        """A stream, an event, or what entering one gives."""

        def __init__(self, *_args, **_kwargs) -> None: ...
        def __enter__(self):
            return self

        def __exit__(self, *_error) -> None: ...
        def __getattr__(self, _name):
            return lambda *_a, **_k: Nothing()

    cpu = torch.device("cpu")
    # One object each: torch._dynamo keeps a table of these functions by identity.
    replaced = {n: lambda *_: None for n in ("synchronize", "empty_cache", "set_device")}
    replaced |= {n: lambda *_: Nothing() for n in ("stream", "current_stream", "default_stream")}
    replaced |= {"Stream": Nothing, "Event": Nothing, "current_device": lambda: cpu}
    replaced |= {
        "manual_seed": lambda seed: torch.manual_seed(seed),  # noqa: PLW0108
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
    }
    for name, value in replaced.items():
        setattr(torch.cuda, name, value)
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_a, **_k: self

    class OnCpu(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, _types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs["device"] = cpu
            return function(*args, **kwargs)

    OnCpu().__enter__()
    return cpu


def claim_cuda_types() -> None:
    """megatron.core asserts that gradients are torch.cuda.FloatTensor."""
    plain = torch.Tensor.type

    def claimed(self, *args, **kwargs):
        if args or kwargs:
            return plain(self, *args, **kwargs)
        return "torch.cuda." + plain(self).rpartition(".")[2]

    torch.Tensor.type = claimed


class RMSNorm(torch.nn.Module):
    """WrappedTorchNorm refuses sequence parallelism."""

    def __init__(self, config, hidden_size, eps=1e-5, **_others) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.weight.sequence_parallel = config.sequence_parallel
        self.eps = eps

    def forward(self, x):
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return (x.float() * scale).type_as(x) * self.weight


def replace_transformer_engine() -> None:
    from megatron.core.transformer import torch_norm
    from megatron.core.transformer.moe import moe_utils

    if not hasattr(moe_utils, "te_general_gemm"):  # a NameError without it, 0.13.1 to 0.16.1
        moe_utils.te_general_gemm = None
    torch_norm.WrappedTorchNorm.__new__ = staticmethod(lambda _cls, *a, **k: RMSNorm(*a, **k))


def replace_random_state_and_moves() -> None:
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    random._get_cuda_rng_state = lambda *_a, **_k: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *_a, **_k: torch.set_rng_state(state)

    def move(tensor, as_numpy=False, record_stream=False):  # noqa: ARG001
        return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor

    if hasattr(moe_utils, "maybe_move_tensor_to_cpu"):
        moe_utils.maybe_move_tensor_to_cpu = token_dispatcher.maybe_move_tensor_to_cpu = move


def device_and_backend() -> tuple[torch.device, str]:
    if MODE == "cpu":
        device = replace_cuda_by_cpu()
        claim_cuda_types()
        return device, "gloo"
    import torch_npu  # noqa: F401
    from torch_npu.contrib import transfer_to_npu  # noqa: F401

    if MODE == "mindspeed":
        import mindspeed.megatron_adaptor  # noqa: F401
    else:
        claim_cuda_types()
    device = torch.device("npu", int(os.environ.get("LOCAL_RANK", "0")))
    torch.npu.set_device(device)
    return device, "hccl"


def configuration():
    from megatron.core.transformer.transformer_config import TransformerConfig

    return TransformerConfig(
        num_layers=2 * PP, hidden_size=64, num_attention_heads=4, num_query_groups=2,
        ffn_hidden_size=128, num_moe_experts=4, moe_router_topk=2, moe_ffn_hidden_size=64,
        moe_token_dispatcher_type="alltoall", moe_aux_loss_coeff=0.01, gated_linear_unit=True,
        activation_func=torch.nn.functional.silu, add_bias_linear=False, normalization="RMSNorm",
        hidden_dropout=0.0, attention_dropout=0.0, masked_softmax_fusion=False,
        gradient_accumulation_fusion=False, bias_dropout_fusion=False,
        bias_activation_fusion=False, apply_rope_fusion=False, attention_softmax_in_fp32=True,
        tensor_model_parallel_size=TP, pipeline_model_parallel_size=PP,
        expert_model_parallel_size=EP, expert_tensor_parallel_size=1, sequence_parallel=TP > 1,
        use_cpu_initialization=True, params_dtype=torch.float32, pipeline_dtype=torch.float32,
    )  # fmt: skip


def build(config, device):
    from megatron.core import parallel_state
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    spec = get_gpt_layer_local_spec(4, False, False, normalization="RMSNorm")  # noqa: FBT003
    model = GPTModel(
        config, spec, vocab_size=VOCABULARY, max_sequence_length=SEQUENCE,
        position_embedding_type="rope", share_embeddings_and_output_weights=False,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
    ).to(device)  # fmt: skip
    plain = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    wrapped = DistributedDataParallel(config, plain, model)
    adam = OptimizerConfig(
        optimizer="adam", lr=5e-3, weight_decay=0.0, clip_grad=1.0, params_dtype=torch.float32
    )
    optimizer = get_megatron_optimizer(adam, [wrapped])
    config.finalize_model_grads_func = finalize_model_grads
    return wrapped, optimizer


def train(model, optimizer, device) -> list[float]:
    from megatron.core.pipeline_parallel import get_forward_backward_func

    generator = torch.Generator().manual_seed(7)
    shape = (2, SEQUENCE + 1)
    batches = [torch.randint(0, VOCABULARY, shape, generator=generator) for _ in range(2)]
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool).triu(1).to(device)

    def mean(output):
        loss = output.float().mean()
        return loss, {"loss": loss.detach().clone()}

    def forward(batch, part):
        tokens = next(batch).to(device)
        positions = torch.arange(SEQUENCE, device=device).expand(2, -1)
        inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        return part(inputs, positions, mask, labels=labels), mean

    losses = []
    for _ in range(STEPS):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        results = get_forward_backward_func()(
            forward_step_func=forward, data_iterator=iter(batches), model=[model],
            num_microbatches=2, seq_length=SEQUENCE, micro_batch_size=2,
            decoder_seq_length=SEQUENCE, forward_only=False,
        )  # fmt: skip
        optimizer.step()
        losses += [sum(r["loss"].item() for r in results) / 2] if results else []
    return losses


def main() -> None:
    torch.set_num_threads(1)
    device, backend = device_and_backend()
    if WORLD == 1:
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        store = torch.distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
        torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    else:
        torch.distributed.init_process_group(backend)
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed

    parallel_state.initialize_model_parallel(
        TP, PP, expert_model_parallel_size=EP, expert_tensor_parallel_size=1
    )
    if MODE == "cpu":
        replace_random_state_and_moves()
    if MODE != "mindspeed":
        replace_transformer_engine()
    torch.manual_seed(1)
    model_parallel_cuda_manual_seed(1)
    losses = train(*build(configuration(), device), device)
    first = (
        parallel_state.get_tensor_model_parallel_rank() == 0
        and parallel_state.get_data_parallel_rank() == 0
    )
    if losses and first:
        print("LOSSES " + json.dumps(losses), flush=True)  # noqa: T201
    with contextlib.suppress(RuntimeError):
        torch.distributed.barrier()
    os._exit(0)


main()
