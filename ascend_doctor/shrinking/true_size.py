"""A launch at its true size: its ranks by class, and stand-ins for data that are not here.

Sources: NVIDIA/Megatron-LM@core_v0.12.1 and core_v0.15.3 (megatron/training/arguments.py,
megatron/core/parallel_state.py: ranks in the order tp-cp-ep-dp-pp),
Ascend/MindSpeed-LLM@2.3.0:mindspeed_llm/training/arguments.py.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from glob import escape, glob
from itertools import chain

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.shrinking.megatron import PLACES, TOKENIZER, choose_inputs
from ascend_doctor.shrinking.words import LaunchWords, Option

STEPS = 3
# The default number of ranks with a process: each takes 0.7 GiB of this machine.
MOST_REAL = 8
_DATA_PATHS = {"data-path", "train-data-path", "valid-data-path", "test-data-path"}
# Of an indexed data set, for pretraining and for fine-tuning.
_ENDS = ("", ".idx", "_packed_*.idx")
_TOKENIZERS = {"tokenizer-model", "tokenizer-name-or-path", "vocab-file"}


class TrueSize(msgspec.Struct, frozen=True, kw_only=True):
    """A launch at its true size. ``world`` in place of its own ranks; ``real`` have a process.

    ``each``: the ranks of a pipeline stage that have one, if they are not named. ``trace``: the
    file for their time line. ``words`` are options in place of the launch's, ``without`` others.
    """

    world: int | None = None
    real: tuple[int, ...] = ()
    each: int | None = None
    trace: str | None = None
    steps: int = STEPS
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def place_stand_ins(
    options: Sequence[Option], write_instructions: Callable[[int, int], str], steps: int = STEPS
) -> list[Option]:
    """The options of a training by Megatron-LM, with every size as it is.

    Missing inputs get a stand-in; nothing is saved; it ends after ``steps``.
    ``write_instructions`` is that of `choose_inputs`. Raises DataError for an unknown vocabulary.
    """
    sizes = {option.name: option.number for option in options}
    gone = set(PLACES)
    added: list[Option] = []
    lacking = {option.name for option in options if _is_absent(option)}
    if lacking:
        words = _count_words(sizes) if lacking & _TOKENIZERS else 2
        length = sizes["seq-length"] or 1
        data, tokenizer = choose_inputs(options, length, words, write_instructions)
        if lacking & _DATA_PATHS:
            gone |= {*_DATA_PATHS, "split", "mock-data", "num-workers"}
            # Made-up samples need no processes of their own, of which each takes memory.
            added += [*data, Option("--num-workers", ("0",))]
        if lacking & _TOKENIZERS:
            gone |= TOKENIZER
            added += tokenizer
    iterations = sizes.get("train-iters")
    if iterations is None or iterations > steps:
        gone.add("exit-interval")
        added.append(Option("--exit-interval", (str(steps),)))
    return [*(option for option in options if option.name not in gone), *added]


def _count_words(sizes: Mapping[str, int | None]) -> int:
    words = sizes.get("padded-vocab-size") or sizes.get("vocab-size")
    if not words:
        raise DataError(
            "the tokenizer is not on this machine, so the size of the vocabulary is unknown: "
            "add --padded-vocab-size, or name a tokenizer that is here"
        )
    return words


def _is_absent(option: Option) -> bool:
    if option.name not in _DATA_PATHS | _TOKENIZERS:
        return False
    places = [word for word in option.arguments if not word.replace(".", "", 1).isdigit()]
    return not all(map(_is_here, places))


def _is_here(name: str) -> bool:
    """Whether it has contents, or names an indexed data set; scripts make empty folders."""
    paths = chain.from_iterable(glob(escape(name) + end) for end in _ENDS)
    return any(not os.path.isdir(path) or os.listdir(path) for path in paths)


def choose_ranks(launch: LaunchWords, world: int, each: int | None = None) -> list[int]:
    """Ranks with a process: all of a small world, else of each pipeline stage the first.

    ``each``: so many of a stage. The second shares the first one's tensor parallel group, the
    third its data parallel group, if the launch has them; others follow in order.
    """
    if each is None and world <= MOST_REAL:
        return list(range(world))
    sizes = {option.name: option.number or 1 for option in launch.options}
    stages = sizes.get("pipeline-model-parallel-size", 1)
    if world % stages:
        return [0]
    stage = world // stages
    tensor = sizes.get("tensor-model-parallel-size", 1)
    replica = tensor * sizes.get("context-parallel-size", 1)
    order = dict.fromkeys([0, 1 if tensor > 1 else replica, replica, *range(stage)])
    chosen = [offset for offset in order if offset < stage][: each or 1]
    return sorted(first + offset for first in range(0, world, stage) for offset in chosen)
