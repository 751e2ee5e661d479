"""What scripts of transformers and trl are told to read, to save and when to end.

Sources: huggingface/transformers@v4.57.1:src/transformers/training_args.py,
huggingface/trl@v0.23.1:trl/scripts, huggingface/diffusers@58eb52c0:examples/discrete_diffusion.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ascend_doctor.machine.files import read_bytes
from ascend_doctor.shrinking.sizes import STEPS
from ascend_doctor.shrinking.stand_ins import write_data_set
from ascend_doctor.shrinking.words import Option, add_missing

_MODELS = {
    *("model", "model-name", "model-id", "model-name-or-path", "base-model", "ref-model"),
    *("base-model-name-or-path", "pretrained-model-name-or-path", "reward-model"),
    *("reward-model-path", "sft-model-path"),
}
_TRAINER = re.compile(r"\b(HfArgumentParser|TrlParser)\b")
_PAIRS = re.compile(r"\b(DPO|CPO|ORPO|Reward)Trainer\b")
_LARGEST = 16 << 20
# Without a network the hub is missing; made-up data has the usual splits and one subset.
_LEFT_OUT = {
    *("push-to-hub", "hub-model-id", "hub-private-repo", "hub-strategy", "hub-token"),
    *("dataset-config", "dataset-config-name", "dataset-train-split", "dataset-test-split"),
    *("resume-from-checkpoint", "with-tracking"),
}


def names_model(option: Option) -> bool:
    """Whether an option names a model; other programs' `--model` is a kind, as lm_eval's `hf`."""
    if option.name not in _MODELS or not option.arguments:
        return False
    value = option.arguments[0]
    return option.name != "model" or "/" in value or Path(value).is_dir()


def shrink_script(options: Sequence[Option], script: str, folder: Path) -> list[Option]:
    """A script's options with made-up data and STEPS steps, all logged, saving into ``folder``.

    Options that the script's own text lacks are not added.
    """
    source = _source(script)
    trainer = bool(_TRAINER.search(source))
    gone = {*_LEFT_OUT, "report-to"} | ({"num-train-epochs"} if trainer else set())
    small = [option for option in options if option.name not in gone]
    small = [_stand_in(option, source, folder) for option in small]
    return add_missing(small, _trainer_end() if trainer else _own_end(source))


def _stand_in(option: Option, source: str, folder: Path) -> Option:
    if option.name == "output-dir":
        return Option(option.typed, (str(folder / "saved"),))
    if option.name == "dataset-name":
        return Option(option.typed, (write_data_set(folder, pairs=bool(_PAIRS.search(source))),))
    return option


def _trainer_end() -> Iterator[Option]:
    yield Option("--max_steps", (str(STEPS),))
    yield Option("--logging_steps", ("1",))
    yield Option("--report_to", ("none",))


def _own_end(source: str) -> Iterator[Option]:
    for name, value in (("--max_train_steps", STEPS), ("--logging_steps", 1)):
        if re.search(rf"[\"']{name}[\"']", source):
            yield Option(name, (str(value),))


def _source(script: str) -> str:
    if not Path(script).is_file():
        return ""
    return read_bytes(script, _LARGEST).decode("utf-8", "replace")
