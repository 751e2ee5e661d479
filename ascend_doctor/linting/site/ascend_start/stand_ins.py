"""A tiny model, its tokenizer and rows, with which a program goes on to its trainer."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from collections.abc import Callable
from typing import Any

_SIZES = dict.fromkeys(("hidden_size", "intermediate_size", "num_attention_heads"), 2)

_ROWS = 1 << 14
_SECONDS = 12


class TrainerReached(BaseException):
    """The trainer would begin its first step."""


def end(*_: Any, **__: Any) -> None:
    raise TrainerReached


def go_on(framework: Any) -> None:
    """Go on behind the arguments, for some seconds."""
    signal.signal(signal.SIGALRM, end)
    signal.alarm(_SECONDS)
    try:
        getattr(framework, "go_on", dict)()
    finally:
        signal.alarm(0)


def make_model() -> Any:
    transformers = importlib.import_module("transformers")
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_SIZES, num_hidden_layers=1, architectures=["A"])
    )


def make_tokenizer() -> Any:
    tokenizers = importlib.import_module("tokenizers")
    words = tokenizers.models.WordLevel({"a": 0}, "a")
    names = dict.fromkeys(("unk_token", "pad_token", "bos_token", "eos_token"), "a")
    made = importlib.import_module("transformers").PreTrainedTokenizerFast
    return made(tokenizer_object=tokenizers.Tokenizer(words), **names)


def make_rows() -> Any:
    return importlib.import_module("datasets").Dataset.from_list([{"input_ids": [0]}] * _ROWS)


def replace(package: str, **functions: Any) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(package):
            vars(module).update({each: functions[each] for each in functions.keys() & vars(module)})


def reach_trainer(run: Callable[[], Any]) -> None:
    """Run a program up to its trainer's first step."""

    def train(trainer: Any, *_: Any, **__: Any) -> None:
        trainer.get_train_dataloader()
        if trainer.args.eval_on_start:
            trainer.get_eval_dataloader()
        trainer.create_optimizer_and_scheduler(1)
        end()

    importlib.import_module("transformers").Trainer.train = train
    with contextlib.suppress(TrainerReached):
        run()
