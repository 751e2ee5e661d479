"""Python entry files: what they import and call, in the order of lines."""

from __future__ import annotations

import ast
import warnings

from ascend_doctor.facts import Script, Spot
from ascend_doctor.findings import Place

_MOST = 2000
_EVERY = frozenset({"Exception", "BaseException"})


def script(content: str, file: str) -> Script | None:
    """Imports and calls of a file; None where it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    imports: list[Spot] = []
    late: list[Spot] = []
    calls: list[Spot] = []
    settings: list[Spot] = []
    indexed: list[Spot] = []
    swallowed: list[Spot] = []
    # Functions run later than the module, in an order that the text does not tell.
    top = _top(tree.body)
    for statement in top:
        imports += _imports(statement, file)
        settings += _environment(statement, file) if isinstance(statement, ast.Assign) else []
    own = set(map(id, top))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            calls += _call(node, file)
        elif isinstance(node, ast.Assign):
            calls += _environment(node, file)
        elif isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in own:
            late += _imports(node, file)
        elif isinstance(node, ast.FunctionDef) and node.name == "forward":
            indexed += _find_masks(node, file)
        elif isinstance(node, ast.Try):
            swallowed += _find_swallowed(node, file)
    calls.sort(key=lambda spot: (spot.location.line, spot.location.column))
    return Script(
        source=file,
        imports=tuple(imports[:_MOST]),
        late_imports=tuple(late[:_MOST]),
        calls=tuple(calls[:_MOST]),
        settings=tuple(settings[:_MOST]),
        indexed=tuple(indexed[:_MOST]),
        swallowed=tuple(swallowed[:_MOST]),
        entry=any(map(_is_guard, tree.body)),
    )


def _is_guard(node: ast.stmt) -> bool:
    """Whether this is `if __name__ == "__main__":`."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


def _find_masks(function: ast.FunctionDef, file: str) -> list[Spot]:
    """Tensors that are indexed by a comparison, or by the inverse of a mask."""
    return [
        Spot(
            name=ast.unparse(node.value)[:60],
            argument=ast.unparse(node.slice)[:60],
            location=Place(file=file, line=node.lineno, column=node.col_offset + 1),
        )
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and (
            (isinstance(node.slice, ast.Compare) and isinstance(node.slice.left, ast.Name))
            or (isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.op, ast.Invert))
        )
    ]


def _find_swallowed(node: ast.Try, file: str) -> list[Spot]:
    """The calls of a try whose handler takes every exception and does nothing."""
    takes_all = any(
        (handler.type is None or (isinstance(handler.type, ast.Name) and handler.type.id in _EVERY))
        and all(isinstance(statement, ast.Pass) for statement in handler.body)
        for handler in node.handlers
    )
    if not takes_all:
        return []
    calls = (inner for statement in node.body for inner in ast.walk(statement))
    return [spot for inner in calls if isinstance(inner, ast.Call) for spot in _call(inner, file)]


def _top(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that run when the module is loaded, those of try and if included."""
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
        elif isinstance(statement, ast.If):
            waiting += reversed([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.With):
            waiting += reversed(statement.body)
    return statements


def _imports(node: ast.stmt, file: str) -> list[Spot]:
    where = Place(file=file, line=node.lineno, column=node.col_offset + 1)
    if isinstance(node, ast.Import):
        return [Spot(name=name.name, location=where) for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [Spot(name=f"{node.module}.{name.name}", location=where) for name in node.names]
    return []


def _call(node: ast.Call, file: str) -> list[Spot]:
    name = _dot_name(node.func)
    if not name:
        return []
    where = Place(file=file, line=node.lineno, column=node.col_offset + 1)
    spots = [Spot(name=name, location=where)]
    if node.args:
        spots = [Spot(name=name, argument=_show_constant(node.args[0]), location=where)]
    for keyword in node.keywords:
        if keyword.arg:
            spot = Place(file=file, line=keyword.value.lineno, column=keyword.value.col_offset + 1)
            shown = f"{keyword.arg}={_show_constant(keyword.value)}"
            spots.append(Spot(name=name, argument=shown, location=spot))
    return spots


def _environment(node: ast.Assign, file: str) -> list[Spot]:
    """os.environ["NAME"] = ... as a call of os.environ."""
    where = Place(file=file, line=node.lineno, column=node.col_offset + 1)
    return [
        Spot(name="os.environ", argument=_show_constant(target.slice), location=where)
        for target in node.targets
        if isinstance(target, ast.Subscript) and _dot_name(target.value) == "os.environ"
    ]


def _show_constant(node: ast.expr) -> str:
    """A constant as Python writes it; of anything else nothing is kept."""
    return repr(node.value)[:80] if isinstance(node, ast.Constant) else ""


def _dot_name(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))
