import ast
import functools
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.programs import run_program

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ascend_doctor"

# Imports go down only, or to siblings in the same sub-folder.
LAYERS = [
    {"patterns"},
    {"errors", "exits", "findings", "language", "timestamps", "__init__"},
    {"probe_records"},
    {"probe_results"},
    {"facts"},
    {"redact"},
    {"machine"},
    {"matrix"},
    {"probing"},
    {"judging", "provision"},
    {"planning"},
    {"collect", "checks", "simulator", "report", "diagnosis", "upkeep"},
    {"comparison", "linting", "precision"},
    {"fleet"},
    {"render"},
    {"progress", "shrinking"},
    {"commands"},
    {"cli", "testing"},
    {"entry"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules() -> list[Path]:
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        # These run in the examined interpreter.
        if not {"operators", "ascend_recorder", "site"} & set(path.parts)
    ]


def top(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def list_imports(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def test_imports_go_down() -> None:
    upward = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        for name in list_imports(path)
        if name.startswith("ascend_doctor.")
        and (part := name.split(".")[1]) != top(path)
        and not part.startswith("__")
        and RANK[part] >= RANK[top(path)]
    ]
    assert not upward


def imports_of(paths: Iterable[Path], forbidden: set[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in list_imports(path)
        if name.split(".")[0] in forbidden
    ]


def test_nothing_imports_torch() -> None:
    assert not imports_of(modules(), {"torch", "torch_npu"})


def test_checks_see_a_case_and_nothing_else() -> None:
    forbidden = {"os", "subprocess", "time", "click", "rich", "socket", "shutil", "pathlib", "yaml"}
    assert not imports_of(sorted((PACKAGE / "checks").rglob("*.py")), forbidden)


def test_probes_never_import_the_doctor() -> None:
    assert not imports_of(sorted((ROOT / "probes").glob("*.py")), {"ascend_doctor"})


# Each takes longer to import than the rest of a start.
HEAVY = {"asyncio", "concurrent", "ctypes", "email", "http", "json", "logging", "multiprocessing"}
HEAVY |= {"random", "secrets", "shutil", "ssl", "sysconfig", "tempfile", "unittest", "zipfile"}
START = {"click", "msgspec", "typing_extensions"}
# Packages, and modules of HEAVY, that a command imports. These sets only shrink.
IMPORTS = {
    "--help": START | {"shutil"},
    "env": START | {"json"},
    "check -l 0": START | {"packaging"},
}


@pytest.mark.parametrize("line", IMPORTS)
def test_a_command_imports_only_what_it_uses(line: str) -> None:
    code = (
        "import sys; before = set(sys.modules); from ascend_doctor.cli import run;"
        "run(sys.argv[1:]); names = {name.partition('.')[0] for name in {*sys.modules} - before};"
        "print(*names - sys.stdlib_module_names, *names & sys.stdlib_module_names, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *line.split()]
    for _ in range(2):  # the first run fills the cache of the matrix
        done = run_program(command)
    names = set(done.stderr.split("\n")[-2].split()) - {"ascend_doctor"}
    assert {name for name in names if name not in sys.stdlib_module_names or name in HEAVY} == (
        IMPORTS[line]
    )
