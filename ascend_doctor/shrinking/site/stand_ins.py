"""Runs in the job's interpreter: weights for a config.json, or data as a framework reads it.

usage: stand_ins.py weights FOLDER DEVICE | stand_ins.py rows FILE.parquet COUNT
       stand_ins.py instructions FOLDER LENGTH WORDS SOURCE
"""
# ruff: noqa: INP001 - no package: a script for another interpreter

from __future__ import annotations

import itertools
import sys
from typing import Any

# Enough for a part of the common split 949,50,1.
DOCUMENTS = 16


def write_weights(folder: str, device: str) -> None:
    """Random ones made on the CPU, or holes in a file for those of the meta device."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1234)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    if device == "meta":
        model.to_empty(device="cpu").tie_weights()
    model.save_pretrained(folder)


def write_rows(path: str, count: str) -> None:
    """Questions with answers, in the form of verl's GSM8K example."""
    import pandas as pd

    pd.DataFrame([make_row(number) for number in range(int(count))]).to_parquet(path)


def make_row(number: int) -> dict[str, Any]:
    """In the form of verl's preparation of GSM8K, for fine-tuning too."""
    question, answer = f"What is {number} + 1?", f"It is {number + 1}."
    asked = {"role": "user", "content": question}
    return {
        "data_source": "openai/gsm8k",
        "prompt": [asked],
        "messages": [asked, {"role": "assistant", "content": answer}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
        "extra_info": {"index": number, "split": "train", "question": question, "answer": answer},
    }


def write_instructions(folder: str, length: str, words: str, source: str) -> None:
    """Documents as MindSpeed-LLM's fine-tuning reads them, and a tokenizer with the end they have.

    Its mindspeed_llm/tasks/preprocess/decoder_packed_mtf_dataset.py (c77308a1) takes single fields
    or pairs. SOURCE holds the megatron that writes them.
    """
    sys.path.insert(0, source)
    import numpy as np
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    size = int(length)
    tokens = torch.zeros(size)
    tokens[-1] = 1
    fields = {"input_ids": tokens, "attention_mask": torch.ones(size), "labels": tokens}
    for kind, field in itertools.product(("", "chosen_", "rejected_"), fields):
        path = f"{folder}/documents-of-{length}_packed_{kind}{field}_document"
        builder = IndexedDatasetBuilder(f"{path}.bin", dtype=np.int32)
        for _ in range(DOCUMENTS):
            builder.add_document(fields[field], [size])
        builder.finalize(f"{path}.idx")
    model = models.WordLevel({str(word): word for word in range(int(words))})
    ends = dict.fromkeys(("eos_token", "pad_token"), "1")
    made = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model), **ends)
    made.save_pretrained(folder)


if __name__ == "__main__":
    makers = {"weights": write_weights, "rows": write_rows, "instructions": write_instructions}
    makers[sys.argv[1]](*sys.argv[2:])
