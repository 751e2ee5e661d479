"""Trains a small model again and again, healthy or with a fault, and records every run.

usage: torchrun faulty_job.py JOB DEVICE FOLDER healthy|all|rounded

``rounded`` is healthy, with products whose sums are rounded otherwise, as another chip's are.

The recorder is on sys.path; nothing of torch was imported before.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import ascend_recorder
import torch
import torch.distributed as dist
from cases import Fault, Variant, faults, variants
from damage import damage, disturb

STEPS = 3
EXPERTS = {"num_moe_experts": 4, "moe_token_dispatcher_type": "alltoall"}


class Attention(torch.nn.Module):
    ahead = 0

    def forward(self, x: Any) -> Any:
        scores = x @ x.transpose(-1, -2) / x.shape[-1] ** 0.5
        length = x.shape[-2]
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device)
        return scores.masked_fill(mask.triu(1 + self.ahead), -1e4).softmax(-1) @ x


class Average(torch.nn.Module):
    """Subtracts the mean of earlier steps, as a router's bias or a batch norm does."""

    stale = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x: Any) -> Any:
        result = x - self.mean
        if not self.stale:
            self.mean.mul_(0.5).add_(0.5 * x.detach().mean((0, 1)))
        return result


class Block(torch.nn.Module):
    swapped = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        self.mix = torch.nn.Linear(size, size)
        self.attention = Attention()
        self.average = Average(size)
        self.up = torch.nn.Linear(size, 4 * size)
        self.down = torch.nn.Linear(2 * size, size)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.mix(self.norm(x)))
        gate, up = self.up(self.average(x)).chunk(2, -1)
        if self.swapped:
            gate, up = up, gate
        return x + self.down(torch.nn.functional.silu(gate) * up)


class Model(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, size)
        self.blocks = torch.nn.ModuleList(Block(size) for _ in range(2))
        self.head = torch.nn.Linear(size, 50)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class DdpJob:
    own_data = True

    def build(self, variant: Variant, device: Any) -> tuple[Any, Any]:
        bare = Model(variant.hidden).to(device, getattr(torch, variant.dtype))
        # Broken before it is wrapped: the wrapper's hooks are its own.
        return bare, lambda: torch.nn.parallel.DistributedDataParallel(bare)

    def loss(self, model: Any, tokens: Any) -> Any:
        logits = model(tokens[:, :-1]).float()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class MegatronJob:
    """megatron-core's two-layer GPT over all ranks: tensor parallel, or four experts."""

    def __init__(self, device: str, *, experts: bool) -> None:
        self.experts = self.own_data = experts
        sys.path.insert(0, str(Path(__file__).parents[3] / "probes"))
        if device == "cpu":
            import _cuda_on_cpu

            _cuda_on_cpu.install("cpu", torch)
        else:
            from torch_npu.contrib import transfer_to_npu  # noqa: F401
        from megatron.core import parallel_state

        if device == "cpu":
            _cuda_on_cpu.after_import(torch)
        if experts:
            from megatron.core.transformer.moe import moe_utils

            # A NameError without Transformer Engine, 0.13.1 to 0.16.1.
            if not hasattr(moe_utils, "te_general_gemm"):
                moe_utils.te_general_gemm = None
        kind = "expert_model_parallel_size" if experts else "tensor_model_parallel_size"
        self.sizes = {kind: dist.get_world_size()}
        parallel_state.initialize_model_parallel(**self.sizes)

    def build(self, variant: Variant, device: Any) -> tuple[Any, Any]:
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
        from megatron.core.models.gpt.gpt_model import GPTModel
        from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
        from megatron.core.transformer.transformer_config import TransformerConfig

        model_parallel_cuda_manual_seed(variant.seed)
        dtype = getattr(torch, variant.dtype)
        config = TransformerConfig(
            num_layers=2,
            hidden_size=variant.hidden,
            num_attention_heads=4,
            # Each rank's part of the second matrix is then a square.
            ffn_hidden_size=variant.hidden * (1 if self.experts else 2),
            gated_linear_unit=True,
            activation_func=torch.nn.functional.silu,
            add_bias_linear=False,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            masked_softmax_fusion=False,
            gradient_accumulation_fusion=False,
            bias_dropout_fusion=False,
            bias_activation_fusion=False,
            apply_rope_fusion=False,
            use_cpu_initialization=True,
            params_dtype=dtype,
            bf16=variant.dtype == "bfloat16",
            **self.sizes,
            **(EXPERTS if self.experts else {}),
        )
        bare = GPTModel(
            config=config,
            transformer_layer_spec=get_gpt_layer_local_spec(4 if self.experts else None),
            vocab_size=64,
            max_sequence_length=32,
            position_embedding_type="rope",
        ).to(device, dtype)
        return bare, lambda: bare

    def loss(self, model: Any, tokens: Any) -> Any:
        inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        length = inputs.shape[1]
        positions = torch.arange(length, device=tokens.device).expand_as(inputs)
        mask = torch.ones(1, 1, length, length, dtype=torch.bool).triu(1).to(tokens.device)
        return model(inputs, positions, mask, labels=labels).float().mean()


def round_otherwise() -> None:
    """Make each matrix product the sum of two, each rounded to the product's format."""
    matmul = torch.matmul

    def split_product(left: Any, right: Any, **_: Any) -> Any:
        half = left.shape[-1] // 2
        if left.dim() < 2 or right.dim() < 2 or not half:
            return matmul(left, right)
        first = matmul(left[..., :half], right[..., :half, :])
        return first + matmul(left[..., half:], right[..., half:, :])

    def linear(x: Any, weight: Any, bias: Any = None) -> Any:
        product = split_product(x, weight.t())
        return product if bias is None else product + bias

    torch.matmul, torch.nn.functional.linear = split_product, linear


def train(job: Any, variant: Variant, device: Any, fault: Fault | None) -> None:
    torch.manual_seed(variant.seed)
    bare, wrap = job.build(variant, device)
    broken = damage(fault, bare) if fault else None
    model = wrap()
    optimizer = torch.optim.AdamW(bare.parameters(), lr=1e-3)
    draw = torch.Generator().manual_seed(variant.seed + dist.get_rank() * job.own_data)
    for step in range(STEPS):
        tokens = torch.randint(50, (2, 17), generator=draw).to(device)
        optimizer.zero_grad()
        job.loss(model, tokens).backward()
        if fault:
            disturb(fault, broken, optimizer, step)
        optimizer.step()


def main() -> None:
    name, kind, folder, wish = sys.argv[1:]
    os.environ["ASCEND_DOCTOR_RECORD"] = folder
    recording = ascend_recorder.install()
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cpu")
    if kind == "npu":
        import torch_npu  # noqa: F401

        device = torch.device("npu", rank)
        torch.npu.set_device(device)
    dist.init_process_group("gloo" if kind == "cpu" else "hccl")
    job = DdpJob() if name == "ddp" else MegatronJob(kind, experts=name == "experts")
    rows: list[tuple[str, Variant, Fault | None]]
    rows = [(variant.name, variant, None) for variant in variants(name)]
    if wish == "all":
        rows += [(fault.name, fault.variant, fault) for fault in faults(name)]
    if wish == "rounded":
        round_otherwise()
    for label, variant, fault in rows:
        recording.close()
        recording.__init__(f"{folder}/{label}", STEPS)
        try:
            train(job, variant, device, fault)
        except RuntimeError as error:
            # A fault may fail the job; its values until then are compared.
            sys.stderr.write(f"{label}: {error}\n")
        recording.close()
        dist.barrier()
    dist.destroy_process_group()


main()
