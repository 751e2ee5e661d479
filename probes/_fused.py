"""Flash attention and grouped matrix products for a megatron.core without Transformer Engine.

What MindSpeed puts in their places calls the same operators of torch_npu with the same arguments
(Ascend/MindSpeed@core_r0.15.3:mindspeed/core/transformer/flash_attention/flash_attention/adaptor.py:68,
mindspeed/core/transformer/moe/grouped_matmul_util.py:104). Where there is no NPU, torch's own
kernels take them. The attention of megatron.core refuses context parallelism. Where MindSpeed is at
work its ring has it; else keys and values of all ranks are gathered, which MindSpeed can do, too
(mindspeed/te/pytorch/attention/dot_product_attention/kvallgather_context_parallel.py). Import it
after ``_megatron.load``.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import _probe
import torch
from megatron.core import parallel_state
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from megatron.core.transformer.moe import experts, grouped_gemm_util

# What asks for them; the experts of Transformer Engine are others.
GROUPED = {"moe_grouped_gemm": True, "moe_use_legacy_grouped_gemm": True}


def missing(device: str) -> str:
    """Why there is no training in bfloat16 here, nothing where there is one."""
    if not hasattr(experts, "GroupedMLP"):
        return "this megatron.core has grouped products with Transformer Engine alone"
    if "bfloat16" in _probe.lacking(device):
        return "HCCL adds up no bfloat16 on this chip"
    if device != "npu" and not hasattr(torch.nn.functional, "grouped_mm"):
        return f"torch {torch.__version__} has no grouped_mm"
    return ""


def on_npu(tensor: Any) -> bool:
    return bool(tensor.device.type == "npu")


def kernels(config: Any, device: str) -> dict[str, str]:
    """What computes, by what it computes."""
    npu = device == "npu"
    attention = {"npu": "npu_fusion_attention", "cuda": "torch's memory-efficient attention"}
    kernels_used = {"attention": attention.get(device, "torch's flash attention")}
    if config.num_moe_experts:
        theirs = grouped_gemm_util.ops.gmm
        ours = "npu_grouped_matmul" if npu else "torch's grouped_mm"
        kernels_used["experts"] = ours if theirs is gmm else str(theirs.__module__)
    if config.context_parallel_size > 1:
        gathered = "keys and values gathered by the probe"
        kernels_used["context parallelism"] = "MindSpeed's ring" if ring() else gathered
    return kernels_used


class FlashAttention(torch.nn.Module):
    """A core attention: causal, [sequence, batch, heads, width] to [sequence, batch, hidden]."""

    def __init__(self, config: Any, *_: Any, **__: Any) -> None:
        super().__init__()
        self.scale = config.kv_channels**-0.5
        self.parts = config.context_parallel_size

    def forward(self, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
        # Which tokens of the sequence this rank asks for, and which it sees.
        mine = seen = torch.arange(len(query))
        if self.parts > 1 and (attention := ring()):
            tensors = [tensor.flatten(2) for tensor in (query, key, value)]
            return attention(*tensors, query.shape[2], ring_of(), self.scale)
        if self.parts > 1:
            group = parallel_state.get_context_parallel_group()
            key, value = (
                gather_from_sequence_parallel_region(tensor.contiguous(), group=group)
                for tensor in (key, value)
            )
            places = [positions(rank, self.parts, len(key)) for rank in range(self.parts)]
            mine, seen = places[group.rank()], torch.cat(places)
        later = (seen[None] > mine[:, None]).to(query.device)
        return (run_fused if on_npu(query) else flash)(query, key, value, later, self.scale)


def ring() -> Any:
    """The attention of MindSpeed under context parallelism, where it has patched this Megatron."""
    if "mindspeed.megatron_adaptor" not in sys.modules:
        return None
    from mindspeed.core.context_parallel.ring_context_parallel import ring_context_parallel

    return ring_context_parallel.ringattn_context_parallel


def ring_of() -> dict[str, Any]:
    """One ring of all ranks, as MindSpeed describes it to its attention."""
    group = parallel_state.get_context_parallel_group()
    return {
        "causal": True,
        "cp_group": group,
        "cp_size": group.size(),
        "rank": group.rank(),
        "cp_global_ranks": parallel_state.get_context_parallel_global_ranks(),
        "megatron_cp_in_bnsd": False,
    }


def positions(rank: int, parts: int, length: int) -> Any:
    """Which tokens of the sequence a context parallel rank has: one of the first, one of the last.

    As get_batch_on_this_cp_rank of megatron.core gives them.
    """
    pieces = torch.arange(length).chunk(2 * parts)
    return torch.cat([pieces[rank], pieces[2 * parts - 1 - rank]])


def run_fused(query: Any, key: Any, value: Any, later: Any, scale: float) -> Any:
    import torch_npu

    heads = query.shape[2]
    tensors = [tensor.flatten(2) for tensor in (query, key, value)]
    return torch_npu.npu_fusion_attention(
        *tensors, heads, "SBH", atten_mask=later, scale=scale, keep_prob=1.0
    )[0]


def flash(query: Any, key: Any, value: Any, later: Any, scale: float) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    tensors = [tensor.permute(1, 2, 0, 3) for tensor in (query, key, value)]
    kernel, on_cuda = SDPBackend.FLASH_ATTENTION, query.device.type == "cuda"
    if on_cuda:
        # There the flash kernel takes no mask (seen with torch 2.11.0), and the one that does
        # takes no grouped queries.
        kernel = SDPBackend.EFFICIENT_ATTENTION
        tensors = [
            tensor.repeat_interleave(query.shape[2] // tensor.shape[1], dim=1) for tensor in tensors
        ]
    with sdpa_kernel(kernel):
        output = torch.nn.functional.scaled_dot_product_attention(
            *tensors, attn_mask=~later, scale=scale, enable_gqa=not on_cuda
        )
    return output.permute(2, 0, 1, 3).flatten(2)


class Grouped(torch.autograd.Function):
    """Rows of each group by the matrix of the group, and the gradients, by torch_npu's operator."""

    @staticmethod
    def forward(context: Any, rows: Any, matrices: Any, sizes: Any) -> Any:
        context.save_for_backward(rows, matrices, sizes)
        return product(rows, matrices, sizes)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        rows, matrices, sizes = context.saved_tensors
        to_rows = product(gradient, matrices.transpose(1, 2).contiguous(), sizes)
        return to_rows, product(rows.t(), gradient, sizes, group_type=2), None


def product(left: Any, right: Any, sizes: Any, group_type: int = 0) -> Any:
    import torch_npu

    return torch_npu.npu_grouped_matmul(
        [left],
        [right],
        bias=None,
        group_list=sizes,
        split_item=3,
        group_type=group_type,
        group_list_type=1,
    )[0]


def gmm(rows: Any, matrices: Any, sizes: Any, trans_b: bool = False) -> Any:
    """The function of the package grouped_gemm, as megatron.core calls it."""
    if trans_b:
        matrices = matrices.transpose(1, 2)
    sizes = sizes.to(rows.device, torch.int64)
    if on_npu(rows):
        return Grouped.apply(rows, matrices, sizes)
    # torch takes where groups end, torch_npu with group_list_type 1 how long they are.
    ends = sizes.cumsum(0).to(torch.int32)
    return torch.nn.functional.grouped_mm(rows, matrices, offs=ends)


def install() -> None:
    """Give megatron.core its grouped_gemm.

    Its experts let torch compile their activation, which takes half a minute here. MindSpeed lets
    nobody compile (mindspeed/features_manager/megatron_basic/requirements_basic.py:32).
    """
    experts.jit_fuser = lambda function: function
    if not grouped_gemm_util.grouped_gemm_is_available():
        ops = SimpleNamespace(gmm=gmm)
        grouped_gemm_util.grouped_gemm = SimpleNamespace(ops=ops)
        grouped_gemm_util.ops = ops
