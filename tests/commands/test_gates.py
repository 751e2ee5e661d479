"""Presets and acknowledged findings, by the installed command."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.machines.compose import build
from tests.programs import run_program


def doctor(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("ascend-doctor")), *arguments]
    return run_program(command, check=False, cwd=cwd)


def replay(name: str, *more: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    machine = cwd / "machine"
    if not machine.exists():
        build(name, machine)
    return doctor("check", "--preset", "prolog", "--replay", str(machine), *more, cwd=cwd)


@pytest.mark.slow
def test_a_gate_is_silent_where_all_is_well(tmp_path: Path) -> None:
    done = replay("healthy-a2", "--only", "npu-smi", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_gate_tells_what_is_wrong(tmp_path: Path) -> None:
    done = replay("driver-not-loaded", cwd=tmp_path)
    assert done.returncode == 1
    assert "✗ " in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_options_count_more_than_the_preset(tmp_path: Path) -> None:
    done = replay("healthy-a2", "--only", "npu-smi", "-l", "1", cwd=tmp_path)
    assert done.returncode == 3
    assert "Level 1 did not run" in done.stdout


@pytest.mark.slow
def test_the_file_of_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "ascend-doctor.yaml").write_text(
        "acknowledged:\n- {id: npu-smi, reason: why not, expires: '2000-01-01'}\n"
    )
    done = replay("healthy-a2", "--only", "npu-smi", "--fail-on", "warning", cwd=tmp_path)
    assert done.returncode == 1
    assert "An acknowledgement of npu-smi expired on 2000-01-01" in done.stdout
    done = replay("healthy-a2", "--config", "none.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "none.yaml" in done.stderr
