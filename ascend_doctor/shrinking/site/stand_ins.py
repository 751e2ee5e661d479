"""Runs in the job's interpreter: random weights for a config.json, or rows as verl reads them.

usage: stand_ins.py weights FOLDER | stand_ins.py rows FILE.parquet
"""
# ruff: noqa: INP001 - no package: a script for another interpreter

from __future__ import annotations

import sys

ROWS = 64


def write_weights(folder: str) -> None:
    """Beside the config.json in a folder."""
    import torch  # noqa: PLC0415 - only this needs it
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    torch.manual_seed(1234)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    model.save_pretrained(folder)


def write_rows(path: str) -> None:
    """Questions with answers, in the form of verl's GSM8K example."""
    import pandas as pd  # noqa: PLC0415

    rows = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"What is {number} + 1?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
            "extra_info": {"index": number, "split": "train"},
        }
        for number in range(ROWS)
    ]
    pd.DataFrame(rows).to_parquet(path)


if __name__ == "__main__":
    {"weights": write_weights, "rows": write_rows}[sys.argv[1]](sys.argv[2])
