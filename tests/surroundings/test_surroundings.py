"""Commands in odd surroundings; an ordinary run takes the fast rows."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import ascend_doctor
from tests.knobs import draw
from tests.programs import run_program
from tests.surroundings.rows import FUNCTIONS, ROWS, SAME, Row

MAIN = Path(ascend_doctor.__file__).parent / "__main__.py"
MARK = "ASCEND_DOCTOR_TEST_MARK"


def environment(folder: Path, name: str) -> dict[str, str]:
    for subfolder in ("home", "tmp", "bin"):
        (folder / subfolder).mkdir(exist_ok=True)
    return {
        **{name: os.environ[name] for name in ("LANG", "PATH") if name in os.environ},
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PY": sys.executable,
        "D": f"{sys.executable} -I {MAIN}",
        "Q": f"-l 0 -q --python {sys.executable}",
        MARK: f"{name} {os.getpid()}",
    }


def shell(script: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run_program(
        ["bash", "-c", FUNCTIONS + script], check=False, errors="replace", cwd=folder, env=env
    )


@contextlib.contextmanager
def surroundings(name: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder; no folder above keeps others out."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        yield folder, environment(folder, name)


@pytest.fixture(scope="module")
def same() -> int:
    with surroundings("same") as (folder, env):
        return shell("$D check $Q", folder, env).returncode


def list_left(mark: str) -> list[int]:
    pids = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
    return pids


@pytest.mark.parametrize(
    "row", draw(ROWS, [row for row in ROWS if row.fast], 12), ids=lambda row: row.name
)
def test_the_right_end_and_nothing_left(row: Row, same: int) -> None:
    if row.root and os.geteuid():
        pytest.skip("needs root")
    with surroundings(row.name) as (folder, env):
        done = shell(row.script, folder, env)
        output = done.stdout[-2000:] + done.stderr[-2000:]
        assert done.returncode in {same if code == SAME else code for code in row.codes}, output
        assert "Traceback" not in done.stderr
        assert "a bug in ascend-doctor" not in done.stderr
        assert list_left(env[MARK]) == []
        assert not list((folder / "tmp").iterdir())
        assert shell(row.then, folder, env).returncode == 0, output


def test_the_table_is_as_long_as_it_is_said_to_be() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 60
    assert sum(row.fast for row in ROWS) >= 16
