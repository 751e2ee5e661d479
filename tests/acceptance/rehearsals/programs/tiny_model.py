"""Makes a folder with a tiny model of random weights, its tokenizer and made-up conversations.

usage: tiny_model.py FAMILY FOLDER, of the families of transformers qwen3 and qwen3_moe

The conversations are in rows.jsonl, and in rows.parquet.
"""

# mypy: ignore-errors

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.modules["torch_npu"] = None  # accelerate imports it where it is

import model
import pandas as pd
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "vocab_size": 320,
    "layer_types": ["full_attention"] * 2,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
    "router_aux_loss_coef": 0.0,
}
WORDS = "one two three four five six seven eight nine ten and is it what"


def rows(number: int) -> Iterator[dict[str, Any]]:
    draw, words = random.Random(3), WORDS.split()
    for _ in range(number):
        texts = (" ".join(draw.choices(words, k=draw.randint(4, 9))) for _ in range(2))
        roles = zip(("user", "assistant"), texts, strict=True)
        yield {"messages": [{"role": role, "content": text} for role, text in roles]}


def main(family: str, folder: str) -> None:
    model.main("qwen3", folder)
    config = AutoConfig.for_model(family)
    config.update(SIZES | (EXPERTS if "moe" in family else {}))
    torch.manual_seed(1)
    made = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    made.save_pretrained(folder)
    table = pd.DataFrame(rows(80))
    table.to_json(Path(folder, "rows.jsonl"), orient="records", lines=True)
    table.to_parquet(Path(folder, "rows.parquet"))


if __name__ == "__main__":
    main(*sys.argv[1:])
