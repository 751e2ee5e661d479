"""Whether checkpoints can be written, and loaded again."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.collect import interpreter_script
from ascend_doctor.facts import ImportPath
from ascend_doctor.findings import Level
from tests.checks.levels import check_level, skips
from tests.checks.machine import dist, having, healthy, packages
from tests.programs import run_program

ID = "enum-pickling"


@pytest.mark.parametrize(
    ("by_getattr", "level"), [(False, Level.OK), (True, Level.WARNING), (None, Level.UNKNOWN)]
)
def test_pickling(by_getattr: bool | None, level: Level) -> None:
    check_level(level, ID, having(healthy(), "python", enums_by_getattr=by_getattr))


def test_skipped() -> None:
    early = having(healthy(), "python", enums_by_getattr=True)
    for facts in (
        packages(early, dist("torch", "2.5.1")),
        packages(early, gone=("torch",)),
        having(early, "import_path", names=ImportPath().names),
    ):
        skips(ID, facts)


# Enum.__reduce_ex__ of Python 3.11.2.
_EARLY = """import enum
enum.Enum.__reduce_ex__ = lambda self, protocol: (getattr, (self.__class__, self._name_))
"""


@pytest.mark.parametrize("early", [False, True])
def test_what_the_interpreter_tells(tmp_path: Path, early: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text(_EARLY if early else "")
    done = run_program(
        [sys.executable, interpreter_script.__file__], env={"PYTHONPATH": str(tmp_path)}
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
    check_level(level, "checkpoint-writer", having(facts, "import_path", names=names))
