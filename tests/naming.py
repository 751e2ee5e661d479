"""The words of the code: names, classes, functions, comments.

Names are those that the code binds or uses: variables, parameters, attributes, keywords, functions
and classes. A function name is a participle if its first word ends as one does and is not a verb;
names of properties are nouns and not counted.
"""

import ast
import functools
import gc
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PRODUCT = ("ascend_doctor", "probes")
# Grammar, not things.
BANNED = frozenset({"one", "found", "told", "said", "place", "kept", "wanted", "given"})
LONGEST_FUNCTION = 60
# What these call `given` is not ours to name.
_LIBRARIES = ("hypothesis",)
_MAY_BE_BANNED = re.compile(rf"\b_*(?:{'|'.join(sorted(BANNED))})_*\b")
# Nouns, verbs and adjectives of the field that end like participles.
_WORDS = frozenset(
    {"embed", "feed", "need", "seed", "shed", "speed", "shared", "nested", "red", "mindspeed"}
)
# Values of no probe; below, two files that read all keys alike.
_OTHER_VALUES = frozenset(
    {"self", "_state", "launch", "need(Launch)", "drift", "bounds", "recording"}
)
_ANY_KEY = frozenset({"ascend_doctor/probe_results.py", "ascend_doctor/fleet/merge.py"})
# Names of the real CANN that the simulated one offers.
_STAND_INS = frozenset({"get_soc_name"})
_FAMILY = re.compile(r"ascend(310|910|950)\w*")
_IRREGULAR = frozenset(
    {"bound", "built", "chosen", "drawn", "given", "gone", "held", "kept", "known", "left", "lost"}
    | {"made", "meant", "met", "said", "seen", "sent", "shown", "spent", "stood", "taken", "told"}
    | {"thrown", "written", "worn", "found"}
)


class Mention(NamedTuple):
    text: str
    path: Path
    line: int


def sources() -> Iterator[Path]:
    for folder in PRODUCT:
        yield from sorted((ROOT / folder).rglob("*.py"))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text("utf-8"))))


@contextmanager
def without_collection() -> Iterator[None]:
    """Parsing makes millions of objects; the garbage collector triples its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                yield text, node.lineno
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                yield text, node.lineno
            case ast.ClassDef(name=text) | ast.keyword(arg=str(text)):
                yield text, node.lineno
            case ast.MatchAs(name=str(text)) | ast.MatchStar(name=str(text)):
                yield text, node.lineno
            case ast.ExceptHandler(name=str(text)) | ast.alias(asname=str(text)):
                yield text, node.lineno


def is_participle(name: str) -> bool:
    first = name.strip("_").split("_")[0]
    if first in _WORDS:
        return False
    return first in _IRREGULAR or bool(re.fullmatch(r"[a-z]{2,}ed", first))


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark).endswith("property") for mark in node.decorator_list)


def untyped_reads(nodes: Sequence[ast.AST], where: Path) -> Iterator[Mention]:
    """Reads of a probe's values by key, and values of any type in a check."""
    if {"probes", "linting"} & {*where.parts[:2]} or where.as_posix() in _ANY_KEY:
        return
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "values" and id(node) not in called:
            if ast.unparse(node.value).split(".")[-1] not in _OTHER_VALUES:
                yield Mention(ast.unparse(node), where, node.lineno)
        elif "checks" in where.parts and isinstance(node, ast.Name) and node.id == "Any":
            yield Mention("Any", where, node.lineno)


def banned_names(nodes: Iterable[ast.AST], where: Path) -> Iterator[Mention]:
    every = list(nodes)
    foreign = {
        alias.name
        for node in every
        if isinstance(node, ast.ImportFrom) and node.module in _LIBRARIES
        for alias in node.names
    }
    for name, line in names(every):
        if name.strip("_") in BANNED and name not in foreign:
            yield Mention(name, where, line)


def banned_in_tests() -> Iterator[Mention]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        if _MAY_BE_BANNED.search(text):
            yield from banned_names(ast.walk(ast.parse(text)), path.relative_to(ROOT))


def unused_names(trees: Mapping[Path, Sequence[ast.AST]]) -> Iterator[Mention]:
    words: Counter[str] = Counter()
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".html", ".j2", ".toml"}:
                words.update(re.findall(r"\w+", path.read_text("utf-8")))
    words.update(re.findall(r"\w+", (ROOT / "pyproject.toml").read_text("utf-8")))
    for path, (module, *_) in trees.items():
        for node in module.body if isinstance(module, ast.Module) else ():
            if (
                isinstance(node, ast.FunctionDef | ast.ClassDef)
                and not node.decorator_list
                and words[node.name] == 1
                and node.name not in _STAND_INS
            ):
                yield Mention(node.name, path, node.lineno)


def chip_families(nodes: Iterable[ast.AST], where: Path) -> Iterator[Mention]:
    """Chip families by id: their data belongs to matrices/hardware."""
    # The simulated CANN is of one chip; commands have a default family.
    if {"simulator", "commands"} & {*where.parts}:
        return
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if _FAMILY.fullmatch(text):
                yield Mention(text, where, node.lineno)


def long_functions(nodes: Iterable[ast.AST], where: Path) -> Iterator[Mention]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno
            if length >= LONGEST_FUNCTION:
                yield Mention(node.name, where, node.lineno)


def participles(nodes: Iterable[ast.AST], where: Path) -> Iterator[Mention]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and is_participle(node.name) and not is_property(node):
            yield Mention(node.name, where, node.lineno)


def repeated_classes(trees: Mapping[Path, Sequence[ast.AST]]) -> Iterator[Mention]:
    known: set[str] = set()
    for where, nodes in trees.items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                if node.name in known:
                    yield Mention(node.name, where, node.lineno)
                known.add(node.name)


_DOOR = re.compile(
    r"open|os\.(?:open|listdir|scandir|walk|l?stat|readlink)"
    r"|os\.path\.(?:l?exists|is(?:file|dir|link)|realpath)"
    r"|(?!os\.|.*machine\.).*\.(?:open|is_dir|is_file|exists|l?stat|iterdir|r?glob"
    r"|(?:read|write)_(?:text|bytes))"
)
# Behind the door, or readers of the doctor's own files alone.
_INSIDE = {"machine", "simulator", "shrinking", "precision"}


def file_accesses(nodes: Sequence[ast.AST], where: Path) -> Iterator[Mention]:
    """Files opened or tested past machine/, which thinks of pipes and mounts."""
    # Code in a stack's interpreter has no door.
    inside = where.parts[1] in _INSIDE or "site" in where.parts
    if where.parts[0] == "ascend_doctor" and not inside:
        for node in nodes:
            if isinstance(node, ast.Call) and _DOOR.fullmatch(ast.unparse(node.func)):
                yield Mention(ast.unparse(node.func), where, node.lineno)


BY_MODULE: dict[str, Callable[[Sequence[ast.AST], Path], Iterator[Mention]]] = {
    "banned names in the product": banned_names,
    "functions that are participles": participles,
    "functions above 60 lines": long_functions,
    "untyped reads of records": untyped_reads,
    "chip families in code": chip_families,
    "file accesses beside the door": file_accesses,
}


def measure() -> dict[str, list[Mention]]:
    with without_collection():
        trees = {path.relative_to(ROOT): nodes_of(path) for path in sources()}
        measures = {
            name: [mention for where, nodes in trees.items() for mention in look(nodes, where)]
            for name, look in BY_MODULE.items()
        }
        return measures | {
            "classes of the same name": list(repeated_classes(trees)),
            "functions that only tests use": list(unused_names(trees)),
            "banned names in tests": list(banned_in_tests()),
        }
