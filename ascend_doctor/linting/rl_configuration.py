"""MindSpeed-RL's configurations: settings are words key.key=value behind what is started."""

import os
import re
from collections.abc import Iterator, Sequence

from ascend_doctor.facts import UNTOLD
from ascend_doctor.linting.documents import Leaf, hydra, leaves
from ascend_doctor.linting.positioned_text import Piece, Word
from ascend_doctor.linting.python import find_hydra_main
from ascend_doctor.linting.sourcing import find_above, read_source

HYDRA_FILE = re.compile(r"(?:--config-(?:name|path|dir)|-c[npd])(?:=|$)")
# Where trainers keep configurations, if their entry file does not say.
_FOLDERS = ("configs", "config")
# The part that all roles share, only in this framework; theirs come behind it.
_SHARED = "megatron_training"
_NOT_GIVEN = {"", "null", "none", "~"}


def is_of_mindspeed_rl(document: Sequence[Leaf]) -> bool:
    """Whether a YAML document is a whole configuration of MindSpeed-RL."""
    return any(leaf.path[0] == _SHARED and len(leaf.path) > 1 for leaf in document if leaf.path)


def add_configuration(words: Sequence[Word], script: str) -> tuple[Word, ...]:
    """The words, with settings in place of a configuration's name if it is MindSpeed-RL's."""
    options, rest = _split_options(words)
    entry = next((number for number, word in enumerate(rest) if word.text.endswith(".py")), 0)
    file = find_above(script, rest[entry].text) if rest and UNTOLD not in rest[entry].text else ""
    source = read_source(file) if file else None
    main = find_hydra_main(source.content.decode("utf-8", "replace")) if source else None
    name = options["n"] or (main.name if main is not None else "")
    folder = options["p"] or (main.folder if main is not None else "")
    if not name or UNTOLD in name + folder:
        return tuple(words)
    name = name if name.endswith(".yaml") else f"{name}.yaml"
    if main is not None:
        path = os.path.normpath(os.path.join(os.path.dirname(file), folder, name))
    else:
        folders = (folder,) if folder else _FOLDERS
        paths = (find_above(script, os.path.join(each, name)) for each in folders)
        path = next((each for each in paths if each), "")
    settings = read_configuration(path) if path else ()
    return (*rest[: entry + 1], *settings, *rest[entry + 1 :]) if settings else tuple(words)


def _split_options(words: Sequence[Word]) -> tuple[dict[str, str], list[Word]]:
    options = {"n": "", "p": ""}
    rest: list[Word] = []
    waiting = ""
    for word in words:
        text = word.text.strip("\"'")
        if waiting:
            options[waiting], waiting = text, ""
        elif HYDRA_FILE.match(text):
            option, equals, value = text.partition("=")
            kind = option.rpartition("-")[2].removeprefix("c")[:1]
            kind = "p" if kind == "d" else kind
            options[kind], waiting = value.strip("\"'"), "" if equals else kind
        else:
            rest.append(word)
    return options, rest


def read_configuration(file: str) -> tuple[Word, ...]:
    """The settings in a file and its models."""
    source = read_source(file)
    documents = leaves(source.content.decode("utf-8", "replace")) if source is not None else None
    return compose(file, next(filter(is_of_mindspeed_rl, documents or ()), ()))


def compose(file: str, document: Sequence[Leaf]) -> tuple[Word, ...]:
    words = [*_read_models(file, document), *_settings(file, document)]
    return tuple(sorted(words, key=lambda word: not word.text.startswith((_SHARED, "model."))))


def _read_models(file: str, document: Sequence[Leaf]) -> Iterator[Word]:
    for leaf in document:
        if leaf.path[:1] == ("defaults",) and leaf.text != "_self_":
            model = os.path.join(os.path.dirname(file), "model", f"{leaf.text}.yaml")
            source = read_source(os.path.normpath(model)) if "model" in leaf.path else None
            content = source.content.decode("utf-8", "replace") if source is not None else ""
            for part in leaves(content) or ():
                yield from _settings(os.path.normpath(model), part, "model.")
            if not content:
                cause = Piece(UNTOLD, leaf.line, leaf.column, f"defaults: {leaf.text}", file)
                key = ".".join(leaf.path)
                yield Word(f"{key}={leaf.text}", leaf.line, leaf.column, (cause,), file)


def _settings(file: str, document: Sequence[Leaf], before: str = "") -> Iterator[Word]:
    own = (leaf for leaf in document if leaf.text.lower() not in _NOT_GIVEN)
    return hydra((leaf for leaf in own if leaf.path[:1] != ("defaults",)), file, before)
