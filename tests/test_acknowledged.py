import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.acknowledged import Acknowledgement, acknowledge, read_settings

TODAY = dt.date(2026, 11, 21)
BAD = Finding(check="cann-installed", level=Level.ERROR, title="no CANN")


def row(**more: Any) -> Acknowledgement:
    fields: dict[str, Any] = {
        "id": "cann-installed",
        "reason": "a build host",
        "expires": "2026-11-21",
    }
    return Acknowledgement(**{**fields, **more})


def acknowledge_findings(*rows: Acknowledgement, finding: Finding = BAD) -> list[tuple[str, Level]]:
    findings = acknowledge([finding], rows, host="build-7", today=TODAY)
    return [(finding.check, finding.level) for finding in findings]


def test_a_known_finding_is_skipped_with_its_reason_on_its_last_day_too() -> None:
    (finding,) = acknowledge([BAD], [row()], host="build-7", today=TODAY)
    assert finding.level is Level.SKIPPED
    assert finding.title == "no CANN (acknowledged until 2026-11-21: a build host)"


@pytest.mark.parametrize("more", [{"id": "other"}, {"nodes": "gpu*"}])
def test_other_findings_and_other_nodes_count(more: dict[str, str]) -> None:
    assert acknowledge_findings(row(**more)) == [("cann-installed", Level.ERROR)]


def test_a_glob_names_nodes() -> None:
    assert acknowledge_findings(row(nodes="build-[0-9]")) == [("cann-installed", Level.SKIPPED)]


def test_an_expired_row_is_a_warning_and_the_finding_counts() -> None:
    assert acknowledge_findings(row(expires="2026-11-20")) == [
        ("cann-installed", Level.ERROR),
        ("acknowledged", Level.WARNING),
    ]


def test_what_could_not_be_told_cannot_be_known() -> None:
    dark = Finding(check="cann-installed", level=Level.UNKNOWN, title="?")
    assert acknowledge_findings(row(), finding=dark) == [("cann-installed", Level.UNKNOWN)]


ROOT_ONLY = Finding(check="hccn-tool", level=Level.UNKNOWN, title="for root", needs="root")
ALL = row(id="*", unknown="needs-root", expires="")


@pytest.mark.parametrize("identity", ["*", "hccn-tool"])
def test_what_needs_root_can_be_acknowledged_without_a_day(identity: str) -> None:
    (finding,) = acknowledge([ROOT_ONLY], [msgspec.structs.replace(ALL, id=identity)], host="h")
    assert finding.level is Level.SKIPPED
    assert finding.title == "for root (not checked, needs root; acknowledged: a build host)"


@pytest.mark.parametrize(
    "finding",
    [
        msgspec.structs.replace(ROOT_ONLY, needs=""),
        msgspec.structs.replace(ROOT_ONLY, check="expected-links"),
        msgspec.structs.replace(ROOT_ONLY, level=Level.ERROR),
        msgspec.structs.replace(ROOT_ONLY, level=Level.WARNING),
    ],
)
def test_that_row_hides_nothing_else(finding: Finding) -> None:
    assert acknowledge([finding], [ALL], host="h") == (finding,)


def test_it_can_expire_as_others_do() -> None:
    assert acknowledge_findings(
        msgspec.structs.replace(ALL, expires="2026-11-20"), finding=ROOT_ONLY
    ) == [("hccn-tool", Level.UNKNOWN), ("acknowledged", Level.WARNING)]


def test_a_site_says_what_it_expects(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("expect: [npus=8, 'cann>=8.5.0', links=up]")
    assert [expectation.text for expectation in read_settings(str(file)).expected] == [
        "npus=8",
        "cann>=8.5.0",
        "links=up",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acknowledged: [{id: a, reason: b}]", "expires"),
        ("acknowledged: [{id: a, reason: b, expires: '2026-13-01'}]", r"acknowledged\[0\]"),
        ("acknowledged: [{id: a, reason: ' ', expires: '2026-12-01'}]", "reason"),
        ("acknowledged: [{id: a, reason: b, expires: '2026-12-01', node: x}]", "node"),
        ("acknowledged: [{id: '*', reason: b, expires: '2026-12-01'}]", "needs-root"),
        ("acknowledged: [{id: expected-npus, reason: b, expires: '2026-12-01'}]", "expect:"),
        ("acknowledged: [{id: a, reason: b, unknown: all}]", "unknown"),
        ("expect: [npus=8, cards=8]", r"expect\[1\].*the keys are npus"),
        ("expect: [npus]", r"expect\[0\]"),
        ("known: []", "known"),
        ("[", "settings.yaml"),
    ],
)
def test_a_bad_file_names_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_settings(str(file))


def test_a_file_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_settings(str(tmp_path / "none.yaml"))
