"""A launch at its true size: its ranks by class, and stand-ins for data that are not here.

Sources: NVIDIA/Megatron-LM@core_v0.12.1 and core_v0.15.3 (megatron/training/arguments.py,
megatron/core/parallel_state.py: ranks in the order tp-cp-ep-dp-pp),
Ascend/MindSpeed-LLM@2.3.0:mindspeed_llm/training/arguments.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.shrinking.megatron import PLACES, TOKENIZER, is_pretraining
from ascend_doctor.shrinking.words import LaunchWords, Option

STEPS = 3
# Ranks that each have a process where nothing else is asked: 0.7 GiB of this machine for each.
MOST_REAL = 8
_DATA_PATHS = {"data-path", "train-data-path", "valid-data-path", "test-data-path"}
_TOKENIZERS = {"tokenizer-model", "tokenizer-name-or-path", "vocab-file"}
# MindSpeed-LLM reads a checkpoint of Hugging Face where Megatron-LM would one of its own.
_OF_CHECKPOINT = {"enable-hf2mg-convert", "model-type-hf"}


def place_stand_ins(options: Sequence[Option]) -> list[Option]:
    """The options of Megatron-LM's pretraining, with every size as it is.

    What is read from a place that is not here gets a stand-in; nothing is saved; it ends after
    some steps. Other programs keep all options. Raises DataError where the vocabulary is unknown.
    """
    if not is_pretraining(options):
        return list(options)
    gone = PLACES | _OF_CHECKPOINT
    added: list[Option] = []
    paths = [option for option in options if option.name in _DATA_PATHS]
    if any(map(_is_absent, paths)):
        gone |= {*_DATA_PATHS, "split", "mock-data"}
        added.append(Option("--mock-data"))
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
    # It has one word more, the end of a document.
    yield Option("--vocab-size", (str(words - 1),))


def _is_absent(option: Option) -> bool:
    """Whether a named file, or the stem of a data set's files, is not here."""
    places = [word for word in option.arguments if not word.replace(".", "", 1).isdigit()]
    return any(not (Path(p).exists() or Path(f"{p}.idx").exists()) for p in places)


def choose_ranks(launch: LaunchWords, world: int) -> list[int]:
    """Ranks that have a process: all of a small world, else the first of each pipeline stage."""
    if world <= MOST_REAL:
        return list(range(world))
    sizes = {option.name: option.number for option in launch.options}
    stages = sizes.get("pipeline-model-parallel-size") or 1
    if world % stages:
        return [0]
    return list(range(0, world, world // stages))
