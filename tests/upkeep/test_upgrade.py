"""What an upgrade changes: known breakages are named, and nothing is made up."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.lock import BasePython, Lock
from ascend_doctor.provision.sources import Mirrors
from ascend_doctor.upkeep.changes import matrix_changes, operator_changes
from ascend_doctor.upkeep.imports import ImportedName, find_losses, provides, read_imports
from ascend_doctor.upkeep.source_tree import SourceTree
from ascend_doctor.upkeep.upgrade import Sources, nearest_target, target_query, upgrade
from tests.conftest import Command
from tests.present import present

CATALOG = Catalog()
BREAKAGES = read_yaml(Path(__file__).with_name("breakages.yaml"))
IN_FACTS = [row for row in BREAKAGES if "from" in row]
ROWS = {
    "megatron-lm": "core_v0.15.3",
    "megatron-core": "0.15.3",
    "mindspeed": "core_r0.15.3",
    "torch": "2.7.1",
    "torch-npu": "2.7.1.post4",
    "ms-swift": "4.2.3",
    "mcore-bridge": "1.4.3",
}


def lock(rows: dict[str, str] = ROWS) -> Lock:
    return Lock(
        tool_version="0",
        id="old",
        created_at="2026-11-23T00:00:00Z",
        wish={"megatron": "0.15.3", "framework": "ms-swift"},
        python=BasePython(version="3.11.7", tag="cp311", arch="aarch64"),
        checkouts=(),
        wheels=(),
        rows=rows,
        system={"cann": "9.0.0"},
    )


def tree(name: str, **files: str) -> SourceTree:
    return SourceTree(
        name=name, files={path.replace("__", "/") + ".py": text for path, text in files.items()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("row", IN_FACTS, ids=lambda row: str(row["id"]))
def test_a_known_change_is_named_from_the_facts_of_the_matrix(row: dict[str, Any]) -> None:
    ((name, old),) = row["from"].items()
    changes = [*matrix_changes(CATALOG, name, old, row["to"][name])]
    text = " ".join(change.text for change in changes)
    assert [word for word in row["says"] if word not in text] == []
    assert all(change.sources for change in changes)


def test_a_release_does_not_differ_from_itself() -> None:
    for name, version in {**ROWS, "cann": "9.0.0"}.items():
        assert [*matrix_changes(CATALOG, name, version, version)] == []


def test_imports_are_found_where_they_stand() -> None:
    text = (
        "import megatron.core.mpu\n"
        "from megatron.core import a, b as c\n"
        "try:\n    from megatron.core.x import d\nexcept ImportError:\n    d = None\n"
        "def later():\n    from megatron.core.y import e\n"
        "class K:\n    from megatron.core import f\n"
        "from other import g\nfrom . import megatron\n"
    )
    names = {
        name.dotted: (name.line, name.guarded)
        for name in read_imports(tree("user", swift=text), "megatron")
    }
    assert names == {
        "megatron.core.mpu": (1, False),
        "megatron.core.a": (2, False),
        "megatron.core.b": (2, False),
        "megatron.core.x.d": (4, True),
        "megatron.core.y.e": (8, True),
        "megatron.core.f": (10, False),
    }


@pytest.mark.parametrize(
    ("text", "provided"),
    [
        ("def name(): pass", True),
        ("if True:\n    class name: pass", True),
        ("from .deep import *", True),
        ("import a.b as name", True),
        ("x, (name, y) = z", True),
        ("def __getattr__(word): ...", True),
        ("not python (", True),
        ("def other():\n    name = 1", False),
        ("class Other:\n    name = 1", False),
        ("from .gone import *", False),
        ("from .itself import *", False),
        ("", False),
    ],
)
def test_what_a_module_provides(text: str, *, provided: bool) -> None:
    files = {
        "megatron__core__itself": text,
        "megatron__core__deep": "from .deeper import *",
        "megatron__core__deeper": "name = 1",
    }
    asked = ImportedName(
        module="megatron.core.itself", name="name", path="a.py", line=1, guarded=False
    )
    assert provides(tree("new", **files), asked) is provided


def test_a_name_that_moves_breaks_who_imports_it() -> None:
    old = tree("old", megatron__core__utils="def f(): pass\ndef g(): pass\n")
    new = tree("new", megatron__core__utils="def g(): pass\n")
    user = tree("user", swift__a="from megatron.core.utils import f, g\n")
    (lost,) = find_losses(user, old, new, "megatron")
    assert (lost.dotted, lost.path, lost.guarded) == ("megatron.core.utils.f", "swift/a.py", False)
    assert find_losses(user, new, old, "megatron") == ()


def wheel(folder: Path, version: str, *schemas: str) -> Path:
    file = folder / f"torch_npu-{version}-cp311-cp311-manylinux_2_28_aarch64.whl"
    with zipfile.ZipFile(file, "w") as archive:
        content = b"\0".join(schema.encode() for schema in ("npu::no", *schemas))
        archive.writestr("torch_npu/lib/libtorch_npu.so", b"\x7fELF\0" + content + b"\0")
    return file


def test_operators_go_come_and_lose_parameters(tmp_path: Path) -> None:
    declaration = (
        "npu_one(Tensor(a!) self, int[2] size=[1, 2], *, bool fast=True) -> (Tensor(a!), Tensor)"
    )
    old = wheel(tmp_path, "1", declaration, "npu_two(Tensor self) -> Tensor", "npu_old() -> Tensor")
    new = wheel(
        tmp_path,
        "2",
        "npu_one(Tensor self, int[2] size=[1, 2]) -> Tensor",
        "npu_two(Tensor self, int dim=-1) -> (Tensor, Tensor)",
        "npu_three(Tensor self) -> Tensor",
    )
    user = tree("swift", swift__a="x = torch_npu.npu_old()\n")
    changes = [(change.kind, change.text) for change in operator_changes([user], old, new)]
    assert changes == [
        ("breaks", "the operator npu::npu_old, which swift/a.py of swift calls"),
        ("breaks", "npu::npu_one no longer takes fast"),
        ("comes", "1 operators: npu_three"),
    ]
    assert [*operator_changes([user], old, old)] == []


@pytest.mark.slow
def test_what_can_stay_does(tmp_path: Path) -> None:
    old = lock()
    query = target_query(CATALOG, old, {"cann": "9.1.0"})
    target = present(nearest_target(CATALOG, old, query))
    assert target.versions["mindspeed"] == "core_r0.15.3"
    assert target.versions["ms-swift"] == "4.2.3"
    result = upgrade(CATALOG, old, target, Sources(mirrors=Mirrors((), ()), wheels=(tmp_path,)))
    assert result.pins["cann"] == ("9.0.0", "9.1.0")
    assert any("query_pkg_version.sh" in change.text for change in result.changes)


def run(doctor: Command, folder: Path, *arguments: str) -> tuple[int, str]:
    file = folder / locks.FILE
    locks.write(file, lock())
    options = ("--lock", str(file), "--prefix", str(folder))
    done = doctor("matrix", "upgrade", *options, *arguments)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_command_says_what_could_not_be_told(doctor: Command, tmp_path: Path) -> None:
    code, text = run(doctor, tmp_path, "--to", "megatron=0.16.1")
    assert code == 1
    assert "core_v0.15.3 -> core_v0.16.1" in text
    assert "megatron.core.optimizer.get_megatron_optimizer no longer takes" in text
    assert "no source of core_v0.15.3 and core_v0.16.1 is at hand" in text


@pytest.mark.slow
def test_the_command_prints_json(doctor: Command, tmp_path: Path) -> None:
    options = ("--to", "torch-npu=2.7.1.post2", "--format", "json")
    code, text = run(doctor, tmp_path, *options)
    assert code in {1, 3}
    pins = json.loads(text)["upgrade"]["pins"]
    assert pins["torch-npu"] == ["2.7.1.post4", "2.7.1.post2"]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["nonsense=1", "cann", "cann=", "torch-npu=what", "=1"])
def test_what_is_no_version_is_refused(doctor: Command, tmp_path: Path, wrong: str) -> None:
    code, text = run(doctor, tmp_path, "--to", wrong)
    assert code == 2
    assert wrong in text


@pytest.mark.slow
def test_an_upgrade_that_no_stack_fits_is_refused(doctor: Command, tmp_path: Path) -> None:
    code, text = run(doctor, tmp_path, "--to", "torch=2.6.0", "--to", "torch-npu=2.7.1.post4")
    assert code == 1
    assert "no stack has" in text
