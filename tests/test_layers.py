from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ascend_doctor"

# Imports go down only, or to siblings in the same sub-folder.
LAYERS = [
    {"errors", "exits", "findings", "language", "timestamps", "__init__"},
    {"probe_records"},
    {"probe_results"},
    {"facts"},
    {"redact"},
    {"machine"},
    {"matrix"},
    {"probing"},
    {"judging", "provision"},
    {"collect", "checks", "simulator", "report", "diagnosis", "planning", "upkeep"},
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
def imported(path: Path) -> set[str]:
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
        for name in imported(path)
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
        for name in imported(path)
        if name.split(".")[0] in forbidden
    ]


def test_nothing_imports_torch() -> None:
    assert not imports_of(modules(), {"torch", "torch_npu"})


def test_checks_see_a_case_and_nothing_else() -> None:
    forbidden = {"os", "subprocess", "time", "click", "rich", "socket", "shutil", "pathlib", "yaml"}
    assert not imports_of(sorted((PACKAGE / "checks").rglob("*.py")), forbidden)


def test_probes_never_import_the_doctor() -> None:
    assert not imports_of(sorted((ROOT / "probes").glob("*.py")), {"ascend_doctor"})


def test_help_imports_only_what_it_uses() -> None:
    code = (
        "import sys; from ascend_doctor.cli import run; run(['--help']);"
        "bad = {'rich', 'yaml', 'git', 'psutil', 'elftools', 'resolvelib', 'torch', 'numpy'};"
        "print(sorted(bad & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stderr.strip() == "[]"
