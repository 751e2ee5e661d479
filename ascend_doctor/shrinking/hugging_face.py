"""What scripts of transformers and trl are told to read, to save and when to end.

Sources: huggingface/transformers@v4.57.1:src/transformers/training_args.py,
huggingface/trl@v0.23.1:trl/scripts, huggingface/diffusers@58eb52c0:examples/discrete_diffusion.
"""

import re
from collections.abc import Sequence
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
    *("hub-model-id", "hub-private-repo", "hub-strategy", "hub-token"),
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
    """A script's options with made-up data and STEPS steps; none is added that its text lacks."""
    pairs = bool(_PAIRS.search(_source(script)))
    small = [option for option in options if option.name not in _LEFT_OUT]
    for at, option in enumerate(small):
        if option.name == "dataset-name":
            small[at] = Option(option.typed, (write_data_set(folder, pairs=pairs),))
    return end_script(small, script, folder, STEPS)


def end_script(options: Sequence[Option], script: str, folder: Path, steps: int) -> list[Option]:
    """A script's options with so many steps, all logged, saving into ``folder``."""
    source = _source(script)
    logged, end = Option("--logging_steps", ("1",)), Option("--max_train_steps", (str(steps),))
    added = [each for each in (end, logged) if re.search(rf"[\"']{each.typed}[\"']", source)]
    gone = {"report-to", "push-to-hub"}
    if _TRAINER.search(source):
        gone |= {"num-train-epochs", "max-steps"}
        end = Option("--max_steps", end.arguments)
        added = [end, logged, Option("--report_to", ("none",))]
    saved = Option("--output_dir", (str(folder / "saved"),))
    left = (option for option in options if option.name not in gone)
    return add_missing([saved if each.name == "output-dir" else each for each in left], added)


def _source(script: str) -> str:
    if not Path(script).is_file():
        return ""
    return read_bytes(script, _LARGEST).decode("utf-8", "replace")
