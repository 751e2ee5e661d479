"""Whether checkpoints that this Python writes can be loaded again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_doctor.collect import interpreter_script
from ascend_doctor.facts import ImportPath
from ascend_doctor.findings import Level
from tests.checks.machine import dist, having, healthy, only, packages, run

ID = "enum-pickling"


@pytest.mark.parametrize(
    ("by_getattr", "level"),
    [(False, Level.OK), (True, Level.WARNING), (None, Level.UNKNOWN)],
)
def test_pickling(by_getattr: bool | None, level: Level) -> None:
    only(ID, having(healthy(), "python", enums_by_getattr=by_getattr), level)


def test_skipped() -> None:
    early = having(healthy(), "python", enums_by_getattr=True)
    for facts in (
        packages(early, dist("torch", "2.5.1")),
        packages(early, gone=("torch",)),
        having(early, "import_path", names=ImportPath().names),
    ):
        assert run(ID, facts)[0].level is Level.SKIPPED


# Enum.__reduce_ex__ of Python 3.11.2.
_EARLY = """import enum
enum.Enum.__reduce_ex__ = lambda self, protocol: (getattr, (self.__class__, self._name_))
"""


@pytest.mark.parametrize("early", [False, True])
def test_what_the_interpreter_tells(tmp_path: Path, early: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text(_EARLY if early else "")
    done = subprocess.run(
        [sys.executable, interpreter_script.__file__],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout.rpartition(interpreter_script.SENTINEL)[2])
    assert told["enums_by_getattr"] is early
