"""Files that a launch is configured by, and that nothing here reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ascend_doctor.collect.launch import program
from ascend_doctor.facts import UNTOLD
from ascend_doctor.linting.sourcing import find_above, read_source

_MOST_BEFORE = 40
_OPTION = re.compile(r"--(?:config|cfg|conf|args|recipe)(?:[_-](?:file|path|yaml))?(?:=|$)")
_NAME = re.compile(r"\S+\.(?:ya?ml|json|toml|py)")
_PYTHON = re.compile(r"\S*\.py")
_SIZED = frozenset({"megatron", "megatron-swift"})
# LLaMA-Factory and xtuner have commands of their own.
_COMMANDS = frozenset({"llamafactory-cli", "xtuner"})
_LAUNCHERS = frozenset(
    {"torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed"}
)
# Its sizes have rules, whatever program takes them.
_OF_MEGATRON = re.compile(
    r"--(?:(?:tensor|pipeline|expert)[-_]model|context|expert[-_]tensor)[-_]parallel[-_]size"
)
# Neither has groups of ranks to be split, or its sizes are of no training.
_NO_TRAINING = re.compile(
    r"infer|chat|eval|generate|generation|preprocess|convert|export|merge|download|serve|deploy|rollout|test",
    re.IGNORECASE,
)
# A size above 1 of a dimension that ranks are spread over, in YAML, JSON or Python.
_SPLIT = re.compile(
    r"(?:^|[\s\"',{(.])(?:\w*(?:parallel|shard|ulysses|ring)\w*_(?:size|degree)|"
    r"(?:\w+_)?(?:tp|pp|cp|ep|sp|etp|dp|fsdp)(?:_(?:size|degree))?)"
    r"[\"']?\s*[:=]\s*[\"']?(?!1\b|-1\b)\d",
    re.IGNORECASE,
)


def find_config_files(words: Sequence[str], script: str) -> Iterator[int]:
    """The words, by number, that name a file with sizes which are not read.

    Megatron has layers, heads and batches to be judged. Of another program there is nothing to say
    where neither its file, if that can be read, nor the command spreads anything over ranks.
    """
    if _NO_TRAINING.search(" ".join(_programs(words[:_MOST_BEFORE]))):
        return
    sized = program(words) in _SIZED
    for number in range(len(words)):
        name = _name_of(words, number)
        if name and (sized or _splits(words) or not _splits_nothing(name, script)):
            yield number
    if not program(words) and _starts_ranks(words):
        yield from (number for number in _splits(words) if not _OF_MEGATRON.match(words[number]))


def _splits(words: Sequence[str]) -> list[int]:
    """The options, by number, that spread something over ranks: `--parallel.tp_size 2`."""
    texts = (word.replace("-", "_") for word in words)
    return [
        number
        for number, (word, value) in enumerate(pairwise((*texts, "")))
        if word.startswith("__")
        and _SPLIT.search(f" {word[2:]}" if "=" in word else f" {word[2:]}={value}") is not None
    ]


def _starts_ranks(words: Sequence[str]) -> bool:
    """Whether a launcher starts a Python program."""
    names = {word.rpartition("/")[2] for word in words[:_MOST_BEFORE]}
    return bool(names & _LAUNCHERS) and any(True for _ in _programs(words[:_MOST_BEFORE]))


def _programs(words: Sequence[str]) -> Iterator[str]:
    """What is run: entry files and modules, and the command of ms-swift."""
    for before, word in zip(("", *words), words, strict=False):
        if _PYTHON.fullmatch(word):
            yield word.rpartition("/")[2]
        elif before == "-m" or before.rpartition("/")[2] in {"swift", "megatron"}:
            yield word.rpartition(".")[2]


def _name_of(words: Sequence[str], number: int) -> str:
    """The file that a word names as a configuration; "" for any other word."""
    word, following = words[number], "".join(words[number + 1 : number + 2])
    if _OPTION.match(word):
        value = word.partition("=")[2] or following
        return value if _NAME.fullmatch(value) or UNTOLD in value else ""
    before = words[number - 1] if number else ""
    command = words[number - 2].rpartition("/")[2] if number > 1 else ""
    first = _PYTHON.fullmatch(before) is not None or command in _COMMANDS
    named = _NAME.fullmatch(word) and (command in _COMMANDS or not _PYTHON.fullmatch(word))
    return word if first and named and number < _MOST_BEFORE else ""


def _splits_nothing(name: str, script: str) -> bool:
    """Whether a configuration can be read, and spreads nothing over ranks."""
    file = find_above(script, name.strip("\"'")) if UNTOLD not in name else ""
    source = read_source(file) if file else None
    if source is None:
        return False
    return _SPLIT.search(source.content.decode("utf-8", "replace")) is None
