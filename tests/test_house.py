"""The house gets lighter and better, never worse: its ceilings only fall."""

import ast
import os
from pathlib import Path

import pytest

from tests import house, naming
from tests.ceilings import FILE, Ceiling, is_too_high, lower, read_ceilings, write_ceilings
from tests.prose import is_long, sentences, words

CEILINGS = read_ceilings(FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def measures() -> dict[str, house.Measure]:
    return {measure.name: measure for measure in house.measures()}


def test_no_count_is_above_its_ceiling(measures: dict[str, house.Measure]) -> None:
    higher = {
        f"{name}: {measures[name].total} > {ceiling.maximum}"
        for name, ceiling in CEILINGS.items()
        if measures[name].total > ceiling.maximum
    }
    assert not higher, "`python -m tests.house --where MEASURE` lists what it counts"


@pytest.mark.skipif("CI" not in os.environ, reason="ceilings follow down where CI is set")
def test_ceilings_follow_down(measures: dict[str, house.Measure]) -> None:
    high = {name for name in CEILINGS if is_too_high(CEILINGS[name], measures[name].total)}
    assert not high, "`python -m tests.house --lower` lowers them"


def test_each_measure_has_a_ceiling(measures: dict[str, house.Measure]) -> None:
    assert list(measures) == list(CEILINGS), "write them by `python -m tests.house --lower`"
    assert write_ceilings(CEILINGS) == FILE.read_text("utf-8")


def test_a_ceiling_never_rises() -> None:
    ceilings = {"a": Ceiling(1000, 500), "b": Ceiling(10), "c": Ceiling(1000)}
    counts = [("a", 800), ("b", 12), ("c", 985), ("new", 400)]
    assert lower(ceilings, counts) == {
        "a": Ceiling(808, 500),
        "b": Ceiling(10),
        "c": Ceiling(1000),
        "new": Ceiling(404),
    }


def test_a_conflict_in_the_file_becomes_the_lower_ceiling() -> None:
    ours, theirs = {"a": Ceiling(900, 5)}, {"a": Ceiling(800, 5)}
    text = f"<<<<<<< a\n{write_ceilings(ours)}=======\n{write_ceilings(theirs)}>>>>>>> b\n"
    assert read_ceilings(text) == theirs


def test_outside_a_checkout_files_are_walked(tmp_path: Path) -> None:
    for name in ("ascend_doctor/a.py", ".ci/run", ".git/HEAD", ".venv/b.py", "a/__pycache__/c.pyc"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert {path.as_posix() for path in house.walk(tmp_path)} == {"ascend_doctor/a.py", ".ci/run"}


def test_checks_read_records_by_fields() -> None:
    code = "def check(run: Any):\n    return run.ranks[0].values['rates'], table.values()"
    nodes = list(ast.walk(ast.parse(code)))
    reads = naming.untyped_reads(nodes, Path("ascend_doctor/checks/a.py"))
    assert sorted(read.text for read in reads) == ["Any", "run.ranks[0].values"]


def test_files_are_opened_behind_one_door() -> None:
    code = "open(a)\nPath(a).is_dir()\nos.path.exists(a)\nself._machine.exists(a)\nread_bytes(a, 9)"
    nodes = list(ast.walk(ast.parse(code)))
    accesses = naming.file_accesses(nodes, Path("ascend_doctor/fleet/a.py"))
    assert [access.line for access in accesses] == [1, 2, 3]
    assert not list(naming.file_accesses(nodes, Path("ascend_doctor/machine/a.py")))


def test_names_are_recognised() -> None:
    code = (
        "import a as found\ndef f(_told, *, given=1):\n    for one in f(place=2): x.kept = found_it"
    )
    banned = naming.banned_names(ast.walk(ast.parse(code)), Path("a.py"))
    assert sorted(name.text for name in banned) == sorted(
        ["found", "_told", "given", "one", "place", "kept"]
    )
    assert naming.is_participle("_told")
    assert naming.is_participle("refused_calls")
    assert not naming.is_participle("read_samples")
    assert not naming.is_participle("seed")


def test_words_and_sentences_are_recognised() -> None:
    text = "It was told, so\nthat it is no NPU. It is no longer mended; see `told`, untold wishes."
    assert words(text) == ["told", "is no", "so that", "mend", "wish"]
    text = "Set `a. B` to 2. It works (see [the page](a/b.md).) Then stop. 3 NPUs, e.g. two"
    assert sentences(text) == [
        "Set Code to 2.",
        "It works (see [the page].",
        "Then stop.",
        "3 NPUs, e.g. two",
    ]
    assert is_long("word " * 31)
    assert not is_long("word - " * 30)
