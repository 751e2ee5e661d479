import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.programs import run_program

MISSPELT = {"HCCL_CONECT_TIMEOUT": "3"}


@pytest.fixture
def environment() -> dict[str, str]:
    own = Path(sys.executable).parent
    return {**os.environ, **MISSPELT, "PATH": f"{own}:{os.environ['PATH']}"}


ONLY = ("fix", "-l", "0", "--only", "variables-misspelt", "--only", "variables-valid")


@pytest.mark.slow
def test_without_a_terminal_nothing_is_changed(
    installed: Command, environment: dict[str, str]
) -> None:
    done = installed(*ONLY, env=environment)
    assert done.returncode == 0
    assert "unset HCCL_CONECT_TIMEOUT   # in your shell" in done.stdout
    assert "1 step: 1 not asked" in done.stdout
    assert "Type in your shell" not in done.stdout


@pytest.mark.slow
def test_what_is_repaired_may_show_what_it_hid(
    installed: Command, environment: dict[str, str]
) -> None:
    done = installed(*ONLY, "--yes", "--format", "json", env=environment)
    answer = json.loads(done.stdout)
    assert [(row["step"]["check"], row["outcome"]) for row in answer["steps"]] == [
        ("variables-misspelt", "repaired"),
        ("variables-valid", "repaired"),
    ]
    script = "\n".join([*answer["environment"], "env"])
    after = run_program(["bash", "-c", script], env=environment).stdout
    assert "HCCL_CON" not in after
    assert answer["exit_code"] == done.returncode == 0


@pytest.mark.slow
def test_a_package_is_removed_from_the_examined_environment(
    installed: Command, tmp_path: Path
) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    venv = tmp_path / "venv"
    subprocess.run([base, "-m", "venv", str(venv)], check=True, timeout=120)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "mindspeed").mkdir()
    (site / "mindspeed" / "__init__.py").touch()
    info = site / "mindspeed-0.0.1.dev1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mindspeed\nVersion: 0.0.1.dev1\n")
    (info / "RECORD").write_text(
        "mindspeed/__init__.py,,\n"
        + "".join(f"{info.name}/{n},,\n" for n in ("METADATA", "RECORD"))
    )
    arguments = ("--python", str(venv / "bin/python"), "--only", "mindspeed-placeholder", "-l", "0")
    shown = installed("fix", *arguments)
    assert (shown.returncode, info.exists()) == (1, True), shown.stdout + shown.stderr
    done = installed("fix", *arguments, "--yes")
    assert "repaired" in done.stdout
    assert (done.returncode, info.exists()) == (0, False), done.stdout + done.stderr


@pytest.mark.slow
def test_at_a_terminal_it_asks(environment: dict[str, str]) -> None:
    program = Path(sys.executable).with_name("ascend-doctor")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [program, *ONLY], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        os.write(ours, b"n\n")
        output = process.communicate(timeout=120)[0].decode()
        os.close(ours)
    assert "1 step: 1 skipped" in output


def test_bad_usage(installed: Command) -> None:
    done = installed("fix", "--yes", "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert "exclude each other" in done.stderr
