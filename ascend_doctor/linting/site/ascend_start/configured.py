"""Programs that a configuration file completes: accelerate launch, LLaMA-Factory.

A setting of the file is a word behind those of the command.
Sources: huggingface/accelerate@v1.10.1:src/accelerate/commands/launch.py,
hiyouga/LLaMA-Factory@ff6d4d12:src/llamafactory/hparams/parser.py.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import types
from collections.abc import Iterable
from typing import Any

from .composed import Overrides
from .frameworks import DEVICES, be_first_of
from .options import SETTING, CommandWord, ReadOption, read_options


def _nest(words: Iterable[CommandWord]) -> dict[str, Any]:
    """Settings as their file had them; a list's numbers are its keys."""
    yaml = importlib.import_module("yaml")
    whole: dict[str, Any] = {}
    for word in words:
        keys, _, value = word.text.lstrip(SETTING).partition("=")
        *above, last = keys.split(".")
        inner = whole
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = yaml.safe_load(value)
    return whole


def _divide(words: list[CommandWord]) -> tuple[list[CommandWord], list[CommandWord]]:
    """The words of the command, and the settings."""
    of_file = [word for word in words if word.text.startswith(SETTING)]
    return [word for word in words if word not in of_file], of_file


class Accelerate(Overrides):
    """accelerate launch, up to where it starts ranks."""

    folders = ("/accelerate/", "/torch/distributed/")
    module = "accelerate.commands.launch"

    def parse(self, words: list[CommandWord]) -> Any:
        parser = importlib.import_module(self.module).launch_command_parser()
        return parser.parse_args([word.text for word in _divide(words)[0]])

    def options(self, words: list[CommandWord]) -> dict[str, ReadOption]:
        typed, settings = _divide(words)
        parser = importlib.import_module(self.module).launch_command_parser()
        return {**super().options(settings), **read_options(typed, parser)}

    def start(self, words: list[CommandWord], _world: int | None) -> dict[str, Any]:
        args = self.parse(words)
        if settings := _nest(_divide(words)[1]):
            args.config_file = os.path.abspath("accelerate.json")
            with open(args.config_file, "w", encoding="utf-8") as file:
                json.dump(settings, file)
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
    """LLaMA-Factory's training arguments."""

    folders = ("/llamafactory/", "/transformers/")

    def prepare(self, _entry: str, _words: list[CommandWord]) -> None:
        importlib.import_module("llamafactory.hparams.parser")
        importlib.import_module("torch.testing._internal.distributed.fake_pg")

    def start(self, words: list[CommandWord], world: int | None) -> dict[str, Any]:
        typed, settings = _divide(words)
        be_first_of(world or int(os.environ.get("NPROC_PER_NODE") or DEVICES))
        hparams = importlib.import_module("llamafactory.hparams")
        hparams.get_train_args(_nest([*settings, *(word for word in typed if "=" in word.text)]))
        return {}
