"""Runs in the job's interpreter: random weights for a config.json, or rows as verl reads them.

usage: stand_ins.py weights FOLDER | stand_ins.py rows FILE.parquet COUNT
"""
# ruff: noqa: INP001 - no package: a script for another interpreter

from __future__ import annotations

import sys
from typing import Any


def write_weights(folder: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1234)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
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


if __name__ == "__main__":
    {"weights": write_weights, "rows": write_rows}[sys.argv[1]](*sys.argv[2:])
