"""Gathers parts of a sequence over tensor parallel ranks with Megatron, and checks every element.

Trainers keep the batch first, Megatron the sequence: what a rank has is transposed, gathered, and
transposed back. Rank k gives a block full of k, so a block at another place shows. The gradient is
summed over the ranks if each uses the whole, and is a slice if all use it alike.
"""

from __future__ import annotations

from typing import Any

import _on_megatron
import _probe
from _layouts import ProbeLayout
from _probe import Probe

MANIFEST = {
    "order": 270,
    "level": 3,
    "seconds": 300,
    "seconds_cpu": 180,
    "needs": ["allreduce", "mindspeed-patches"],
    "torchrun": True,
    "does": "parts of a sequence gathered by Megatron's own function, and its gradient",
    "on_cpu": "with megatron-core",
}

# All different, so that a dimension in the place of another shows.
BATCH, LENGTH, WIDTH = 2, 3, 4


def body(probe: Probe) -> None:
    """Parts of a sequence, gathered over tensor parallel ranks."""
    torch = _on_megatron.begin(probe)
    sizes = {size for size in (2, probe.world_size) if probe.world_size % size == 0}
    for size in sorted(sizes):
        layout = ProbeLayout(tp=size)
        with _on_megatron.under(probe, layout), probe.stage(f"gather over {layout.name}"):
            gather(probe, torch, size, summed=True)
            gather(probe, torch, size, summed=False)


def gather(probe: Probe, torch: Any, size: int, *, summed: bool) -> None:
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import gather_from_sequence_parallel_region

    rank = parallel_state.get_tensor_model_parallel_rank()
    value = float(rank + (1 if probe.tampers(probe.stage_name) else 0))
    part = torch.full(
        (BATCH, LENGTH, WIDTH), value, device=probe.torch_device(), requires_grad=True
    )
    whole = gather_from_sequence_parallel_region(
        part.transpose(0, 1).contiguous(), tensor_parallel_output_grad=summed
    ).transpose(0, 1)
    what = f"TP{size}, gradient {'summed' if summed else 'sliced'}"
    probe.expect(f"shape of the whole, {what}", list(whole.shape), [BATCH, size * LENGTH, WIDTH])
    blocks = whole.detach().cpu().reshape(BATCH, size, LENGTH, WIDTH)
    for number in range(size):
        block = blocks[:, number]
        probe.expect(
            f"block {number}, {what}", sorted(set(block.flatten().tolist())), [float(number)]
        )
    # Rank r weighs element e of the sequence by (r + 1) * (e + 1).
    weights = torch.arange(1, size * LENGTH + 1, device=probe.torch_device()).float() * (rank + 1)
    (whole * weights[None, :, None]).sum().backward()
    factor = size * (size + 1) // 2 if summed else rank + 1
    expected = [float(factor * (rank * LENGTH + position + 1)) for position in range(LENGTH)]
    probe.expect(f"gradient, {what}", part.grad[0, :, 0].tolist(), expected)


if __name__ == "__main__":
    _probe.main(body, name="sequence-gather")
