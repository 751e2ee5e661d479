"""The pytest plugin for other projects, on a project made of what docs/testing.md shows."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from ascend_doctor.machine.parsing import read_yaml
from tests.programs import run_program

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
PLUGIN = ("-p", "ascend_doctor.testing")
NPUS = "--simulated-npus"


def example() -> str:
    """The tests of the page."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "test_npus.py").write_text(example())
    return folder


def run(python: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    temporary = folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    return run_program(
        [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *options],
        check=False,
        timeout=900,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
    )


def test_a_project_has_npus_in_process_and_under_torchrun(
    examined_python: Path, project: Path
) -> None:
    done = run(examined_python, project, *PLUGIN, NPUS, "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    files = [path for path in (project.parent / "tmp").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"ranks.py"}, files  # pytest keeps its own folders


def test_what_the_plugin_ran_is_ended_at_its_limit(examined_python: Path, project: Path) -> None:
    (project / "test_npus.py").write_text(
        "import subprocess, pytest, psutil, sys\n"
        "def test_limit(simulated_npus):\n"
        "    sleeper = 'import time; time.sleep(987)'\n"
        "    with pytest.raises(subprocess.TimeoutExpired):\n"
        "        simulated_npus.run(sys.executable, '-c', sleeper, timeout=3)\n"
        "    assert not [p for p in psutil.process_iter(['cmdline'])\n"
        "                if p.info['cmdline'] and sleeper in p.info['cmdline']]\n"
        "def test_refused(simulated_npus):\n"
        "    with pytest.raises(Exception, match='no-such'):\n"
        "        simulated_npus.run('true', faults=['no-such'])\n"
    )
    done = run(examined_python, project, *PLUGIN, NPUS, "2")
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_without_npus_tests_are_skipped_with_the_reason(
    examined_python: Path, project: Path
) -> None:
    (project / "test_npus.py").write_text("def test_it(simulated_npus): pass\n")
    done = run(examined_python, project, *PLUGIN)
    assert "1 skipped" in done.stdout
    assert "no simulated NPUs: start pytest with" in done.stdout


@pytest.mark.parametrize("number", ["0", "17"])
def test_a_number_of_npus_that_cannot_be_is_refused(
    examined_python: Path, project: Path, number: str
) -> None:
    done = run(examined_python, project, *PLUGIN, NPUS, number)
    assert done.returncode == 4
    assert f"ERROR: {NPUS} {number}: 1 to 16 are possible" in done.stderr


def test_the_workflow_runs_what_the_page_says() -> None:
    workflow = read_yaml(ROOT / "docs" / "npus-in-ci.yml")
    steps = workflow["jobs"]["simulated"]["steps"]
    assert f"python -m pytest {' '.join(PLUGIN)} {NPUS} 8 -m npu" in [
        step.get("run") for step in steps
    ]
