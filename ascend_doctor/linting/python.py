"""Python entry files: what they import and call, in the order of lines."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence

import msgspec

from ascend_doctor.facts import UNTOLD, Script, Spot
from ascend_doctor.findings import Place
from ascend_doctor.linting.positioned_text import Piece, Word, word
from ascend_doctor.machine.parsing import python_of
from ascend_doctor.patterns import patterns_of

_MOST = 2000
_ENVIRON = "os.environ"
_FOR_NPUS, _OTHER_DEVICE = patterns_of(__file__)
_EVERY = frozenset({"Exception", "BaseException"})
# torch.distributed's calls on Python objects: how many arguments come before the group.
_BEFORE_GROUP = {"all_gather_object": 2, "broadcast_object_list": 2, "gather_object": 3}


class _Source:
    """A file with places of nodes; the parser counts bytes, people characters."""

    def __init__(self, file: str, content: str) -> None:
        self._file = file
        # Only lines that the parser ends: form feeds and others are letters to it.
        self._lines = re.split("\r\n?|\n", content)

    def locate(self, node: ast.expr | ast.stmt) -> Place:
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        before = line.encode("utf-8", "replace")[: node.col_offset].decode("utf-8", "replace")
        return Place(file=self._file, line=node.lineno, column=len(before) + 1)


class HydraMain(msgspec.Struct, frozen=True):
    name: str
    folder: str


# Several readers need one file's tree.
_parse = functools.lru_cache(maxsize=1)(python_of)


def find_hydra_main(content: str) -> HydraMain | None:
    """What `@hydra.main` of an entry file says; None if absent or unreadable."""
    tree = _parse(content)
    if tree is None:
        return None
    decorators = (
        decorator
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    )
    for node in decorators:
        if isinstance(node, ast.Call) and _dot_name(node.func) == "hydra.main":
            options = {
                keyword.arg: str(keyword.value.value)
                for keyword in node.keywords
                if isinstance(keyword.value, ast.Constant) and keyword.value.value is not None
            }
            return HydraMain(options.get("config_name", ""), options.get("config_path", ""))
    return None


def find_sizes(content: str) -> Iterator[str]:
    """Whole numbers with names: `tp_size=2` of a call or an assignment."""
    tree = _parse(content)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.keyword):
            names = [node.arg]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        else:
            continue
        if isinstance(node.value, ast.Constant) and type(node.value.value) is int:
            yield from (f"{name}={node.value.value}" for name in names)


def script(content: str, file: str) -> Script | None:
    """Imports and calls of a file; None if it is not Python."""
    tree = _parse(content)
    if tree is None:
        return None
    source = _Source(file, content)
    imports: list[Spot] = []
    late: list[Spot] = []
    calls: list[Spot] = []
    settings: list[Spot] = []
    swallowed: list[Spot] = []
    top = _top(tree.body)
    for statement in top:
        imports += _imports(statement, source)
        settings += _environment(statement, source) if isinstance(statement, ast.Assign) else []
    own = set(map(id, top))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            calls += _call(node, source)
        elif isinstance(node, ast.Assign):
            calls += _environment(node, source)
        elif isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in own:
            late += _imports(node, source)
        elif isinstance(node, ast.Try):
            swallowed += _find_swallowed(node, source)
    calls.sort(key=lambda spot: (spot.location.line, spot.location.column))
    return Script(
        source=file,
        imports=tuple(imports[:_MOST]),
        late_imports=tuple(late[:_MOST]),
        calls=tuple(calls[:_MOST]),
        settings=tuple(settings[:_MOST]),
        runs=tuple(
            tuple(spot for statement in run for spot in _imports(statement, source))[:_MOST]
            for run in _runs(top)
        ),
        swallowed=tuple(swallowed[:_MOST]),
        # `if __name__ == "__main__":`
        entry=any(
            isinstance(node, ast.If)
            and getattr(getattr(node.test, "left", None), "id", "") == "__name__"
            for node in tree.body
        ),
    )


def settings(content: str) -> dict[str, Word]:
    """Variables that a file for NPUs sets to texts, by name; {} if it is not Python."""
    tree = _parse(content) if _FOR_NPUS.search(content) else None
    if tree is None:
        return {}
    source = _Source("", content)
    words: dict[str, Word] = {}
    for node in _statements(tree.body):
        for name, value in _pairs(node):
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                where = source.locate(value)
                piece = Piece(UNTOLD, where.line, where.column, ast.unparse(value)[:60])
                if isinstance(value, ast.Constant):
                    piece = Piece(str(value.value), where.line, where.column)
                words[name.value] = word((piece,), where.line, where.column)
    return words


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        other = isinstance(node, ast.If) and _OTHER_DEVICE.search(ast.unparse(node.test))
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(node, field, ())
            if isinstance(inner, list) and not (other and field == "body"):
                yield from _statements(inner)
        for handler in getattr(node, "handlers", ()):
            yield from _statements(handler.body)


def _pairs(node: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Subscript) and _dot_name(target.value) == _ENVIRON:
                    yield target.slice, value
        case ast.Expr(value=ast.Call(func=function, args=[name, value])):
            if _dot_name(function) in {f"{_ENVIRON}.setdefault", "os.putenv"}:
                yield name, value


def _find_swallowed(node: ast.Try, source: _Source) -> list[Spot]:
    takes_all = any(
        (handler.type is None or (isinstance(handler.type, ast.Name) and handler.type.id in _EVERY))
        and all(map(_does_nothing, handler.body))
        for handler in node.handlers
    )
    if not takes_all:
        return []
    calls = (inner for statement in node.body for inner in ast.walk(statement))
    return [spot for inner in calls if isinstance(inner, ast.Call) for spot in _call(inner, source)]


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether this is pass, or gives None: `return None`, `group = None`."""
    match statement:
        case ast.Pass() | ast.Return(value=None | ast.Constant(value=None)):
            return True
        case ast.Assign(value=ast.Constant(value=None)):
            return True
    return False


def _runs(top: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Statements in the order in which they run: the module's, and each function's.

    A function of the module runs where it is first called. One that neither the module nor its
    called functions call is a separate run.
    """
    functions = {
        node.name: node for node in top if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    entered: set[str] = set()
    for name in ("", *functions):
        if name in entered:
            continue
        run: list[ast.stmt] = []
        waiting = list(reversed(_top(functions[name].body) if name else top))
        while waiting:
            statement = waiting.pop()
            run.append(statement)
            for callee in _callees(statement):
                if callee in functions and callee not in entered:
                    entered.add(callee)
                    waiting += reversed(_top(functions[callee].body))
        yield run


def _callees(statement: ast.stmt) -> set[str]:
    parts = [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt)]
    nodes = (node for part in parts if isinstance(part, ast.expr) for node in ast.walk(part))
    return {_dot_name(node.func) for node in nodes if isinstance(node, ast.Call)}


def _top(body: list[ast.stmt]) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    waiting = list(reversed(body))
    while waiting:
        statement = waiting.pop()
        statements.append(statement)
        if isinstance(statement, ast.Try):
            inner = [
                *statement.body,
                *(part for handler in statement.handlers for part in handler.body),
            ]
            waiting += reversed([*inner, *statement.orelse, *statement.finalbody])
        elif isinstance(statement, ast.If | ast.For | ast.While):
            waiting += reversed([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.With):
            waiting += reversed(statement.body)
    return statements


def _imports(node: ast.stmt, source: _Source) -> list[Spot]:
    where = source.locate(node)
    if isinstance(node, ast.Import):
        return [Spot(name=name.name, location=where) for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [Spot(name=f"{node.module}.{name.name}", location=where) for name in node.names]
    return []


def _call(node: ast.Call, source: _Source) -> list[Spot]:
    name = _dot_name(node.func)
    if not name:
        return []
    where = source.locate(node)
    spots = [Spot(name=name, location=where)]
    if node.args:
        spots = [Spot(name=name, argument=_show_constant(node.args[0]), location=where)]
    before = _BEFORE_GROUP.get(name.rpartition(".")[2], len(node.args))
    if len(node.args) <= before and not any(k.arg in {None, "group"} for k in node.keywords):
        spots.append(Spot(name=name, argument="group=None", location=where))
    for keyword in node.keywords:
        if keyword.arg:
            spot = source.locate(keyword.value)
            shown = f"{keyword.arg}={_show_constant(keyword.value)}"
            spots.append(Spot(name=name, argument=shown, location=spot))
    return spots


def _environment(node: ast.Assign, source: _Source) -> list[Spot]:
    """os.environ["NAME"] = ... as a call of os.environ, named as _of_rank has it."""
    where = source.locate(node)
    return [
        Spot(
            name=f"os.environ{_of_rank(node.value)}",
            argument=_show_constant(target.slice),
            location=where,
        )
        for target in node.targets
        if isinstance(target, ast.Subscript) and _dot_name(target.value) == _ENVIRON
    ]


def _of_rank(node: ast.expr) -> str:
    """How an expression is computed from the rank: str(local_rank), or an element of a list."""
    if isinstance(node, ast.Constant) or "rank" not in ast.unparse(node).lower():
        return ""
    elements = (part for part in ast.walk(node) if isinstance(part, ast.Subscript))
    listed = any(_dot_name(part.value) != _ENVIRON for part in elements)
    return " of a rank, from a list" if listed else " of a rank"


def _show_constant(node: ast.expr) -> str:
    """A constant as Python writes it, or a tuple of numbers; else ""."""
    if isinstance(node, ast.Tuple | ast.List) and node.elts:
        numbers = [element.value for element in node.elts if isinstance(element, ast.Constant)]
        whole = [number for number in numbers if type(number) is int]
        return repr(tuple(whole))[:80] if len(whole) == len(node.elts) else ""
    return repr(node.value)[:80] if isinstance(node, ast.Constant) else ""


def _dot_name(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))
