"""Training steps in what a run printed: how many, and the first and the last loss.

The lines are those of Megatron-LM (megatron/training/training.py: `training_log`), of
transformers' Trainer, which ms-swift and accelerate's examples have, too, and of verl.
"""

import re
from collections.abc import Iterable

import msgspec

_NUMBER = rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_MEGATRON = re.compile(
    rb"\biteration +(?P<step>\d+)/ *\d+ \|.*?\b(?P<name>[a-z0-9_ ]*loss): (?P<loss>%s)" % _NUMBER
)
_TRAINER = re.compile(rb"\{'(?P<name>loss)': '?(?P<loss>%s)'?[,}]" % _NUMBER)
_VERL = re.compile(
    rb"\bstep:(?P<step>\d{1,9}) - (?:.*? - )?(?P<name>train/loss|actor/pg_loss):(?P<loss>%s)"
    % _NUMBER
)

# Steps of Megatron, ms-swift (trainers/patcher.py), verl (aggregate_logger.py: "step:12 - ").
_COUNTED = (
    (b"iteration ", re.compile(rb"iteration +(\d{1,9})/ *\d+ \|")),
    (b"global_step/max_steps", re.compile(rb"global_step/max_steps['\"]: ['\"](\d{1,9})/\d+")),
    (b"step:", re.compile(rb"\bstep:(\d{1,9}) - ")),
)
# Places to try from the end: a name may be in other lines, and many ranks print one step.
_TRIES = 64


def last_steps(text: bytes) -> dict[int, int]:
    """The last steps, and where in the text the first mention of each begins."""
    steps: dict[int, int] = {}
    for word, shape in _COUNTED:
        stop = len(text)
        for _ in range(_TRIES):
            stop = text.rfind(word, 0, stop)
            if stop < 0:
                break
            if match := shape.match(text, stop):
                steps[int(match[1])] = stop
    return steps


class TrainingSteps(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is the framework's name of the loss."""

    logged: int
    name: str
    first: float
    last: float


def read_steps(lines: Iterable[bytes]) -> TrainingSteps | None:
    """The steps in a log, None without any. A step printed by several ranks is one."""
    losses: dict[int, float] = {}
    name = b""
    for line in lines:
        match = _MEGATRON.search(line) or _TRAINER.search(line) or _VERL.search(line)
        if match:
            name = name or match["name"].strip()
            step = match.groupdict().get("step")
            losses[int(step) if step else len(losses)] = float(match["loss"])
    if not losses:
        return None
    values = list(losses.values())
    return TrainingSteps(logged=len(values), name=name.decode(), first=values[0], last=values[-1])
