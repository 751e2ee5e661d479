"""Programs that a configuration file completes: accelerate launch, LLaMA-Factory.

A setting of the file is a word behind those of the command.
Sources: huggingface/accelerate@v1.10.1:src/accelerate/commands/launch.py,
hiyouga/LLaMA-Factory@ff6d4d12:src/llamafactory/hparams/parser.py.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import types
from typing import Any

from .composed import Overrides, nest, write_settings
from .frameworks import DEVICES, be_first_of
from .options import CommandWord, divide
from .stand_ins import make_model, make_rows, make_tokenizer, reach_trainer, replace


class Accelerate(Overrides):
    """accelerate launch, up to where it starts ranks."""

    folders = ("/accelerate/", "/torch/distributed/")
    module = "accelerate.commands.launch"

    def parse(self, words: list[CommandWord]) -> Any:
        parser = importlib.import_module(self.module).launch_command_parser()
        return parser.parse_args([word.text for word in divide(words)[0]])

    def start(self, words: list[CommandWord], _world: int | None) -> dict[str, Any]:
        args = self.parse(words)
        if settings := divide(words)[1]:
            args.config_file = write_settings(settings, "accelerate.json")
        started: dict[str, Any] = {}

        def stop(*_: Any, **__: Any) -> Any:
            started["world"] = int(args.num_processes or 1)
            return types.SimpleNamespace(wait=lambda: 0, returncode=0)

        importlib.import_module("torch.distributed.run").run = subprocess.Popen = stop
        for part in ("utils", "commands"):
            launch = importlib.import_module(f"accelerate.{part}.launch")
            launch.is_port_in_use = lambda _: False  # ports of this machine
        importlib.import_module(self.module).launch_command(args)
        return started


class LlamaFactory(Overrides):
    """LLaMA-Factory's workflow."""

    folders = ("/llamafactory/", "/transformers/", "/optim/")
    _tuner: Any = None

    def prepare(self, _entry: str, _words: list[CommandWord]) -> None:
        importlib.import_module("llamafactory.hparams.parser")
        importlib.import_module("torch.testing._internal.distributed.fake_pg")
        with contextlib.suppress(ImportError):
            self._tuner = importlib.import_module("llamafactory.train.tuner")
            make_model()

    def parse(self, words: list[CommandWord]) -> Any:
        typed, settings = divide(words, overrides=True)
        # Options, unless a file comes first.
        sys.argv = ["llamafactory-cli", *(word.text for word in typed)]
        hparams = importlib.import_module("llamafactory.hparams")
        return hparams.get_train_args(nest(settings) if settings else None)

    def start(self, words: list[CommandWord], world: int | None) -> dict[str, Any]:
        be_first_of(world or int(os.environ.get("NPROC_PER_NODE") or DEVICES))
        self._args = self.parse(words)
        return {}

    def go_on(self) -> None:
        data, parts = self._args[1], {"train_dataset": make_rows()}
        if data.eval_dataset or data.val_size:
            parts["eval_dataset"] = parts["train_dataset"]
        replace(
            "llamafactory.",
            get_train_args=lambda _: self._args,
            load_tokenizer=lambda _: {"tokenizer": make_tokenizer(), "processor": None},
            load_model=lambda *_, **__: make_model(),
            get_dataset=lambda *_, **__: parts,
        )
        reach_trainer(lambda: self._tuner._training_function({"args": None, "callbacks": []}))
