"""The names that a statement of a framework depends on: of options, as far as it has them."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

# A framework's own names for options (megatron/core/transformer/transformer_config.py,
# megatron/training/arguments.py: validate_args).
SAME = {
    "num_moe_experts": ["num_experts"],
    "data_parallel_size": [
        "world_size",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "context_parallel_size",
    ],
}
MAX_HOPS = 3
_LONG, _NEAR = 4, 0.85
_trees: dict[str, Any] = {}


def names_in_text(text: str, known_options: Iterable[str]) -> list[str]:
    known = set(known_options)
    words = [word.strip("-").replace("-", "_") for word in re.findall(r"[A-Za-z][\w-]+", text)]
    return list(dict.fromkeys(word for word in words if word in known))


def names_near(text: str, options: dict[str, Any]) -> list[str]:
    """Options with a value that a text has, else those whose names are nearly in it."""
    of_values = [
        name
        for name, option in options.items()
        if any(len(value) >= _LONG and value.strip('"') in text for value in option.values)
    ]
    words = re.findall(r"\w+", text.replace("-", "_"))
    return of_values or [
        near for word in words for near in difflib.get_close_matches(word, options, 1, _NEAR)
    ]


def _parse(file: str) -> tuple[ast.AST, list[str]]:
    if file not in _trees:
        try:
            with open(file, encoding="utf-8") as source:
                text = source.read()
            _trees[file] = ast.parse(text), text.splitlines()
        except (OSError, SyntaxError, ValueError):
            _trees[file] = ast.Module([], []), []
    return _trees[file]


def names_given(files: Iterable[str], keys: Collection[str]) -> list[str]:
    """Names in values of key=... and {"key": ...}."""
    nodes: list[ast.AST] = []
    for node in (node for file in files for node in ast.walk(_parse(file)[0])):
        if isinstance(node, ast.keyword) and node.arg in keys:
            nodes.append(node.value)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values)
            nodes += [value for key, value in pairs if getattr(key, "value", None) in keys]
    return [name for value in nodes for name in names_in(value)]


class Statement:
    """The innermost statement at a line, with conditions and assignments around it."""

    def __init__(self, file: str, line: int) -> None:
        self.code = ""
        self._inner: ast.stmt | None = None
        self._tests: list[ast.expr] = []
        self._function: ast.AST | None = None
        tree, lines = _parse(file)
        self.code = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        for node in ast.walk(tree):
            if not isinstance(node, ast.stmt):
                continue
            if not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            # Outer statements come first.
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._function, self._tests = node, []
            elif isinstance(node, (ast.If, ast.While)) and self._function is not None:
                self._tests.insert(0, node.test)
            self._inner = node

    def names(self, text: str = "") -> list[str]:
        """Names in the statement, then in its conditions, then in what both were made of.

        Keys that ``text`` names come first there, with the conditions under which they are set.
        """
        parts: list[ast.AST] = []
        if isinstance(self._inner, ast.Assert):
            parts.append(self._inner.test)
        elif self._inner is not None and not isinstance(self._inner, (ast.If, ast.FunctionDef)):
            parts.append(self._inner)
        names = [name for part in [*parts, *self._tests] for name in names_in(part)]
        made = self._assignments(re.findall(r"\w+", text))
        seen = list(dict.fromkeys(names))
        level = seen
        for _ in range(MAX_HOPS):
            level = [new for name in level for new in (*SAME.get(name, ()), *made.get(name, ()))]
            level = [name for name in dict.fromkeys(level) if name not in seen]
            seen += level
        return seen

    def _assignments(self, keys: list[str]) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for node, tests in _statements(self._function, ()) if self._function is not None else ():
            if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For)):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = node.iter if isinstance(node, ast.For) else node.value
            names = names_in(value) if value else []
            for target in targets:
                first, *parts = [*names_in(target), ""]
                known = made.setdefault(first, [])
                if {*parts} & {*keys}:
                    known[:0] = names + [name for test in tests for name in names_in(test)]
                else:
                    known += names
        return made


def _statements(node: ast.AST, tests: tuple[ast.expr, ...]) -> Iterator[tuple[ast.AST, Any]]:
    """The statements within a node, with the conditions around them."""
    for child in ast.iter_child_nodes(node):
        yield child, tests
        inner = (*tests, child.test) if isinstance(child, (ast.If, ast.While)) else tests
        yield from _statements(child, inner)


def names_in(node: ast.AST) -> list[str]:
    names = []
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute):
            names.append(each.attr)
        elif isinstance(each, ast.Name):
            names.append(each.id)
        elif isinstance(each, ast.Constant) and str(each.value).replace("-", "_").isidentifier():
            names.append(str(each.value).strip("-").replace("-", "_"))
    return [name for name in dict.fromkeys(names) if name not in ("args", "self", "config")]
