"""A launch at its true size: its ranks by class, and stand-ins for data that are not here.

Sources: NVIDIA/Megatron-LM@core_v0.12.1 and core_v0.15.3 (megatron/training/arguments.py,
megatron/core/parallel_state.py: ranks in the order tp-cp-ep-dp-pp),
Ascend/MindSpeed-LLM@2.3.0:mindspeed_llm/training/arguments.py.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.shrinking.megatron import PLACES, TOKENIZER, is_pretraining
from ascend_doctor.shrinking.words import LaunchWords, Option

STEPS = 3
# The default number of ranks with a process: each takes 0.7 GiB of this machine.
MOST_REAL = 8
_DATA_PATHS = {"data-path", "train-data-path", "valid-data-path", "test-data-path"}
_TOKENIZERS = {"tokenizer-model", "tokenizer-name-or-path", "vocab-file"}
# MindSpeed-LLM reads a checkpoint of Hugging Face instead of one of Megatron-LM.
_OF_CHECKPOINT = {"enable-hf2mg-convert", "model-type-hf"}


def place_stand_ins(options: Sequence[Option]) -> list[Option]:
    """The options of Megatron-LM's pretraining, with every size as it is.

    Missing inputs get a stand-in; nothing is saved; it ends after some steps. Other programs
    keep all options. Raises DataError if the vocabulary is unknown.
    """
    if not is_pretraining(options):
        return list(options)
    gone = PLACES | _OF_CHECKPOINT
    added: list[Option] = []
    paths = [option for option in options if option.name in _DATA_PATHS]
    if any(map(_is_absent, paths)):
        gone |= {*_DATA_PATHS, "split", "mock-data", "num-workers"}
        # Made-up samples need no processes of their own, of which each takes memory.
        added += [Option("--mock-data"), Option("--num-workers", ("0",))]
    if any(_is_absent(option) for option in options if option.name in _TOKENIZERS):
        gone |= TOKENIZER
        added += _stand_in_tokenizer(options)
    iterations = next((o.number for o in options if o.name == "train-iters"), None)
    if iterations is None or iterations > STEPS:
        gone.add("exit-interval")
        added.append(Option("--exit-interval", (str(STEPS),)))
    return [*(option for option in options if option.name not in gone), *added]


def _stand_in_tokenizer(options: Sequence[Option]) -> Iterator[Option]:
    sizes = {option.name: option.number for option in options}
    words = sizes.get("padded-vocab-size") or sizes.get("vocab-size")
    if not words:
        raise DataError(
            "the tokenizer is not on this machine, so the size of the vocabulary is unknown: "
            "add --padded-vocab-size, or name a tokenizer that is here"
        )
    yield Option("--tokenizer-type", ("NullTokenizer",))
    yield Option("--vocab-size", (str(words - 1),))


def _is_absent(option: Option) -> bool:
    places = [word for word in option.arguments if not word.replace(".", "", 1).isdigit()]
    return any(not (Path(p).exists() or Path(f"{p}.idx").exists()) for p in places)


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
