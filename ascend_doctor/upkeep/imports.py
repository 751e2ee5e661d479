"""What the files of one component import from another, and whether a release of it has that."""

import ast
import functools
from collections.abc import Iterable, Iterator

import msgspec

from ascend_doctor.machine.parsing import python_of
from ascend_doctor.upkeep.source_tree import SourceTree

_STARS = 6  # modules that import all of each other, at most


class ImportedName(msgspec.Struct, frozen=True, kw_only=True):
    """``from module import name`` at ``path``, line ``line``; name "" is ``import module``.

    ``guarded``: inside a try, an if or a function, so the file may be importable without it.
    """

    module: str
    name: str
    path: str
    line: int
    guarded: bool

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


def read_imports(tree: SourceTree, top: str) -> Iterator[ImportedName]:
    """All imports of a tree from below ``top``, without files that do not parse."""
    for path, text in tree.files.items():
        if top not in text:
            continue
        parsed = python_of(text)
        if parsed is not None:
            for node, guarded in _import_nodes(parsed.body, guarded=False):
                yield from _names(node, top, path, guarded=guarded)


def find_losses(
    user: SourceTree, old: SourceTree, new: SourceTree, top: str
) -> tuple[ImportedName, ...]:
    """A user's imports that only the old release has, each name once.

    An unguarded import represents the others of its name.
    """
    lost: dict[str, ImportedName] = {}
    for imported in read_imports(user, top):
        known = lost.get(imported.dotted)
        if known and (imported.guarded or not known.guarded):
            continue
        if provides(old, imported) and not provides(new, imported):
            lost[imported.dotted] = imported
    return tuple(sorted(lost.values(), key=lambda imported: imported.dotted))


def provides(tree: SourceTree, imported: ImportedName) -> bool:
    """Whether an import succeeds; always true of a module that computes its names."""
    if not imported.name:
        return tree.module(imported.module) is not None or tree.has_folder(imported.module)
    if tree.module(imported.dotted) is not None or tree.has_folder(imported.dotted):
        return True
    return _binds(tree, imported.module, imported.name, _STARS)


def _binds(tree: SourceTree, module: str, name: str, depth: int) -> bool:
    file = tree.module(module)
    if file is None or depth == 0:
        return False
    path, text = file
    bindings = _bindings(text)
    if name in bindings.names or "__getattr__" in bindings.names:
        return True
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    return any(
        _binds(tree, _absolute(package, level, star), name, depth - 1)
        for level, star in bindings.stars
    )


class _Bindings(msgspec.Struct, frozen=True):
    names: frozenset[str]
    stars: tuple[tuple[int, str], ...]


@functools.lru_cache(maxsize=4096)
def _bindings(text: str) -> _Bindings:
    parsed = python_of(text)
    if parsed is None:
        # Unknown contents count as computed names.
        return _Bindings(frozenset({"__getattr__"}), ())
    names: set[str] = set()
    stars: list[tuple[int, str]] = []
    todo: list[ast.AST] = list(parsed.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue  # what is bound in there is not the module's
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                names.add(alias.asname or alias.name.partition(".")[0])
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                stars.append((node.level, node.module or ""))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        todo += ast.iter_child_nodes(node)
    return _Bindings(frozenset(names), tuple(stars))


def _import_nodes(
    body: Iterable[ast.AST], *, guarded: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, guarded
        else:
            # The body of a class runs when its module is imported.
            inside = guarded or not isinstance(node, ast.ClassDef)
            yield from _import_nodes(ast.iter_child_nodes(node), guarded=inside)


def _names(
    node: ast.Import | ast.ImportFrom, top: str, path: str, *, guarded: bool
) -> Iterator[ImportedName]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            module, name = alias.name, ""
        elif node.level == 0 and alias.name != "*":
            module, name = node.module or "", alias.name
        else:
            continue
        if module == top or module.startswith(f"{top}."):
            yield ImportedName(
                module=module, name=name, path=path, line=node.lineno, guarded=guarded
            )


def _absolute(package: str, level: int, module: str) -> str:
    if level == 0:
        return module
    parts = package.split(".")
    parts = parts[: len(parts) - level + 1]
    return ".".join([*parts, *([module] if module else [])])
