"""What reads key.key=value from the command or a file: verl, composed by Hydra and validated.

Source: verl-project/verl@f9c855f7:verl/utils/config.py, verl/trainer/main_ppo.py.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import types
from collections.abc import Iterable
from typing import Any

from .frameworks import be_first_of
from .options import SETTING, CommandWord
from .stand_ins import make_model, make_rows, make_tokenizer, replace

_NAME = "ppo_trainer"
_SFT, _SFT_CONFIG = "verl.trainer.sft_trainer", "sft_trainer_engine"


class Overrides:
    """What reads key.key=value from the command or a file."""

    overrides = True

    def adapt(self, _entry: str, _words: list[CommandWord]) -> None:
        """Nothing of it depends on the launch."""


def nest(settings: Iterable[CommandWord]) -> dict[str, Any]:
    """Settings as their file had them."""
    whole: dict[str, Any] = {}
    for word in settings:
        keys, _, value = word.text.lstrip(SETTING).partition("=")
        *above, last = keys.split(".")
        inner = whole
        for key in above:
            inner = inner.setdefault(key, {})
        try:
            inner[last] = json.loads(value)
        except ValueError:
            inner[last] = importlib.import_module("yaml").safe_load(value)
    return {key: _list(value) for key, value in whole.items()}


def _list(value: Any) -> Any:
    """A list's numbers are its keys."""
    if not isinstance(value, dict):
        return value
    inner = {key: _list(each) for key, each in value.items()}
    return [*inner.values()] if all(map(str.isdigit, inner)) else inner


def write_settings(settings: Iterable[CommandWord], name: str) -> str:
    """A JSON file with them."""
    with open(name, "w", encoding="utf-8") as file:
        json.dump(nest(settings), file)
    return os.path.abspath(name)


def compose(folder: str, name: str, words: list[CommandWord]) -> Any:
    """Hydra's configuration with the overrides; ``name`` unless the command names another."""
    hydra = importlib.import_module("hydra")
    texts = [word.text for word in words if not word.text.startswith(SETTING)]
    overrides = [text for text in texts if not text.startswith("--")]
    for text, following in zip(texts, [*texts[1:], ""]):
        if text.startswith("--config-"):
            value = text.partition("=")[2] or following
            name = value if text.startswith("--config-name") else name
            overrides = [each for each in overrides if each != value]
    with hydra.initialize_config_dir(folder, version_base=None):
        return hydra.compose(name.removesuffix(".yaml"), overrides)


class Composed(Overrides):
    """A configuration that Hydra composes."""

    adapts = True
    folders = ("/hydra/", "/omegaconf/")

    def prepare(self, entry: str, words: list[CommandWord]) -> None:
        importlib.import_module("hydra")
        self.adapt(entry, words)

    def adapt(self, entry: str, words: list[CommandWord]) -> None:
        """Compose it without its overrides, which shows whether all of it is there."""
        self._file = entry
        plain = [word for word in words if word.text[:2] == "--" or "=" not in word.text]
        compose(*os.path.split(entry), plain)

    def start(self, words: list[CommandWord], _world: int | None) -> dict[str, Any]:
        compose(*os.path.split(self._file), words)
        return {}


class Verl(Overrides):
    """verl's trainers up to their validation, that of SFT up to its optimizer."""

    adapts = True
    folders = ("/verl/", "/hydra/", "/omegaconf/", "/optim/", "/megatron/")

    def prepare(self, entry: str, words: list[CommandWord]) -> None:
        importlib.import_module("hydra")
        importlib.import_module("verl.utils.config")
        self.adapt(entry, words)

    def adapt(self, entry: str, _words: list[CommandWord]) -> None:
        self._entry = entry
        if entry == _SFT:
            with contextlib.suppress(Exception):
                importlib.import_module(entry)

    def start(self, words: list[CommandWord], world: int | None) -> dict[str, Any]:
        name = _SFT_CONFIG if self._entry == _SFT else _NAME
        config = compose(os.path.join(folder_of("verl"), "trainer/config"), name, words)
        importlib.import_module("omegaconf").OmegaConf.resolve(config)
        if self._entry != _SFT:
            self._validate(config)
        self._config, self._world = config, world or 1
        return {}

    def go_on(self) -> None:
        main = sys.modules[self._entry]
        be_first_of(self._world)
        names = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        os.environ.update({**dict.fromkeys(names, "0"), "WORLD_SIZE": str(self._world)})
        tokenizer, model = make_tokenizer(), make_model()
        vars(sys.modules["verl.workers.config.model"]).update(
            copy_to_local=lambda path, **_: path,
            hf_tokenizer=lambda *_, **__: tokenizer,
            **dict.fromkeys(("hf_processor", "get_generation_config"), lambda *_, **__: None),
            AutoConfig=types.SimpleNamespace(from_pretrained=lambda *_, **__: model.config),
        )
        main.auto_set_device(self._config)
        trainer = object.__new__(main.SFTTrainer)
        trainer.config, trainer.train_dataset, trainer.val_dataset = self._config, make_rows(), None
        trainer._build_config()
        replace("verl.", repatch=dict)
        trainer._build_engine()
        trainer._build_dataloader()
        trainer.training_client.reset = dict
        trainer._init_engine()
        engine = trainer.engine
        if trainer.engine_config.strategy == "megatron":
            engine.optimizer = types.SimpleNamespace(param_groups=[])
            engine._build_lr_scheduler()
        else:
            engine._build_lr_scheduler(engine._build_optimizer(model))

    def _validate(self, config: Any) -> None:
        omegaconf = importlib.import_module("omegaconf")
        validation = importlib.import_module("verl.utils.config")
        estimator = str(config.algorithm.adv_estimator)
        critic = config.critic.get("enable", None)
        kl = config.algorithm.use_kl_in_reward or config.actor_rollout_ref.actor.use_kl_loss
        uses_critic = estimator == "gae" if critic is None else bool(critic)
        validation.validate_config(config, bool(kl), uses_critic)
        for part in ("actor_rollout_ref.rollout", "algorithm", "trainer"):
            chosen = omegaconf.OmegaConf.select(config, part)
            if chosen is not None and "_target_" in chosen:
                validation.omega_conf_to_dataclass(chosen)


def folder_of(package: str) -> str:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {package!r}")
    return next(iter(spec.submodule_search_locations))
