"""Other ways to the same program: manual pages, and one file that holds it whole."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_doctor import __version__
from ascend_doctor.cli import SECTIONS
from tests.one_file import build
from tests.programs import run_program
from tests.test_machines import folder_of

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, "docs/man.py", folder], cwd=ROOT, check=True, timeout=120)
    return folder


def test_every_command_has_a_manual_page(manual: Path) -> None:
    names = {page.name for page in manual.iterdir()}
    shown = [name for table in SECTIONS.values() for name in table]
    assert {f"ascend-doctor-{name}.1" for name in shown} < names
    assert {"ascend-doctor.1", "ascend-doctor-fleet-check.1", "ascend-doctor-matrix-why.1"} < names


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_manual_pages_are_set_without_a_complaint(manual: Path) -> None:
    for page in manual.iterdir():
        done = run_program(["groff", "-man", "-Tutf8", "-ww", "-z", str(page)], check=False)
        assert done.stderr == "", page.name
        assert done.returncode == 0


def test_a_manual_page_says_what_help_says(manual: Path) -> None:
    text = (manual / "ascend-doctor-check.1").read_text("utf-8")
    assert ".B \\-\\-only ID\nRun only this; repeatable." in text
    assert ".nf\nExit codes: 0 nothing found" in text


def test_one_file_runs_where_nothing_is_installed(tmp_path: Path) -> None:
    """It asks pip's indexes for what it needs, then nothing more."""
    program = tmp_path / "ascend-doctor.pyz"
    build(program)
    (tmp_path / "launch.sh").write_text("torchrun --nproc_per_node 8 train.py\n")
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_program(
            [sys.executable, "-I", str(program), *arguments], check=False, cwd=tmp_path, env=env
        )

    assert run("--version").stdout == f"ascend-doctor, version {__version__}\n"
    machine = ["-l", "0", "-q", "--replay", str(folder_of("cann-not-sourced"))]
    report = run("check", *machine, "--format", "json")
    assert report.returncode == 1, report.stderr
    (tmp_path / "report.json").write_text(report.stdout)
    judged = json.loads(run("judge", "report.json", "--format", "json").stdout)
    assert judged["verdict"]["error"] == json.loads(report.stdout)["verdict"]["error"]
    linted = run("lint", "launch.sh", "--format", "json")
    assert json.loads(linted.stdout)["verdict"]["checks"] > 10, linted.stderr
    assert "\u7528\u6cd5" in run("--lang", "zh", "--help").stdout
