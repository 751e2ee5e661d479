"""MindSpeed-RL and MindSpeed-MM: their configuration classes and validation, then Megatron-LM's.

Sources: Ascend/MindSpeed-RL@05a90d77:cli, mindspeed_rl; Ascend/MindSpeed-MM@57069cd5:mindspeed_mm.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import logging
import os
import sys
import types
from typing import Any

from .composed import Overrides, compose, folder_of, nest, write_settings
from .frameworks import Megatron, fewest_ranks
from .options import CommandWord, divide

# What functions that read configurations need; workers import more.
_LIGHT = ("mindspeed_rl.config_cls", "omegaconf", "sys", "typing")
_PATCHES = (
    "mindspeed_mm.tasks.finetune.lora.lora_patch",
    "mindspeed_mm.patchs.validate_args_patch",
)


class MindSpeedRl(Overrides):
    """A trainer's own reading of its configuration, and the arguments of its roles."""

    adapts = True
    folders = (*Megatron.folders, "/mindspeed_rl/", "/cli/", "/hydra/", "/omegaconf/")

    def __init__(self) -> None:
        self._megatron, self._ready = Megatron(), False

    def prepare(self, _entry: str, _words: list[CommandWord]) -> None:
        folder = folder_of("mindspeed_rl")
        importlib.import_module("hydra")
        for name in ("mindspeed_rl", "mindspeed_rl.utils", "mindspeed_rl.utils.utils"):
            module = sys.modules[name] = types.ModuleType(name)
            module.__path__ = [os.path.join(folder, *name.split(".")[1:])]
        sys.modules["mindspeed_rl.utils"].Loggers = logging.getLogger  # type: ignore[attr-defined]
        utils = vars(sys.modules["mindspeed_rl.utils.utils"])
        # The cluster is not here.
        utils |= {**_run_functions(f"{folder}/utils/utils.py"), "get_node_nums": lambda: 1}
        importlib.import_module("torch")

    def adapt(self, entry: str, words: list[CommandWord]) -> None:
        # Not the launch's file.
        folder = os.path.dirname(sys.modules["mindspeed_rl"].__path__[0])
        self._entry = _run_functions(f"{folder}/cli/{os.path.basename(entry)}")
        named = self._entry["main"]
        self._folder = os.path.normpath(os.path.join(os.path.dirname(entry), named["config_path"]))
        self._name = named["config_name"]
        actor: list[CommandWord] = []
        with contextlib.suppress(Exception):  # a start says why
            actor = self._read(words, None)[-1][0]
        if actor:
            self._megatron.prepare("", actor)
            self._ready = True

    def start(self, words: list[CommandWord], world: int | None) -> dict[str, Any]:
        *others, (actor, ranks) = self._read(words, world)
        if not self._ready:  # patches depend on arguments
            return {}
        for arguments, count in others:
            self._megatron.validate(arguments, count)
        self._megatron.start(actor, ranks)
        return {}

    def _read(
        self, words: list[CommandWord], world: int | None
    ) -> list[tuple[list[CommandWord], int]]:
        """Arguments and ranks of the roles, the actor's last."""
        typed, settings = divide(words)
        if settings:
            write_settings(settings, "whole.yaml")
            config = compose(os.getcwd(), "whole", typed)
        else:
            config = compose(self._folder, self._name, typed)
        if "parse_training_config" in self._entry:
            read = self._entry["parse_training_config"](config)
            resources = vars(read["rl_config"])
            # The environment that Ray gives workers.
            file = os.path.join(os.path.dirname(self._folder), resources["runtime_env_path"])
            with contextlib.suppress(OSError), open(file, encoding="utf-8") as source:
                variables = importlib.import_module("yaml").safe_load(source)["env_vars"]
                os.environ.update({name: str(value) for name, value in variables.items()})
            roles = [
                (read[f"{role}_config"], resources[f"{role}_resource"]["num_npus"])
                for role in ("critic", "actor")
                if f"{role}_config" in read
            ]
        else:
            roles = [(self._entry["separate_config_and_parse_args"](config), world)]
        listed = [(_list_arguments(role), ranks) for role, ranks in roles]
        return [(arguments, ranks or fewest_ranks(arguments)) for arguments, ranks in listed]


def _list_arguments(role: Any) -> list[CommandWord]:
    sys.argv = [""]
    sys.modules["mindspeed_rl.utils.utils"].parse_args_from_config(role)
    # As mindspeed_rl/workers/base_worker.py does.
    texts = ("ray_grpo" if text == "ray_dapo" else text for text in sys.argv[1:])
    return [CommandWord(text, -1) for text in texts]


def _run_functions(file: str) -> dict[str, Any]:
    """The functions of a file with what they need; of a decorated one its decorator's options."""
    with open(file, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    functions: dict[str, Any] = {}
    body: list[ast.stmt] = []
    for node in tree.body:
        names = [each.name for each in getattr(node, "names", ())]
        module = getattr(node, "module", None) or "".join(names[:1])
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            keywords = getattr(node.decorator_list[0], "keywords", ())
            functions[node.name] = {
                each.arg: getattr(each.value, "value", None) for each in keywords
            }
        elif isinstance(node, ast.FunctionDef) or module.startswith(_LIGHT):
            body.append(node)
    exec(compile(ast.Module(body, []), file, "exec"), functions)  # noqa: S102 - as the launch does
    return functions


class MindSpeedMm(Megatron):
    """Megatron-LM's training with MindSpeed-MM's arguments; its JSON files are settings."""

    folders = (*Megatron.folders, "/mindspeed_mm/")

    def prepare(self, entry: str, words: list[CommandWord]) -> None:
        super().prepare(entry, words)
        for module in _PATCHES:
            importlib.import_module(module)
        more = importlib.import_module("mindspeed_mm.arguments").extra_args_provider_decorator
        config = importlib.import_module("mindspeed_mm.configs.config")
        self.provider = more(config.mm_extra_args_provider)

    def adapt(self, entry: str, words: list[CommandWord]) -> None:
        super().adapt(entry, words)
        for module in _PATCHES:
            importlib.reload(sys.modules[module])

    def parse(self, words: list[CommandWord]) -> Any:
        typed, settings = divide(words)
        for name, part in nest(settings).items():
            with open(f"{name}.json", "w", encoding="utf-8") as file:
                json.dump(part, file)
            texts = (f"--mm-{name}", os.path.abspath(f"{name}.json"))
            typed += [CommandWord(text, -1) for text in texts]
        return super().parse(typed)


class FsdpTrainer(Overrides):
    """MindSpeed-MM's trainer for FSDP2, up to its arguments."""

    folders = ("/mindspeed_mm/", "/pydantic/")

    def prepare(self, _entry: str, _words: list[CommandWord]) -> None:
        os.environ.setdefault("NON_MEGATRON", "true")
        importlib.import_module("mindspeed_mm.fsdp.params.argument")
        importlib.import_module("mindspeed_mm.config.config_manager")

    def start(self, words: list[CommandWord], world: int | None) -> dict[str, Any]:
        typed, settings = divide(words)
        os.environ.update(WORLD_SIZE=str(world or 1), RANK="0", LOCAL_RANK="0")
        file = write_settings(settings, "config.yaml")
        sys.argv = [sys.argv[0], file, *(word.text for word in typed[1:])]
        sys.modules["mindspeed_mm.config.config_manager"].ConfigManager().load_and_parse()
        return {}
