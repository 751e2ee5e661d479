"""Files that a launch is configured by, and that nothing here reads."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ascend_doctor.collect.launch import program
from ascend_doctor.facts import UNTOLD
from ascend_doctor.linting.python import find_hydra_main, find_sizes
from ascend_doctor.linting.rl_configuration import HYDRA_FILE, read_configuration
from ascend_doctor.linting.sourcing import SourcedFile, find_above, read_source
from ascend_doctor.patterns import patterns_of

# A program's name comes early in a command; option lists may have thousands of words.
_MOST_BEFORE = 40
(_INTERPRETER, _OPTION, _NAME, _PYTHON, _OF_RAY, _OF_MEGATRON, _NO_TRAINING, _SPLIT) = patterns_of(
    __file__
)
_MOST_WORDS_BEFORE = 4
_MODULE = frozenset({"-m", "--module"})
# Hydra puts a configuration together from others.
_COMPOSED = re.compile(rb"^defaults:", re.MULTILINE)
_SIZED = frozenset({"megatron", "megatron-swift"})
_COMMANDS = frozenset({"llamafactory-cli", "xtuner"})
_LAUNCHERS = {
    *("torchrun", "torch.distributed.run", "torch.distributed.launch"),
    *("accelerate", "deepspeed", "ray"),
}


def find_config_files(words: Sequence[str], script: str) -> Iterator[int]:
    """The numbers of words that name a file whose sizes are not read.

    Megatron has layers, heads and batches to judge. Another program is passed over if neither
    the command nor its file, if readable, spreads anything over ranks.
    """
    if _NO_TRAINING.search(" ".join(_programs(words[:_MOST_BEFORE]))):
        return
    sized = program(words) in _SIZED
    for number in range(len(words)):
        name = _name_of(words, number)
        if name and (sized or _splits(words) or _is_spread(name, script) is not False):
            yield number
    if program(words):
        return
    yield from _find_entries(words, script)
    if _starts_ranks(words):
        yield from (number for number in _splits(words) if not _OF_MEGATRON.match(words[number]))


def is_configured(words: Sequence[str], script: str) -> bool:
    """Whether a file spreads the program over ranks; ROLL takes folder and name in two options."""
    if not any(_INTERPRETER.fullmatch(word) for word in words[:_MOST_WORDS_BEFORE]):
        return False
    if _NO_TRAINING.search(" ".join(_programs(words[:_MOST_BEFORE]))):
        return False
    if names_configuration(words) or any(_find_entries(words, script)):
        return True
    names = (_name_of(words, number) for number in range(len(words)))
    return any(_is_spread(name, script) for name in names if name)


def names_configuration(words: Sequence[str]) -> bool:
    options = {word.partition("=")[0] for word in words if word.startswith("--config")}
    return "--config-name" in options or {"--config_name", "--config_path"} <= options


def _find_entries(words: Sequence[str], script: str) -> Iterator[int]:
    if any(HYDRA_FILE.match(word) for word in words):
        return
    for number, (before, word) in enumerate(pairwise(("", *words[:_MOST_BEFORE]))):
        name = word.replace(".", "/") + ".py" if before in _MODULE else word
        entry = _read(name, script) if _PYTHON.fullmatch(name) else None
        if entry is None:
            continue
        content = entry.content.decode("utf-8", "replace")
        if any(_SPLIT.search(size) for size in find_sizes(content)):
            yield number
            continue
        main = find_hydra_main(content)
        if main is None or not main.name:
            continue
        file = os.path.normpath(
            os.path.join(os.path.dirname(entry.name), main.folder, f"{main.name}.yaml")
        )
        if not _is_judged(file):
            yield number


def _is_judged(file: str) -> bool:
    source = read_source(file)
    if source is None:
        return False
    whole = _COMPOSED.search(source.content) is None
    return (whole and not _spreads(source.content)) or bool(read_configuration(file))


def _splits(words: Sequence[str]) -> list[int]:
    """The numbers of options that spread something over ranks: `--parallel.tp_size 2`."""
    texts = (word.replace("-", "_") for word in words)
    return [
        number
        for number, (word, value) in enumerate(pairwise((*texts, "")))
        if word.startswith("__")
        and _SPLIT.search(f" {word[2:]}" if "=" in word else f" {word[2:]}={value}") is not None
    ]


def _starts_ranks(words: Sequence[str]) -> bool:
    names = {word.rpartition("/")[2] for word in words[:_MOST_BEFORE]}
    programs = [*_programs(words[:_MOST_BEFORE])]
    return any(names & _LAUNCHERS or _OF_RAY.search(name) for name in programs)


def _programs(words: Sequence[str]) -> Iterator[str]:
    for before, word in zip(("", *words), words, strict=False):
        if _PYTHON.fullmatch(word):
            yield word.rpartition("/")[2]
        elif before in _MODULE or before.rpartition("/")[2] in {"swift", "megatron"}:
            yield word.rpartition(".")[2]


def _name_of(words: Sequence[str], number: int) -> str:
    word, following = words[number], "".join(words[number + 1 : number + 2])
    if _OPTION.match(word):
        value = word.partition("=")[2] or following
        of_file = _NAME.fullmatch(value) is not None or UNTOLD in value
        # Of a registry: `--config llama3_8b` (pytorch/torchtitan).
        registered = word == "--config" and _starts_ranks(words) and value[:1].isalpha()
        return value if of_file or registered else ""
    before = words[number - 1] if number else ""
    command = words[number - 2].rpartition("/")[2] if number > 1 else ""
    first = _PYTHON.fullmatch(before) is not None or command in _COMMANDS
    named = _NAME.fullmatch(word) and (command in _COMMANDS or not _PYTHON.fullmatch(word))
    return word if first and named and number < _MOST_BEFORE else ""


def _is_spread(name: str, script: str) -> bool | None:
    source = _read(name, script)
    return None if source is None else _spreads(source.content)


def _read(name: str, script: str) -> SourcedFile | None:
    file = find_above(script, name.strip("\"'")) if UNTOLD not in name else ""
    return read_source(file) if file else None


def _spreads(content: bytes) -> bool:
    return _SPLIT.search(content.decode("utf-8", "replace")) is not None
