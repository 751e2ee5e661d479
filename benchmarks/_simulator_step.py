"""Measures what simulator_step.py prints, in the interpreter that has torch_npu."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
import torch_npu  # noqa: F401
from torch import nn

PAIRS = int(sys.argv[1]) if sys.argv[1:] else 15
SIZES = ((64, 2, 32), (128, 4, 64), (256, 8, 64))  # hidden size, batch, sequence
VOCABULARY, HEADS = 256, 4


class Block(nn.Module):
    """A transformer layer; attention is spelled out, as in Megatron's local layers, or fused."""

    def __init__(self, hidden: int, *, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.first(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind(0)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            mixed = scores.masked_fill(mask, -torch.inf).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self, hidden: int, *, fused: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.blocks = nn.ModuleList(Block(hidden, fused=fused) for _ in range(2))
        self.out = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.out(x)


def step_on(device: str, size: tuple[int, int, int], *, fused: bool) -> Callable[[], float]:
    hidden, batch, sequence = size
    torch.manual_seed(0)
    model = Model(hidden, fused=fused).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, VOCABULARY, (batch, sequence + 1)).to(device)

    def step() -> float:
        optimizer.zero_grad()
        scores = model(tokens[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def seconds(step: Callable[[], float]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    for fused, size in itertools.product((False, True), SIZES):
        cpu = step_on("cpu", size, fused=fused)
        npu = step_on("npu", size, fused=fused)
        for _ in range(3):
            one, two = cpu(), npu()
        pairs = [(seconds(cpu), seconds(npu)) for _ in range(PAIRS)]
        left, right = (1000 * statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(
            "hidden {:4} batch {} sequence {}: ".format(*size)
            + f"{'fused' if fused else 'plain'} attention, cpu {left:7.2f} ms, "
            f"simulated npu {right:7.2f} ms, ratio {ratio:.2f}, losses {one:.6f} {two:.6f}",
            flush=True,
        )
    os._exit(0)


main()
