"""Measures the words of the code: names, classes, functions, comments and files.

usage: python -m tests.house [--where NAME]

Names are those that the code binds or uses: variables, parameters, attributes, keywords, functions
and classes. A function name is a participle where its first word ends as one does and is no verb;
properties are named as what they hold, and are not counted among these.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PRODUCT = ("ascend_doctor", "probes")
# Grammar, not things.
BANNED = frozenset({"one", "found", "told", "said", "place", "kept", "wanted", "given"})
LONGEST_FUNCTION = 60
# Words that end as participles do and are verbs, nouns or adjectives of the field.
_WORDS = frozenset(
    {"embed", "feed", "need", "seed", "shed", "speed", "shared", "nested", "red", "mindspeed"}
)
# Values that are no probe's, and the two that read all keys alike.
_OTHER_VALUES = frozenset(
    {"self", "_state", "launch", "need(Launch)", "drift", "bounds", "recording"}
)
_ANY_KEY = frozenset({"ascend_doctor/probe_results.py", "ascend_doctor/fleet/merge.py"})
# What the simulated CANN offers under the names of the real one.
_STAND_INS = frozenset({"get_soc_name"})
_FAMILY = re.compile(r"ascend(310|910|950)\w*")
_IRREGULAR = frozenset(
    {"bound", "built", "chosen", "drawn", "given", "gone", "held", "kept", "known", "left", "lost"}
    | {"made", "meant", "met", "said", "seen", "sent", "shown", "spent", "stood", "taken", "told"}
    | {"thrown", "written", "worn", "found"}
)


class Name(NamedTuple):
    """A name where it stands."""

    text: str
    path: Path
    line: int


class House(NamedTuple):
    """Product code, measured."""

    lines: int
    names: Counter[str]
    banned: tuple[Name, ...]
    twice: dict[str, tuple[Path, ...]]
    participles: tuple[Name, ...]
    functions: int
    long_functions: tuple[Name, ...]
    untyped: tuple[Name, ...]
    unused: tuple[Name, ...]
    chips: tuple[Name, ...]
    comment_lines: int
    file_lines: tuple[int, ...]


def sources() -> Iterator[Path]:
    for folder in PRODUCT:
        yield from sorted((ROOT / folder).rglob("*.py"))


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
            case ast.ExceptHandler(name=str(text)):
                yield text, node.lineno


def is_participle(name: str) -> bool:
    first = name.strip("_").split("_")[0]
    if first in _WORDS:
        return False
    return first in _IRREGULAR or bool(re.fullmatch(r"[a-z]{2,}ed", first))


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark).endswith("property") for mark in node.decorator_list)


def untyped_reads(nodes: Sequence[ast.AST], where: Path) -> Iterator[tuple[str, int]]:
    """Where code reads what a probe wrote by its keys, and where a check has values of any type."""
    if {"probes", "linting"} & {*where.parts[:2]} or where.as_posix() in _ANY_KEY:
        return
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "values" and id(node) not in called:
            if ast.unparse(node.value).split(".")[-1] not in _OTHER_VALUES:
                yield ast.unparse(node), node.lineno
        elif "checks" in where.parts and isinstance(node, ast.Name) and node.id == "Any":
            yield "Any", node.lineno


def unused_names() -> Iterator[Name]:
    """Functions and classes of modules that no product code names but where they are defined."""
    words: Counter[str] = Counter()
    for folder in PRODUCT:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".html", ".j2", ".toml"}:
                words.update(re.findall(r"\w+", path.read_text("utf-8")))
    words.update(re.findall(r"\w+", (ROOT / "pyproject.toml").read_text("utf-8")))
    for path in sources():
        for node in ast.parse(path.read_text("utf-8")).body:
            if (
                isinstance(node, ast.FunctionDef | ast.ClassDef)
                and not node.decorator_list
                and words[node.name] == 1
                and node.name not in _STAND_INS
            ):
                yield Name(node.name, path.relative_to(ROOT), node.lineno)


def chip_families(nodes: Iterable[ast.AST], where: Path) -> Iterator[tuple[str, int]]:
    """Families of chips by id: what is known of them stands in matrices/hardware."""
    # The simulated CANN is of one chip; commands have a family for a default.
    if {"simulator", "commands"} & {*where.parts}:
        return
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if _FAMILY.fullmatch(text):
                yield text, node.lineno


def comment_lines(text: str, nodes: Iterable[ast.AST]) -> int:
    """Lines that are comments, and not part of a string."""
    strings = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in nodes
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno
    ]
    lines = (line for line, words in enumerate(text.split("\n"), 1) if words.lstrip()[:1] == "#")
    return sum(not any(line in span for span in strings) for line in lines)


def measure() -> House:
    every: Counter[str] = Counter()
    banned, participles, long_functions, untyped, chips = [], [], [], [], []
    classes: defaultdict[str, list[Path]] = defaultdict(list)
    functions = comments = 0
    sizes = []
    for path in sources():
        text = path.read_text("utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        sizes.append(text.count("\n"))
        comments += comment_lines(text, nodes)
        where = path.relative_to(ROOT)
        untyped += [Name(name, where, line) for name, line in untyped_reads(nodes, where)]
        chips += [Name(name, where, line) for name, line in chip_families(nodes, where)]
        for name, line in names(nodes):
            every[name] += 1
            if name.strip("_") in BANNED:
                banned.append(Name(name, where, line))
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(where)
            elif isinstance(node, ast.FunctionDef):
                functions += 1
                if is_participle(node.name) and not is_property(node):
                    participles.append(Name(node.name, where, node.lineno))
                if (node.end_lineno or node.lineno) - node.lineno >= LONGEST_FUNCTION:
                    long_functions.append(Name(node.name, where, node.lineno))
    return House(
        lines=sum(sizes),
        names=every,
        banned=tuple(banned),
        twice={name: tuple(paths) for name, paths in classes.items() if len(paths) > 1},
        participles=tuple(participles),
        functions=functions,
        long_functions=tuple(long_functions),
        untyped=tuple(untyped),
        unused=tuple(unused_names()),
        chips=tuple(chips),
        comment_lines=comments,
        file_lines=tuple(sizes),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--where", metavar="NAME", help="list where this name stands")
    where = parser.parse_args().where
    house = measure()
    if where:
        lists = (house.banned, house.participles, house.long_functions, house.untyped)
        for name in itertools.chain(*lists, house.unused, house.chips):
            if where in {name.text, "all"}:
                sys.stdout.write(f"{name.path}:{name.line}: {name.text}\n")
        return
    share = 100 * len(house.participles) / house.functions
    comments = 100 * house.comment_lines / house.lines
    rows = (
        f"files            {len(house.file_lines)}, median {statistics.median(house.file_lines)}",
        f"lines            {house.lines}, comments {comments:.1f} %",
        f"names            {sum(house.names.values())}",
        f"banned           {len(house.banned)} {Counter(name.text for name in house.banned)}",
        f"functions        {house.functions}, above 60 lines: {len(house.long_functions)}",
        f"participles      {len(house.participles)}, {share:.1f} %",
        f"untyped records  {len(house.untyped)}",
        f"unused           {len(house.unused)}",
        f"chip families    {len(house.chips)}",
        f"classes twice    {len(house.twice)}: {' '.join(sorted(house.twice))}",
    )
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
