"""LLaMA-Factory's configurations made small: flat YAML files, and `key=value` words after them.

Source: hiyouga/LLaMA-Factory@ff6d4d12e:src/llamafactory/hparams.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import reason
from ascend_doctor.shrinking.sizes import PARALLEL, SEQUENCE, STEPS, TRAINER
from ascend_doctor.shrinking.stand_ins import ROWS
from ascend_doctor.shrinking.words import Option

_ENTRY = re.compile(r"(?P<key>[a-z_0-9]+)\s*:\s+(?P<value>[^#\n]*)")
_FILES = (".yaml", ".yml")
_SMALL = {
    "cutoff_len": SEQUENCE, "max_steps": STEPS, "max_samples": ROWS,
    "preprocessing_num_workers": 1,
    **{name.replace("-", "_"): size for name, size in TRAINER.items()},
    **{name.replace("-", "_"): 2 for name in PARALLEL},
}  # fmt: skip
_MODELS = {"model_name_or_path", "ref_model", "reward_model"}
_LEFT_OUT = {"adapter_name_or_path", "resume_from_checkpoint"}
_ADDED = ("max_steps", "max_samples")


def find_configuration(options: Sequence[Option]) -> str | None:
    """The word for a training's configuration, in a command without options."""
    words = options[0].arguments if options and not options[0].typed else ()
    if words and words[0].endswith(_FILES) and Path(words[0]).is_file():
        keys = read_settings(words[0]).keys()
        return words[0] if {"stage", "model_name_or_path"} <= keys else None
    return None


def read_settings(file: str) -> dict[str, str]:
    """A configuration's settings, a key a line. Raises DataError if it cannot be read."""
    entries = map(_ENTRY.match, _lines(file))
    return {entry["key"]: entry["value"].strip().strip("'\"") for entry in entries if entry}


def parallel_sizes(settings: Mapping[str, str]) -> dict[str, int]:
    sizes = {name: settings.get(name.replace("-", "_"), "") for name in PARALLEL}
    return {name: int(size) for name, size in sizes.items() if size.isdigit()}


def shrink_words(
    file: str, words: Sequence[str], folder: Path, copy_model: Callable[[str], str]
) -> list[str]:
    """Words after a configuration that override what is large; output goes into ``folder``."""
    typed = (word.partition("=")[::2] for word in words)
    settings = {**dict.fromkeys(_ADDED, "10000"), **read_settings(file), **dict(typed)}
    small = ((key, _small_value(key, old, folder, copy_model)) for key, old in settings.items())
    return [*words, *(f"{key}={new}" for key, new in small if new != settings[key])]


def _small_value(key: str, value: str, folder: Path, copy_model: Callable[[str], str]) -> str:
    if key in _LEFT_OUT:
        return "null"
    if key in _MODELS:
        return copy_model(value)
    if key == "output_dir":
        return str(folder / "saved")
    limit = _SMALL.get(key)
    small = limit is not None and value.isdigit() and int(value) > limit
    return str(limit) if small else value


def _lines(file: str) -> Iterator[str]:
    try:
        yield from Path(file).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: {reason(error)}") from error
