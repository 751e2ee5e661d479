"""Programs by name come from folders that nobody else can change."""

import os
from pathlib import Path

import pytest

from ascend_doctor.machine.live import LiveMachine, ProgramMissing
from ascend_doctor.machine.search_path import judge_entries, locate, trim_path

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners, which needs root")


def put_program(folder: Path, name: str = "npu-smi") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text('#!/bin/sh\necho "$PATH"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("entry", ["", ".", "./", "bin", "../bin", "~/bin"])
def test_the_current_folder_is_not_searched(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, tmp_path / "bin", tmp_path / "~/bin"):
        put_program(folder)
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in" if entry.startswith("..") else tmp_path)
    path = f"/usr/bin:{entry}:/bin"
    assert trim_path(path) == "/usr/bin:/bin"
    assert [row.text for row in judge_entries(path) if row.reason] == [entry]
    machine = LiveMachine({"PATH": path})
    with pytest.raises(ProgramMissing):
        machine.run(["npu-smi"])


def test_a_program_searches_where_the_doctor_does(tmp_path: Path) -> None:
    put_program(tmp_path / "own")
    machine = LiveMachine({"PATH": f".:{tmp_path}/own:/usr/bin:/bin"})
    assert machine.run(["npu-smi"]).stdout == f"{tmp_path}/own:/usr/bin:/bin\n"
    assert machine.env["PATH"].startswith(".:")


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    program = put_program(tmp_path)
    assert locate(str(program), {"PATH": "/nowhere"}) == str(program)
    assert locate("npu-smi", {"PATH": f"/nowhere:{tmp_path}"}) == str(program)
    assert locate("npu-smi", {"PATH": "/nowhere"}) is None


@as_root
@pytest.mark.parametrize("kind", ["owner", "mode", "parent", "link", "group", "sticky", "root"])
def test_root_starts_nothing_that_others_can_change(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "bin"
    put_program(folder)
    if kind == "owner":
        os.chown(folder, NOBODY, -1)
    elif kind == "mode":
        folder.chmod(0o777)
    elif kind == "parent":
        folder.parent.chmod(0o777)
    elif kind == "link":
        (tmp_path / "link").symlink_to(folder)
        os.lchown(tmp_path / "link", NOBODY, -1)
        folder = tmp_path / "link"
    elif kind == "group":
        os.chown(folder, -1, 987_654)
        folder.chmod(0o775)
    elif kind == "sticky":
        folder.parent.chmod(0o1777)
    safe = kind in {"sticky", "root"}
    (entry,) = judge_entries(str(folder))
    assert bool(entry.reason) != safe, entry
    assert (locate("npu-smi", {"PATH": str(folder)}) is not None) == safe


@as_root
@pytest.mark.parametrize("kind", ["owner", "mode", "target"])
def test_a_program_of_others_in_a_folder_of_root_is_left(kind: str, tmp_path: Path) -> None:
    program = put_program(tmp_path / "bin")
    if kind == "owner":
        os.chown(program, NOBODY, -1)
    elif kind == "mode":
        program.chmod(0o757)
    else:
        program.rename(put_program(tmp_path / "other"))
        os.chown(tmp_path / "other", NOBODY, -1)
        program.symlink_to("../other/npu-smi")
    assert trim_path(str(program.parent)) == str(program.parent)
    assert locate("npu-smi", {"PATH": str(program.parent)}) is None
