from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.checks import all_checks
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import SECTIONS, Host, Npus, Snapshot, StackLock
from ascend_doctor.findings import Finding, Level, Remedy
from ascend_doctor.judging.judge import (
    Case,
    Check,
    ConcludedError,
    error,
    judge,
    note,
    unknown,
    warning,
)
from ascend_doctor.judging.subjects import subjects
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeRun

CATALOG = Catalog()


def findings(run: Any) -> tuple[Finding, ...]:
    check = Check(id="the-check", title="It holds", explain="text", run=run)
    return judge(Case(facts=Snapshot(), catalog=CATALOG), [check])


def test_silence_is_ok() -> None:
    assert findings(lambda _: ()) == (Finding(check="the-check", level=Level.OK, title="It holds"),)


def test_findings_carry_the_id_of_their_check() -> None:
    judged = findings(lambda _: [error("bad"), warning("odd"), unknown("?"), note("fine")])
    assert [(f.check, f.level.value) for f in judged] == [
        ("the-check", "error"),
        ("the-check", "warning"),
        ("the-check", "unknown"),
        ("the-check", "ok"),
    ]


def test_a_remedy_is_a_sentence_with_commands_or_made_before() -> None:
    made = Remedy(summary="Restart it", step="restart")
    both = [error("bad", remedy="Remove it", commands=("rm it",)), unknown("?", remedy=made)]
    assert [finding.remedy for finding in findings(lambda _: [*both, warning("odd")])] == [
        Remedy(summary="Remove it", commands=("rm it",)),
        made,
        None,
    ]


@pytest.mark.parametrize(
    ("first", "levels"),
    [(note("", observed="a"), ["ok", "ok", "unknown"]), (error("bad"), ["error"])],
)
def test_what_a_probe_left_open_is_dropped_beside_a_fault_alone(
    first: Finding, levels: list[str]
) -> None:
    def run(_: Case) -> Iterator[Finding]:
        yield from (first, note(observed="b"))
        raise Unknown("the rest was not measured")

    check = Check(id="the-check", title="It holds", explain="text", probe="dtype", run=run)
    judged = judge(Case(facts=Snapshot(), catalog=CATALOG), [check])
    assert [finding.level.value for finding in judged] == levels


def test_a_note_without_a_title_has_that_of_its_check() -> None:
    (noted,) = findings(lambda _: [note(observed="8 of them")])
    assert (noted.title, noted.observed) == ("It holds", "8 of them")


def test_a_check_that_is_concluded_says_what_it_was_concluded_with() -> None:
    def conclude(_: Case) -> Iterator[Finding]:
        raise ConcludedError([error("bad"), warning("odd")])
        yield

    judged = findings(conclude)
    assert [(f.check, f.title) for f in judged] == [("the-check", "bad"), ("the-check", "odd")]


def test_an_error_with_which_a_stack_was_taken_is_a_warning() -> None:
    both = [error("bad", because="It is."), warning("odd"), unknown("?")]
    check = Check(id="the-check", title="It holds", explain="text", run=lambda _: both)
    other = Check(id="another", title="It holds too", explain="text", run=lambda _: both)
    lock = StackLock(present=True, accepted_checks=("the-check",))
    findings = judge(Case(facts=Snapshot(stack_lock=lock), catalog=CATALOG), [check, other])
    assert [(f.level.value, f.accepted) for f in findings[:3]] == [
        ("warning", True),
        ("warning", False),
        ("unknown", False),
    ]
    assert findings[0].because == "It is. The stack was built with --accept the-check."
    assert [f.level.value for f in findings[3:]] == ["error", "warning", "unknown"]


def test_unknown_and_not_applicable_are_values() -> None:
    def cannot(_: Case) -> Iterator[Finding]:
        raise Unknown("npu-smi did not answer")
        yield

    def no_subject(_: Case) -> Iterator[Finding]:
        raise NotApplicable("no Ascend device here")
        yield

    assert findings(cannot)[0].level is Level.UNKNOWN
    assert "npu-smi did not answer" in findings(cannot)[0].title
    assert findings(no_subject)[0].level is Level.SKIPPED


def test_what_was_found_before_an_unknown_stays() -> None:
    def half(_: Case) -> Iterator[Finding]:
        yield error("bad")
        raise Unknown("the rest")

    assert [f.level for f in findings(half)] == [Level.ERROR, Level.UNKNOWN]


def test_a_crash_is_unknown_and_says_that_it_is_our_bug() -> None:
    def crash(_: Case) -> Iterator[Finding]:
        raise ZeroDivisionError("x")
        yield

    (finding,) = findings(crash)
    assert finding.level is Level.UNKNOWN
    assert "bug in ascend-doctor" in finding.because


def test_levels_are_ordered() -> None:
    assert Level.OK < Level.SKIPPED < Level.WARNING < Level.UNKNOWN < Level.ERROR
    with pytest.raises(TypeError):
        assert Level.OK < "error"


def test_need_says_why_a_section_is_missing() -> None:
    facts = Snapshot()
    with pytest.raises(Unknown, match="host: not collected"):
        facts.need(Host)
    assert Snapshot(npus=Npus(tool="/x")).need(Npus).tool == "/x"


def test_a_probe_that_did_not_run_is_unknown_with_its_reason() -> None:
    facts = Snapshot(probes=(ProbeRun(probe="device", not_started="torch is not installed"),))
    case = Case(facts=facts, catalog=CATALOG)
    with pytest.raises(Unknown, match="torch is not installed"):
        case.probe("device")
    with pytest.raises(Unknown, match="allreduce did not run"):
        case.probe("allreduce")


def test_ids_are_kebab_case_and_every_check_explains_itself() -> None:
    known = all_checks()
    assert known
    for check in known:
        assert check.id == check.id.lower()
        assert set(check.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(check.explain) > 80, f"{check.id}: its docstring is the page of explain"
        first = check.title.split()[0]
        assert not first.isalpha() or first[0].isupper() or first in {"torch", "verl"}, check.id


@pytest.mark.slow
@given(st.data())
def test_judge_never_raises_whatever_sections_are_there(data: st.DataObject) -> None:
    sections = data.draw(st.sets(st.sampled_from(sorted(SECTIONS))))
    empty: dict[str, Any] = {name: SECTIONS[name]() for name in sections}
    case = Case(
        facts=Snapshot(**empty),
        catalog=CATALOG,
        device=data.draw(st.sampled_from(["npu", "cuda", "cpu"])),
        nproc=data.draw(st.none() | st.integers(-1, 64)),
    )
    known = all_checks()
    findings = judge(case, known)
    assert {f.check for f in findings} == {c.id for c in known}
    crashed = [f for f in findings if "the check itself failed" in f.title]
    assert not crashed


def test_a_finding_round_trips() -> None:
    finding = msgspec.structs.replace(error("x", observed="a", ranks=(1, 2)), check="driver")
    again = msgspec.json.decode(msgspec.json.encode(finding), type=Finding)
    assert again == finding


def test_causes_are_checks_and_lead_to_no_circle() -> None:
    checks = {check.id: check for check in all_checks()}
    assert any(check.caused_by for check in checks.values())
    for check in checks.values():
        assert set(check.caused_by) <= checks.keys(), check.id
        causes = set(check.caused_by)
        for _ in checks:
            causes |= {cause for name in causes for cause in checks[name].caused_by}
        assert check.id not in causes


def test_a_finding_names_the_first_cause_that_is_an_error() -> None:
    def fails(_: Case) -> Iterator[Finding]:
        yield error("fails")

    def warns(_: Case) -> Iterator[Finding]:
        yield warning("warns")

    root = Check(id="root", title="t", explain="e", run=fails)
    middle = Check(id="middle", title="t", explain="e", run=fails, caused_by=("absent", "root"))
    last = Check(id="last", title="t", explain="e", run=warns, caused_by=("mild", "middle"))
    mild = Check(id="mild", title="t", explain="e", run=warns)
    case = Case(facts=Snapshot(), catalog=Catalog())
    got = {each.check: each.because_of for each in judge(case, (root, middle, last, mild))}
    assert got == {"root": "", "middle": "root", "last": "root", "mild": ""}
    got = {each.check: each.because_of for each in judge(case, (middle, last, mild))}
    assert got == {"middle": "", "last": "middle", "mild": ""}


def test_findings_about_the_run_belong_to_no_subject() -> None:
    checks = all_checks()
    findings = judge(Case(facts=Snapshot(), catalog=CATALOG), checks)
    about_run = Finding(check="early-end", level=Level.UNKNOWN, title="It ended early")
    listed = tuple(subjects((*findings, about_run), checks, Snapshot()))
    assert listed == tuple(subjects(findings, checks, Snapshot()))
    assert {subject.name for subject in listed} >= {"Host", "CANN", "Network"}
