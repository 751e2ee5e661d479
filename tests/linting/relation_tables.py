"""Make matrices/validations.yaml: what validations refuse, read from the frameworks' sources.

    python -m tests.linting.relation_tables FOLDER > matrices/validations.yaml

FOLDER has OWNER+NAME/repo for each repository below, or its unpacked wheel as wheels/NAME. A row is
the condition of a refusal, over options as the parser keeps them. Conditions that need more than
options are left out.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tests.linting.option_tables import git, wrapped

REFUSALS = {"AssertionError", "ValueError", "RuntimeError", "NotImplementedError", "TypeError"}
ENTRIES = {"validate_args", "pre_validate_args", "post_validate_args", "__post_init__"}
# Parentheses that `and` does not need.
_COMPARED = r"(?<= and )\(((?:(?! and | or )[^()])* (?:[!=<>]=|<|>|in) (?:(?! and | or )[^()])*)\)"
# A default that is computed.
OPEN = object()
# What the launch says of its ranks; validations derive it before they use it.
DERIVED = {"data_parallel_size"}


@dataclass(frozen=True)
class Table:
    """``refs`` are releases of which all have a row; ``files`` define and validate options.

    ``features``: only classes that MindSpeed-LLM starts with, or only others. ``fork``: only rows
    that a fork has, too.
    """

    name: str
    repository: str
    refs: tuple[str, ...]
    files: str
    features: str = ""
    fork: bool = False


FORK = "microsoft+Megatron-DeepSpeed/repo", "f4157bea", r"megatron/arguments\.py"
MEGATRON = "megatron/training/arguments.py"
FEATURES = r"mindspeed/features_manager/.*\.py"
TAKEN = "Ascend+MindSpeed-LLM/repo", "c77308a1:mindspeed_llm/features_manager/__init__.py"
TABLES = (
    *(
        Table(
            "Megatron-LM",
            "NVIDIA/Megatron-LM",
            ("core_v0.12.1", "core_v0.15.3", "core_v0.16.1"),
            MEGATRON,
            fork=fork,
        )
        for fork in (True, False)
    ),
    *(
        Table("MindSpeed", "Ascend/MindSpeed", ("028de58c",), FEATURES, features)
        for features in ("shared", "own")
    ),
    Table(
        "Transformers",
        "huggingface/transformers",
        ("v4.57.1",),
        r"transformers/(training_args|trainer_utils)\.py",
    ),
    Table(
        "MindSpeed-LLM",
        "Ascend/MindSpeed-LLM",
        ("c77308a1",),
        r"mindspeed_llm/features_manager/.*\.py",
    ),
)


@dataclass
class Parser:
    """Options by dest: how a rule spells them, and the defaults that are not false."""

    spelt: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, set[object]] = field(default_factory=dict)
    # Options that a validation sets; only given ones are judged.
    changed: set[str] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)

    def read(self, trees: Iterable[ast.AST]) -> None:
        typed: set[ast.AST] = set()
        for node in (node for tree in trees for node in ast.walk(tree)):
            match node:
                case ast.Call(func=ast.Attribute(attr="add_argument")):
                    self._add(node)
                case ast.FunctionDef(name=name) if name.startswith("set_"):
                    typed |= {*ast.walk(node)}
                case ast.Assign([ast.Attribute() as target]) if _is_typed(node, target):
                    typed.add(target)
                case ast.Attribute(ctx=ast.Store(), attr=name) if node not in typed:
                    self.changed.add(name)
                case ast.ClassDef(body=body):
                    self._read_class(node, body)

    def _read_class(self, node: ast.ClassDef, body: list[ast.stmt]) -> None:
        """The fields of a class of arguments, and the words of an enumeration."""
        for each in body:
            match each:
                case ast.AnnAssign(target=ast.Name(name), value=value):
                    self.spelt.setdefault(name, name)
                    if isinstance(value, ast.Call):
                        stated = (word.value for word in value.keywords if word.arg == "default")
                        value = next(stated, None)
                    default = value.value if isinstance(value, ast.Constant) else OPEN
                    self.defaults.setdefault(name, set()).add(None if default is False else default)
                case ast.Assign([ast.Name(name)], ast.Constant(str(word))):
                    self.words[f"{node.name}.{name}"] = word

    def _add(self, node: ast.Call) -> None:
        names = [each.value for each in node.args if isinstance(each, ast.Constant)]
        texts = [text for text in names if isinstance(text, str) and text.startswith("--")]
        if not texts:
            return
        option = texts[0].lstrip("-").replace("-", "_")
        keywords = {
            word.arg: word.value.value
            for word in node.keywords
            if isinstance(word.value, ast.Constant)
        }
        dest = str(keywords.get("dest", option))
        turns_off = keywords.get("action") == "store_false"
        self.spelt.setdefault(dest, f"(not given({option}))" if turns_off else option)
        default = keywords.get("default")
        self.defaults.setdefault(dest, set()).add(None if default is False else default)

    def split_defaults(self, used: set[str]) -> tuple[dict[str, object], list[str]]:
        """The defaults that count, and the options that are judged only where they are given."""
        only = {name: next(iter(each)) for name, each in self.defaults.items() if len(each) == 1}
        opened = (self.defaults.keys() - only.keys()) | self.changed
        shut = sorted(only.keys() & used - opened)
        return {name: only[name] for name in shut if only[name] is not None}, sorted(opened & used)


class Reader:
    """The refusals of one function."""

    def __init__(self, parser: Parser, methods: dict[str, ast.FunctionDef]) -> None:
        self._parser = parser
        self._methods = methods
        self._locals: dict[str, str | None] = {}
        self._changed: set[str] = set()
        self.rows: dict[str, int] = {}

    def read(self, body: list[ast.stmt], above: tuple[str | None, ...] = ()) -> bool:
        """Whether the body always ends in it."""
        for node in body:
            if isinstance(node, ast.Assert):
                self._refuse((*above, _negate(self._text(node.test))), node.lineno)
            elif isinstance(node, ast.Raise):
                if _name_of(node.exc) in REFUSALS:
                    self._refuse(above, node.lineno)
                return True
            elif isinstance(node, ast.Return):
                return True
            elif isinstance(node, ast.If):
                test = self._text(node.test)
                # What follows a refusal is judged beside it.
                ended = self.read(node.body, (*above, test))
                raises = ended and isinstance(node.body[-1], ast.Raise)
                otherwise = self.read(node.orelse, above if raises else (*above, _negate(test)))
                if ended and otherwise:
                    return True
                if (ended and not raises) or otherwise:
                    above = (*above, _negate(test) if ended else test)
            elif (called := self._called(node)) is not None:
                self.read(called.body, above)
            else:
                self._note(node, simple=not above)
        return False

    def _called(self, node: ast.stmt) -> ast.FunctionDef | None:
        match node:
            case ast.Expr(ast.Call(func=ast.Attribute(ast.Name("self"), name))):
                return self._methods.get(name)
        return None

    def _refuse(self, parts: tuple[str | None, ...], line: int) -> None:
        texts = [part for part in parts if part is not None]
        if len(texts) == len(parts) and not self._changed & set(re.findall(r"\w+", str(texts))):
            self.rows.setdefault(" and ".join(dict.fromkeys(texts)), line)

    def _note(self, node: ast.stmt, *, simple: bool) -> None:
        """What later statements mean by the names that this one sets."""
        for each in ast.walk(node):
            if isinstance(each, (ast.Name, ast.Attribute)) and isinstance(each.ctx, ast.Store):
                if isinstance(each, ast.Attribute):
                    value = getattr(node, "value", None)
                    if not (_is_typed(node, each) or isinstance(value, ast.Attribute)):
                        self._changed.add(each.attr)
                    continue
                value = self._text(node.value) if isinstance(node, ast.Assign) else None
                self._locals[each.id] = value if simple and each.id not in self._locals else None

    def _text(self, node: ast.expr) -> str | None:
        try:
            return self._spell(node)
        except LookupError:
            return None

    def _spell(self, node: ast.expr) -> str:
        """Raises LookupError for what is not made of options."""
        spell = self._spell
        match node:
            case ast.Attribute(value=ast.Name(id="args" | "self"), attr=name):
                text = name if name in DERIVED else self._parser.spelt[name]
            case ast.Attribute():
                text = repr(self._parser.words[ast.unparse(node)])
            case ast.Call(ast.Name("getattr"), [ast.Name(), ast.Constant(name), *_]):
                text = self._parser.spelt[str(name)]
            case ast.Name(id=name) if self._locals.get(name):
                text = str(self._locals[name])
            case ast.Constant():
                text = repr(node.value)
            case ast.Tuple() | ast.List() | ast.Set():
                text = f"({''.join(f'{spell(each)}, ' for each in node.elts)})"
            case _:
                text = self._spell_operation(node)
        return text

    def _spell_operation(self, node: ast.expr) -> str:
        spell = self._spell
        match node:
            case ast.UnaryOp(op=ast.Not()):
                return f"(not {spell(node.operand)})"
            case ast.BoolOp():
                word = " or " if isinstance(node.op, ast.Or) else " and "
                return f"({word.join(map(spell, node.values))})"
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
                return f"({spell(node.left)} {_sign(node.op)} {spell(node.right)})"
            case ast.Compare():
                values = [node.left, *node.comparators]
                pairs = zip(values, node.ops, values[1:], strict=False)
                return (
                    f"({' and '.join(f'{spell(a)} {_sign(op)} {spell(b)}' for a, op, b in pairs)})"
                )
        raise LookupError


def _is_typed(node: ast.stmt, target: ast.Attribute) -> bool:
    """Whether it only gives the value its type: `self.name = Kind(self.name)`."""
    value = getattr(node, "value", None)
    same = isinstance(value, ast.Call) and [ast.unparse(each) for each in value.args]
    return same == [ast.unparse(target)]


def _sign(node: ast.operator | ast.cmpop) -> str:
    """An operator's sign; identity is equality, as options are plain values."""
    names = ast.Name("a"), ast.Name("b")
    if isinstance(node, ast.operator):
        return ast.unparse(ast.BinOp(names[0], node, names[1]))[2:-2]
    sign = ast.unparse(ast.Compare(names[0], [node], [names[1]]))[2:-2]
    return {"is": "==", "is not": "!="}.get(sign, sign)


def _negate(text: str | None) -> str | None:
    return None if text is None else f"(not {text})"


def _name_of(node: ast.expr | None) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node) if node else ""


def simplify(text: str) -> str:
    tree = ast.parse(text, mode="eval").body
    bare = re.sub(r"\(not (\w+)\)", r"not \1", ast.unparse(_Simple().visit(tree)))
    return re.sub(_COMPARED, r"\1", bare)


OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


class _Simple(ast.NodeTransformer):
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        parts: dict[str, ast.expr] = {}
        for each in map(self.visit, node.values):
            same = isinstance(each, ast.BoolOp) and type(each.op) is type(node.op)
            parts |= {ast.unparse(part): part for part in (each.values if same else [each])}
        several = list(parts.values())
        return ast.BoolOp(node.op, several) if len(several) > 1 else several[0]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        inner = node.operand
        if isinstance(inner, ast.UnaryOp):
            return cast("ast.expr", self.visit(inner.operand))
        if isinstance(inner, ast.BoolOp):
            other = ast.Or() if isinstance(inner.op, ast.And) else ast.And()
            parts: list[ast.expr] = [ast.UnaryOp(ast.Not(), each) for each in inner.values]
            return self.visit_BoolOp(ast.BoolOp(other, parts))
        if isinstance(inner, ast.Compare) and type(inner.ops[0]) in OPPOSITE:
            other_way = OPPOSITE[type(inner.ops[0])]()
            return cast(
                "ast.expr", self.visit(ast.Compare(inner.left, [other_way], inner.comparators))
            )
        return cast("ast.expr", self.generic_visit(node))


def trees(checkout: Path, ref: str, pattern: str) -> Iterator[tuple[str, ast.Module]]:
    if checkout.parent.name == "wheels":
        for file in sorted(checkout.rglob("*.py")):
            if re.fullmatch(pattern, path := str(file.relative_to(checkout))):
                yield path, ast.parse(file.read_text("utf-8"))
        return
    listed = git(checkout, "ls-tree", "-r", "--name-only", ref).splitlines()
    for path in listed:
        if re.fullmatch(pattern, path):
            yield path, ast.parse(git(checkout, "show", f"{ref}:{path}"))


def refusals(
    checkout: Path, ref: str, table: Table, parser: Parser
) -> Iterator[tuple[str, str, int]]:
    source = git(checkout.parents[1] / TAKEN[0], "show", TAKEN[1]) if table.features else ""
    taken = set(re.findall(r"\w+", source))
    for path, tree in trees(checkout, ref, table.files):
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        parts: list[ast.Module | ast.ClassDef] = [tree, *classes]
        for part in parts:
            methods = {node.name: node for node in part.body if isinstance(node, ast.FunctionDef)}
            is_shared = isinstance(part, ast.ClassDef) and part.name in taken
            if table.features and is_shared != (table.features == "shared"):
                continue
            for name in ENTRIES & methods.keys():
                reader = Reader(parser, methods)
                reader.read(methods[name].body)
                for text, line in reader.rows.items():
                    yield path, simplify(text), line


def rows_of(checkout: Path, table: Table, parser: Parser) -> Iterator[tuple[str, str, int]]:
    """The refusals that all releases of a table have."""
    ref, *others = table.refs
    parser.read(tree for _, tree in trees(checkout, ref, table.files))
    rows = list(refusals(checkout, ref, table, parser))
    for other in others:
        newer = Parser(dict(parser.spelt))
        newer.read(tree for _, tree in trees(checkout, other, table.files))
        same = {(path, text) for path, text, _ in refusals(checkout, other, table, newer)}
        rows = [row for row in rows if row[:2] in same]
    yield from rows


def rows_of_fork(folder: Path) -> set[str]:
    """What Megatron-DeepSpeed's validation refuses."""
    repository, ref, files = FORK
    parser, table = Parser(), Table("", "", (ref,), files)
    parser.read(tree for _, tree in trees(folder / repository, ref, files))
    return {text for _, text, _ in refusals(folder / repository, ref, table, parser)}


def main(folder: Path) -> None:
    """Print the file."""
    out = [
        "# Made by tests/linting/relation_tables.py: lines of validations, with what they refuse.",
        "# defaults: those that are not false; open: judged only where they are given.",
        "schema: 1",
        "tables:",
    ]
    parser = Parser()
    listed: set[str] = set()
    for table in TABLES:
        checkout = folder / table.repository.replace("/", "+") / "repo"
        if not checkout.is_dir():
            checkout = folder / "wheels" / table.name.lower()
        own = table.name == "Transformers"
        rows = [row for row in rows_of(checkout, table, parser) if own or row[1] not in listed]
        if table.fork:
            shared = rows_of_fork(folder)
            rows = [row for row in rows if row[1] in shared]
        listed |= {text for _, text, _ in rows if not own}
        used = set(re.findall(r"\w+", " ".join(text for _, text, _ in rows)))
        defaults, opened = parser.split_defaults(used)
        above = table.files.partition("manager/")
        folder_ = "".join(above[:2]) if above[1] else ""
        source = f"{table.repository}@{table.refs[0]}:{folder_}"
        out += [f"- name: {table.name}", f'  source: "{source}"']
        cores = [ref.removeprefix("core_v") for ref in table.refs if ref.startswith("core_v")]
        out += [f"  releases: [{', '.join(cores)}]"] if cores else []
        out += ["  forks: true"] if table.fork else []
        out += ["  unless: MindSpeed-LLM"] if table.features == "own" else []
        out += ["  defaults:"]
        out += [f"    {name}: {_value(value)}" for name, value in defaults.items()]
        out += [f"  open: [{wrapped(opened, '    ').strip()}]", "  files:"]
        for path in dict.fromkeys(path for path, _, _ in rows):
            out += [
                f"    {path.removeprefix(folder_)}:",
                *(f"    - {n} {text}" for p, text, n in rows if p == path),
            ]
    print("\n".join(out))  # noqa: T201


def _value(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
