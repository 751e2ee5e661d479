"""Python entry files: what they import and call, in the order of lines."""

from __future__ import annotations

import ast
import warnings

from ascend_doctor.facts import Script, Spot
from ascend_doctor.findings import Place

_MOST = 2000


def script(content: str, file: str) -> Script | None:
    """Imports and calls of a file; None where it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    imports: list[Spot] = []
    calls: list[Spot] = []
    # Functions run later than the module, in an order that the text does not tell.
    for statement in _top(tree.body):
        imports += _imports(statement, file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            calls += _call(node, file)
        elif isinstance(node, ast.Assign):
            calls += _environment(node, file)
    calls.sort(key=lambda spot: (spot.location.line, spot.location.column))
    return Script(source=file, imports=tuple(imports[:_MOST]), calls=tuple(calls[:_MOST]))


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
