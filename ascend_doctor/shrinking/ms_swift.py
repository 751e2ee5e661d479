"""What ends a training of ms-swift early, and where it saves.

Source: modelscope/ms-swift@3602360a:swift/megatron/arguments/megatron_args.py.
"""

from collections.abc import Sequence
from pathlib import Path

from ascend_doctor.shrinking.sizes import STEPS
from ascend_doctor.shrinking.words import Option, add_missing

# By launcher. `megatron` counts its steps anew if it has epochs.
_STEPS = {"megatron": "--train_iters", "swift": "--max_steps"}


def end_early(
    options: Sequence[Option], launcher: str, folder: Path, count: int = STEPS
) -> list[Option]:
    """The options with ``count`` steps in place of epochs, all logged, saving into ``folder``."""
    if launcher not in _STEPS:
        return list(options)
    steps = Option(_STEPS[launcher], (str(count),))
    replaced = {
        "num-train-epochs": (),
        "output-dir": (Option("--output_dir", (str(folder / "saved"),)),),
    }
    small = [
        new
        for option in options
        for new in replaced.get(option.name, (option,))
        if option.name != steps.name or (option.number or 0) <= count
    ]
    return add_missing(small, (steps, Option("--logging_steps", ("1",))))
