"""YAML: its scalars with their places, and verl's configurations."""

import functools
import re
from collections.abc import Iterable, Iterator

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.facts import UNTOLD
from ascend_doctor.linting.positioned_text import Piece, Word
from ascend_doctor.machine.parsing import check_yaml

_MOST_NODES = 50_000
_MOST_DEPTH = 60
# A text to PyYAML, a number to OmegaConf and YAML 1.2.
_FLOAT = re.compile(r"[-+]?\d+(?:\.\d+)?[eE][-+]?\d+")


class Leaf(msgspec.Struct, frozen=True):
    """A scalar: its keys or list numbers, whether written as |, and what YAML takes it for.

    ``spots`` are line and column of each key; a list's number has those of the key above.
    """

    path: tuple[str, ...]
    text: str
    line: int
    column: int
    block: bool = False
    tag: str = ""
    spots: tuple[tuple[int, int], ...] = ()


def leaves(content: str) -> tuple[tuple[Leaf, ...], ...] | None:
    """The scalars of every document; None if it is not YAML."""
    try:
        return _read(content)
    except DataError:
        return None


def why_unread(content: str) -> str:
    """Why this is not YAML, as a template of Helm or Jinja; "" if it is."""
    try:
        _read(content)
    except DataError as error:
        return str(error).removeprefix(": ")
    return ""


@functools.lru_cache(maxsize=1)  # the same file is asked for its launches, and why it has none
def _read(content: str) -> tuple[tuple[Leaf, ...], ...]:
    import yaml

    try:
        check_yaml(content, "")
        documents = list(yaml.compose_all(content, Loader=yaml.CSafeLoader))
        return tuple(
            tuple(_walk(document, (), 0, [0])) for document in documents if document is not None
        )
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DataError(" ".join(str(error).split())) from error


def _walk(
    node: object,
    path: tuple[str, ...],
    depth: int,
    count: list[int],
    spots: tuple[tuple[int, int], ...] = (),
) -> Iterator[Leaf]:
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    count[0] += 1
    # Anchors can make a small file endless.
    if count[0] > _MOST_NODES or depth > _MOST_DEPTH:
        return
    if isinstance(node, ScalarNode):
        mark = node.start_mark
        block = node.style in {"|", ">"}
        plain_float = not node.style and _FLOAT.fullmatch(node.value)
        tag = "float" if plain_float else node.tag.rpartition(":")[2]
        yield Leaf(path, node.value, mark.line + 1, mark.column + 1, block, tag, spots)
    elif isinstance(node, SequenceNode):
        for position, child in enumerate(node.value):
            yield from _walk(child, (*path, str(position)), depth + 1, count, (*spots, *spots[-1:]))
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                # YAML's merge key: its keys are this mapping's.
                merged, mark = key.value == "<<", key.start_mark
                inner = path if merged else (*path, key.value)
                spot = () if merged else ((mark.line + 1, mark.column + 1),)
                yield from _walk(value, inner, depth + 1, count, (*spots, *spot))


def is_of_verl(document: tuple[Leaf, ...]) -> bool:
    """Whether this is verl's, in whole or part: others use its words otherwise."""
    return any(
        leaf.path[:1] == ("actor_rollout_ref",)
        or (leaf.path[-1:] == ("_target_",) and leaf.text.startswith("verl."))
        for leaf in document
    )


def hydra(document: Iterable[Leaf], file: str = "", before: str = "") -> Iterator[Word]:
    """A configuration as overrides: a.b.c=value; interpolations are unknown."""
    for leaf in document:
        if leaf.path:
            lost, at = "${" in leaf.text, (leaf.line, leaf.column)
            text = f"{before}{'.'.join(leaf.path)}={UNTOLD if lost else leaf.text}"
            yield Word(text, *at, (Piece(UNTOLD, *at, leaf.text, file),) * lost, file)
