"""What a rename breaks unnoticed: names that are imported, and parameters that click passes.

Types say nothing about probes, the operators of the simulator, code in strings of tests, and the
callbacks of commands.
"""

import ast
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from ascend_doctor.cli import doctor

ROOT = Path(__file__).parent.parent
PROBES = ROOT / "probes"
FOLDERS = ("ascend_doctor", "probes", "tests", "benchmarks", "docs")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def module_path(name: str, importer: Path) -> Path | None:
    """The file of a module of this project, None for that of another."""
    if name.split(".", maxsplit=1)[0] in {"ascend_doctor", "tests"}:
        path = ROOT / name.replace(".", "/")
        package = path / "__init__.py"
        return package if package.is_file() else path.with_suffix(".py")
    path = PROBES / f"{name}.py"
    runs_there = importer.is_relative_to(PROBES) or name.startswith("_")
    return path if runs_there and path.is_file() else None


def bindings(node: ast.AST) -> Iterator[str]:
    """Every name that a module binds, in branches too, and those that functions make global."""
    match node:
        case ast.Global(names=names):
            yield from names
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.split(".")[0] for alias in aliases)
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
            for inner in ast.walk(node):
                if isinstance(inner, ast.Global):
                    yield from inner.names
        case ast.ClassDef(name=name):
            yield name
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            pass
        case _:
            for child in ast.iter_child_nodes(node):
                yield from bindings(child)


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    return frozenset(bindings(ast.parse(path.read_text("utf-8"))))


def has(path: Path, name: str) -> bool:
    """Whether a module has a name, or is a package with a module of it."""
    bound = names_in(path)
    if name in bound or "__getattr__" in bound or name.startswith("__"):
        return True
    folder = path.parent / name
    return path.name == "__init__.py" and (folder.is_dir() or folder.with_suffix(".py").is_file())


def origin(node: ast.ImportFrom, importer: Path) -> str:
    if not node.level:
        return node.module or ""
    package = importer.parents[node.level - 1].relative_to(ROOT)
    return ".".join([*package.parts, *([node.module] if node.module else [])])


def imports(tree: ast.AST, importer: Path) -> Iterator[tuple[str, Path, str, str]]:
    """What is imported of this project: module, its file, name there or "", name here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = module_path(alias.name, importer)
                if path:
                    yield alias.name, path, "", alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom):
            path = module_path(module := origin(node, importer), importer)
            for alias in node.names if path else ():
                if path and alias.name != "*":
                    yield module, path, alias.name, alias.asname or alias.name


def list_unresolved(tree: ast.AST, importer: Path) -> Iterator[str]:
    """What a file takes from modules of this project that they do not have."""
    modules: dict[str, Path] = {}
    for module, path, name, here in imports(tree, importer):
        full = f"{module}.{name}".rstrip(".")
        if not path.is_file() or (name and not has(path, name)):
            yield full
        elif (inner := module_path(full, importer)) and inner.is_file():
            modules[here] = inner
    rebound = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in modules and name not in rebound and not has(modules[name], node.attr):
                yield f"{name}.{node.attr}"


def parse_embedded(tree: ast.AST) -> Iterator[ast.AST]:
    """Python in strings that speaks of this package, with what an f-string fills in as a name."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                pass
            case ast.JoinedStr(values=parts):
                text = "".join(
                    part.value
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    else "_filled"
                    for part in parts
                )
            case _:
                continue
        if "import " in text and ("ascend_doctor" in text or "_probe" in text):
            try:
                yield ast.parse(textwrap.dedent(text))
            except SyntaxError:
                continue


@pytest.mark.slow
def test_imports_resolve() -> None:
    missing = []
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        # This file has strings that are wrong on purpose.
        inside = parse_embedded(tree) if path != Path(__file__) else ()
        missing += [
            f"{path}: {name}" for part in (tree, *inside) for name in list_unresolved(part, path)
        ]
    assert not missing


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("from ascend_doctor.findings import Level", []),
        ("from ascend_doctor.findings import Gone", ["ascend_doctor.findings.Gone"]),
        ("from ascend_doctor import gone", ["ascend_doctor.gone"]),
        ("import ascend_doctor.gone", ["ascend_doctor.gone"]),
        ("from ascend_doctor.machine import live\nlive.gone()", ["live.gone"]),
        ("import _probe\n_probe.gone", ["_probe.gone"]),
        ("from . import house", []),
        ("from .house import gone", ["tests.house.gone"]),
    ],
)  # fmt: skip
def test_what_is_gone_is_named(source: str, missing: list[str]) -> None:
    tree = ast.parse(source)
    assert list(list_unresolved(tree, Path(__file__))) == missing


def test_code_in_strings_is_read() -> None:
    module = "ascend_" + "doctor.findings"  # in parts, so that this file itself has no such string
    code = f"    from {module} import Level\n    from {module} import Gone\n"
    for quoted in (repr(code), f"f{code!r}".replace("Gone", "Gone as {name}")):
        (tree,) = parse_embedded(ast.parse(f"code = {quoted}"))
        assert list(list_unresolved(tree, Path(__file__))) == [f"{module}.Gone"]


def commands(
    group: click.Group = doctor, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())
# Of no kind that a command would refuse.
ANY_FILE = str(ROOT / "LICENSE")
# What a command asks for at least.
ARGUMENTS = {
    "run": ["true"],
    "judge": [ANY_FILE],
    "merge": [ANY_FILE],
    "diff": [ANY_FILE, ANY_FILE],
    "diagnose": [ANY_FILE],
    "matrix show": ["x"],
    "matrix solve": ["--megatron", "x"],
    "matrix upgrade": ["--to", "cann=9.0.0"],
    "matrix why": ["x", "y"],
    "plan": ["--model", "x", "--npus", "8"],
    "explain": ["x"],
    "completion": ["bash"],
}


def call_of_body(
    name: str, command: click.Command, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """What the function of a command gets from click and from what gathers options around it."""
    context = command.make_context(name, list(ARGUMENTS.get(name, [])))
    callback = command.callback
    assert callback is not None
    body = inspect.unwrap(callback)
    if callback is body:
        return context.params
    calls: list[dict[str, Any]] = []
    wrapper: Callable[..., Any] = callback
    while getattr(wrapper, "__wrapped__", body) is not body:
        wrapper = vars(wrapper)["__wrapped__"]
    for cell in wrapper.__closure__ or ():
        if cell.cell_contents is body:
            monkeypatch.setattr(cell, "cell_contents", lambda **options: calls.append(options))
    with context:
        callback(**context.params)
    return calls[0]


def types_filled(body: Callable[..., Any]) -> Iterator[tuple[Callable[..., Any], set[str]]]:
    """What a function passes its own ``**options`` to, and what it adds to them."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(body))).body
    assert isinstance(function, ast.FunctionDef)
    rest = function.args.kwarg
    names = dict(body.__globals__)
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                names[alias.name] = getattr(module, alias.name)
    for node in ast.walk(function) if rest else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            passed = {ast.unparse(word.value) for word in node.keywords if word.arg is None}
            if rest and rest.arg in passed:
                added = {word.arg for word in node.keywords if word.arg}
                yield names[node.func.id], added


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_what_click_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = COMMANDS[name]
    options = call_of_body(name, command, monkeypatch)
    assert command.callback is not None
    body = inspect.unwrap(command.callback)
    arguments = inspect.signature(body).bind(**options).kwargs
    own = set(inspect.signature(body).parameters)
    for filled, added in types_filled(body):
        rest = arguments.keys() - own
        inspect.signature(filled).bind(**dict.fromkeys(rest | added))
