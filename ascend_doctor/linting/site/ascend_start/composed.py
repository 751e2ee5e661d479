"""verl: its installed configuration, composed by Hydra with the overrides, and its validation.

Source: verl-project/verl@f9c855f7:verl/utils/config.py, verl/trainer/main_ppo.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from .options import SETTING, UNTOLD, CommandWord, ReadOption

_CONFIG_NAME = "--config-name"
_NAME = "ppo_trainer"
# Before a key: of Hydra, and of a configuration file.
_MARKS = f"+~{SETTING}"


class Overrides:
    """What reads key.key=value from the command or a file."""

    def adapt(self, _entry: str, _words: list[CommandWord]) -> None:
        """Nothing of it depends on the launch."""

    def fill_unknown(self, words: list[CommandWord]) -> tuple[list[CommandWord], list[str]]:
        """Leave out overrides whose values only the shell knows."""
        unknown = [word for word in words if UNTOLD in word.text]
        names = [_last_key(word.text) for word in unknown]
        return [word for word in words if word not in unknown], names

    def options(self, words: list[CommandWord]) -> dict[str, ReadOption]:
        """Overrides by the last part of their keys."""
        options_: dict[str, ReadOption] = {}
        for word in words:
            key, equals, value = word.text.partition("=")
            if equals:
                option = ReadOption(key.lstrip(_MARKS), f"{key}=", [value], [word.at])
                options_.setdefault(_last_key(key), option)
        return options_


class Verl(Overrides):
    """verl.trainer.main_ppo up to the validation of its configuration."""

    folders = ("/verl/", "/hydra/", "/omegaconf/")

    def __init__(self) -> None:
        self._folder = ""

    def prepare(self, _entry: str, _words: list[CommandWord]) -> None:
        importlib.import_module("hydra")
        spec = importlib.util.find_spec("verl")
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError("No module named 'verl'")
        self._folder = os.path.join(next(iter(spec.submodule_search_locations)), "trainer/config")
        importlib.import_module("verl.utils.config")

    def start(self, words: list[CommandWord], _world: int | None) -> dict[str, Any]:
        hydra = importlib.import_module("hydra")
        texts = [word.text for word in words]
        name, overrides = _NAME, [text for text in texts if not text.startswith("--")]
        for text, following in zip(texts, [*texts[1:], ""]):
            if text.startswith("--config-"):
                value = text.partition("=")[2] or following
                name = value if text.startswith(_CONFIG_NAME) else name
                overrides = [each for each in overrides if each != value]
        with hydra.initialize_config_dir(self._folder, version_base=None):
            config = hydra.compose(name.removesuffix(".yaml") if name else _NAME, overrides)
        self._validate(config)
        return {}

    def _validate(self, config: Any) -> None:
        omegaconf = importlib.import_module("omegaconf")
        validation = importlib.import_module("verl.utils.config")
        omegaconf.OmegaConf.resolve(config)
        estimator = str(config.algorithm.adv_estimator)
        critic = config.critic.get("enable", None)
        kl = config.algorithm.use_kl_in_reward or config.actor_rollout_ref.actor.use_kl_loss
        uses_critic = estimator == "gae" if critic is None else bool(critic)
        validation.validate_config(config, bool(kl), uses_critic)
        for part in ("actor_rollout_ref.rollout", "algorithm", "trainer"):
            chosen = omegaconf.OmegaConf.select(config, part)
            if chosen is not None and "_target_" in chosen:
                validation.omega_conf_to_dataclass(chosen)


def _last_key(text: str) -> str:
    return text.partition("=")[0].rpartition(".")[2].lstrip(_MARKS)
