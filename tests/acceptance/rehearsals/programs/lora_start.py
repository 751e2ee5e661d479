"""Writes lora_A of a checkpoint of NPUs as plain tensors: lora_start.py FOLDER FILE.

Run where torch_npu is, which alone reads tensors of NPUs. Each rank has saved its part; FILE has
the whole of each, by layer and name.
"""

# mypy: ignore-errors

import re
import sys
from pathlib import Path

import torch
import torch_npu  # noqa: F401

NAME = re.compile(r"layers\.(\d+)\.\w+\.(\w+)\.lora_A\.\w+\.weight$")
SHARED_OUT = ("linear_proj", "linear_fc2")  # by their columns; others are on each tensor rank


def main(folder: str, file: str) -> None:
    parts = {}
    for path in sorted(Path(folder).glob("iter_*/mp_rank_*/model_optim_rng.pt")):
        stage = int([*path.parent.name.split("_"), "0"][3])
        model = torch.load(path, map_location="cpu", weights_only=False)["model"]
        named = ((NAME.search(key), value) for key, value in model.items())
        own = {match: value.cpu() for match, value in named if match}
        layers = 1 + max(int(match[1]) for match in own)
        for match, value in own.items():
            parts.setdefault((stage * layers + int(match[1]), match[2]), []).append(value)
    whole = {}
    for (layer, name), values in parts.items():
        out = name in SHARED_OUT
        assert out or all(torch.equal(values[0], value) for value in values)
        whole[f"{layer}.{name}"] = torch.cat(values, 1) if out else values[0]
    torch.save(whole, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
