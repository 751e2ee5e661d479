"""Makes a folder with a small Qwen3 of random weights, and a tokenizer: small_qwen3.py FOLDER."""

# mypy: ignore-errors

import json
import sys
from pathlib import Path

sys.modules["torch_npu"] = None

import model
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

SIZES = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}


def main(folder: str) -> None:
    model.main("qwen3", folder)
    torch.manual_seed(1234)
    Qwen3ForCausalLM(Qwen3Config(**SIZES)).float().save_pretrained(folder)
    config = Path(folder) / "config.json"
    settings = json.loads(config.read_text("utf-8"))
    # transformers 4.57.1 writes "dtype"; MindSpeed-LLM's converter reads what hubs have.
    settings["torch_dtype"] = settings.pop("dtype")
    config.write_text(json.dumps(settings), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
