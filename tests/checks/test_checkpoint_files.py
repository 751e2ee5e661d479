"""Whether checkpoints can be written, and loaded again."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.collect import interpreter_script
from ascend_doctor.facts import ImportPath
from ascend_doctor.findings import Level
from tests.checks.machine import dist, having, healthy, only, packages, run

ID = "enum-pickling"


@pytest.mark.parametrize(
    ("by_getattr", "level"), [(False, Level.OK), (True, Level.WARNING), (None, Level.UNKNOWN)]
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
    answers = json.loads(done.stdout.rpartition(interpreter_script.SENTINEL)[2])
    assert answers["enums_by_getattr"] is early


@pytest.mark.parametrize(
    ("core", "torch", "level"),
    [
        ("0.12.1", "2.7.1", Level.SKIPPED),
        ("0.12.1", "2.8.0", Level.WARNING),
        ("0.12.3", "2.10.0+cpu", Level.WARNING),
        ("0.13.0", "2.8.0", Level.OK),
        ("0.15.3", "2.13.0", Level.OK),
    ],
)
def test_writing(core: str, torch: str, level: Level) -> None:
    facts = packages(healthy(), dist("torch", torch))
    names = tuple(
        msgspec.structs.replace(
            name,
            copies=tuple(
                msgspec.structs.replace(copy, versions={**copy.versions, "core": core})
                for copy in name.copies
            ),
        )
        if name.name == "megatron"
        else name
        for name in (facts.import_path.names if facts.import_path else ())
    )
    only("checkpoint-writer", having(facts, "import_path", names=names), level)
