"""Level 0 notices every breakage, or says why nothing can be seen."""

from collections import Counter

import pytest

from ascend_doctor.findings import Level
from tests.level0.machine import change_machine, machine
from tests.level0.mutants import (
    MACHINES,
    Mutant,
    breakages,
    drops,
    findings,
    fresh,
    healthy,
    is_seen,
    news,
    variations,
)

_BREAKAGES, _VARIATIONS = 150, 40


def _wrong(mutants: list[Mutant]) -> list[str]:
    reports = ((mutant, news(mutant)) for mutant in mutants)
    return [f"{mutant.id}: {new}" for mutant, new in reports if not is_seen(mutant, new)]


def test_the_tables_are_long_and_say_each_thing_once() -> None:
    rows = breakages()
    assert len([mutant for mutant in rows if mutant.see]) >= _BREAKAGES
    assert len(variations()) >= _VARIATIONS
    for table in (rows, variations()):
        assert [
            key for key, count in Counter(mutant.id for mutant in table).items() if count > 1
        ] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_the_machines_are_healthy(name: str) -> None:
    assert [key for key in healthy(name) if key[1] is not Level.WARNING] == []


@pytest.mark.slow
def test_every_breakage_is_seen_as_labelled() -> None:
    assert _wrong(breakages()) == []


@pytest.mark.slow
@pytest.mark.parametrize("file", ["fresh", "outside", "sources", "general", "values"])
def test_kinds_of_breakages_are_seen_and_healthy_machines_have_no_error(file: str) -> None:
    rows = [mutant for mutant in fresh(file) if not mutant.what.startswith("fine")]
    assert _wrong(rows) == []
    fine = [mutant for mutant in fresh(file) if mutant.what.startswith("fine")]
    assert [new for row in fine if (new := _errors(row))] == []


def _errors(mutant: Mutant) -> list[tuple[str, Level, str]]:
    return [new for new in news(mutant) if new[1] is Level.ERROR]


def test_no_healthy_variation_has_an_error() -> None:
    errors = {mutant.id: _errors(mutant) for mutant in variations()}
    assert {key: new_errors for key, new_errors in errors.items() if new_errors} == {}


@pytest.mark.slow
def test_a_dropped_answer_is_seen_as_labelled() -> None:
    assert _wrong(drops()) == []


def test_a_change_that_changes_nothing_is_no_breakage() -> None:
    for change in ({"gone": ["/nowhere"]}, {"edit": {"npu-smi info": {"no such words": ""}}}):
        with pytest.raises(AssertionError):
            change_machine("healthy-a2", change)


def test_a_wrong_label_is_noticed() -> None:
    hot = next(mutant for mutant in breakages() if mutant.id == "hot")
    new = news(hot)
    assert is_seen(hot, new)
    for see in (((Level.ERROR, "npu-temperature"),), ((Level.WARNING, "npu-health"),), ()):
        assert not is_seen(Mutant(id="x", what="", on="healthy-a2", see=see), new)


@pytest.mark.slow
def test_a_machine_in_memory_is_judged_as_its_recording_is() -> None:
    from tests.test_machines import judge_machine

    for name in MACHINES:
        ours = {(finding.check, finding.level) for finding in findings(machine(name))}
        theirs = {
            (finding.check, finding.level)
            for findings in judge_machine(name).values()
            for finding in findings
        }
        launched = {check for check, level in theirs if level is Level.UNKNOWN}
        assert {pair for pair in ours ^ theirs if pair[0] not in launched} == set()
