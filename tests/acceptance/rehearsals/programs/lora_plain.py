"""LoRA by hand of a Qwen3 of transformers, on the CPU: MODEL START DATA ORDER RATE STEPS.

MODEL is a folder with its weights, START a file with lora_A of every layer, DATA the prefix of
instructions as tokens, ORDER a file with the order in which they are taken. Query, key and value
have one lora_A together, and so have gate and up: they are one matrix each in Megatron-LM.
"""

# mypy: ignore-errors
# transformers and megatron.core are in the interpreter that runs this, not in the checking one.

import sys
import time
from typing import Any

sys.modules["torch_npu"] = None  # transformers imports it wherever it finds it

import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset
from transformers import Qwen3ForCausalLM

SCALE = 32 / 16
BATCH = 4
TOGETHER = {
    "linear_qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "linear_proj": ("self_attn.o_proj",),
    "linear_fc1": ("mlp.gate_proj", "mlp.up_proj"),
    "linear_fc2": ("mlp.down_proj",),
}


def adapt(model: torch.nn.Module, start: dict[str, torch.Tensor]) -> list[torch.nn.Parameter]:
    """Add its adapter to each linear layer; return what is trained."""
    model.requires_grad_(requires_grad=False)
    trained = []
    for name, weights in start.items():
        layer, together = name.split(".")
        first = torch.nn.Parameter(weights.clone())
        trained.append(first)
        for path in TOGETHER[together]:
            linear = model.model.layers[int(layer)].get_submodule(path)
            second = torch.nn.Parameter(torch.zeros(linear.out_features, len(first)))
            trained.append(second)
            linear.register_forward_hook(
                lambda _, inputs, out, a=first, b=second: out + SCALE * (inputs[0] @ a.T @ b.T)
            )
    return trained


def backward(model: torch.nn.Module, batch: list[Any]) -> float:
    """The mean loss of the batch's rows, with gradients."""
    total = 0.0
    for words, labels in batch:
        loss = model(input_ids=words, labels=labels).loss / len(batch)
        loss.backward()
        total += loss.item()
    return total


def main(folder: str, start: str, data: str, order: str, rate: str, steps: str) -> None:
    model = Qwen3ForCausalLM.from_pretrained(folder, attn_implementation="eager").float()
    trained = adapt(model, torch.load(start))
    optimizer = torch.optim.AdamW(trained, lr=float(rate), betas=(0.9, 0.95), weight_decay=0.1)
    kinds = [IndexedDataset(f"{data}_packed_{name}_document") for name in ("input_ids", "labels")]
    rows = np.load(order).reshape(-1).tolist()
    for step in range(int(steps)):
        begun = time.monotonic()
        chosen = rows[step * BATCH : (step + 1) * BATCH]
        batch = [[torch.tensor(kind[row])[None].long() for kind in kinds] for row in chosen]
        optimizer.zero_grad()
        loss = backward(model, batch)
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        elapsed = 1000 * (time.monotonic() - begun)
        print(f"elapsed time per iteration (ms): {elapsed:.1f} | lm loss: {loss:.6E} | {step + 1}")


if __name__ == "__main__":
    main(*sys.argv[1:])
