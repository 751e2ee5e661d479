import os
import sys
from pathlib import Path

import pytest

from tests.programs import run_program

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_test_that_waits_too_long_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\n"
        "from tests.overtime import Overtime\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Overtime(Path(__file__).parent, 2))\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import os, subprocess, sys\n"
        "def test_pipe_of_an_orphan():\n"
        "    command = ['sh', '-c', 'setsid sleep 987 & sleep 0.1']\n"
        f"    env = {{**os.environ, 'HOME': {str(tmp_path)!r}}}\n"
        "    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:\n"
        "        assert process.stdout.read()\n"
        "def test_next():\n"
        "    pass\n"
    )
    done = run_program(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "test_it.py" in done.stdout, done.stdout
