"""The interpreter that forks its processes, beside the one that starts them."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import forks

SCRIPT = """
import os, sys
print(sys.argv[1:], os.environ["MARK"], os.getcwd(), sys.path[0], __name__, "shelve" in sys.modules)
"""
ENDS = {
    "it ends": ("print(1)", 0),
    "a code": ("raise SystemExit(7)", 7),
    "a text": ("raise SystemExit('no')", 1),
    "an error": ("1 / 0", 1),
    "a signal": ("import os; os.kill(os.getpid(), 9)", -9),
}


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[Path]:
    with forks.interpreter(Path(sys.executable), tmp_path, os.environ, "shelve") as path:
        yield path


def test_a_process_has_what_is_its_own_and_the_modules(forked: Path, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SCRIPT)
    done = subprocess.run(
        [forked, "-u", "a.py", "x", "--y"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MARK": "here"},
    )
    assert done.stdout == f"['x', '--y'] here {tmp_path} {tmp_path} __main__ True\n"


@pytest.mark.parametrize("name", ENDS)
def test_it_ends_as_an_interpreter_does(forked: Path, name: str) -> None:
    code, expected = ENDS[name]
    done = [
        subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
        for python in (forked, sys.executable)
    ]
    assert [run.returncode for run in done] == [expected, expected]
    assert done[0].stdout == done[1].stdout
    assert done[0].stderr.splitlines()[-1:] == done[1].stderr.splitlines()[-1:]


@pytest.mark.parametrize("number", [3, 259])
def test_files_are_passed_on(forked: Path, number: int) -> None:
    reader, low = os.pipe()
    writer = fcntl.fcntl(low, fcntl.F_DUPFD, number)
    os.close(low)
    code = f"import os; os.write({writer}, b'told')"
    subprocess.run([forked, "-c", code], check=True, pass_fds=(writer,))
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"told"


def test_nothing_outlives_who_started_it(forked: Path, tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([forked, "-c", code]) as client:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        process = psutil.Process(int((tmp_path / "pid").read_text()))
        family = [process, *process.children(recursive=True)]
        client.kill()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
