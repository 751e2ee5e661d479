import importlib
import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.facts import Distribution, Python, Snapshot
from ascend_doctor.findings import Finding, Level, Remedy
from ascend_doctor.render.formats import FORMATS, github, jsonl, junit, markdown, prometheus, sarif
from ascend_doctor.report import Report, verdict

RENDER = {
    name: importlib.import_module(f"ascend_doctor.render.formats.{name}").render for name in FORMATS
}
HOSTILE = "\x1b]0;x\x07\x1b[2J[red]<b>&\"'`@all\r\n::error::x%0A\u202e"

LEVELS = [
    Finding(check="good", level=Level.OK, title="Fine"),
    Finding(
        check="bad",
        level=Level.ERROR,
        title="Broken",
        observed="this, that",
        remedy=Remedy(summary="Mend it", commands=("mend --now",)),
        ranks=(3,),
    ),
    Finding(check="bad", level=Level.UNKNOWN, title="Half seen"),
    Finding(check="odd", level=Level.WARNING, title="Odd"),
    Finding(check="dark", level=Level.UNKNOWN, title="Not told"),
    Finding(check="none", level=Level.SKIPPED, title="No subject"),
]


def report(findings: list[Finding], *, simulated: bool = False) -> Report:
    judged = tuple(findings)
    python = Python(version="3.11.7", distributions=(Distribution(name="torch", version="2.13.0"),))
    return Report(
        tool_version="1.2.3",
        taken_at="2026-11-21T04:00:00+00:00",
        host="h",
        python="/p",
        device="npu",
        simulated=simulated,
        redacted=True,
        levels=(),
        verdict=verdict(judged, fail_on=Level.ERROR),
        findings=judged,
        snapshot=Snapshot(python=python),
        seconds=1.5,
    )


def test_junit_has_a_case_a_check_and_counts_that_agree() -> None:
    suite = ET.fromstring(junit.render(report(LEVELS)))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    cases = {case.get("name"): case for case in suite}
    assert [child.tag for child in cases["bad"]] == ["failure"]
    assert "mend --now" in (cases["bad"][0].text or "")
    assert [child.tag for child in cases["dark"]] == ["error"]
    assert [child.tag for child in cases["odd"]] == ["system-out"]
    assert [child.tag for child in cases["none"]] == ["skipped"]
    assert not list(cases["good"])


def test_github_annotations_are_single_lines_with_levels() -> None:
    rows = github.render(report(LEVELS)).splitlines()
    assert [row.split(" ")[0] for row in rows] == [
        "::error",
        "::warning",
        "::warning",
        "::warning",
        "::notice",
    ]
    assert "mend --now" in rows[0]


def test_github_text_cannot_begin_another_command() -> None:
    rows = github.render(
        report([Finding(check="c", level=Level.ERROR, title=HOSTILE)])
    ).splitlines()
    assert len(rows) == 2
    assert rows[0].count("::error") - rows[0].count("%3A%3Aerror") <= 2
    assert "%250A" in rows[0]


def test_sarif_results_point_at_their_rules() -> None:
    log = json.loads(sarif.render(report(LEVELS)))
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert [result["level"] for result in run["results"]] == ["error", "note", "warning", "note"]


def test_prometheus_lines_have_the_exposition_form() -> None:
    rows = prometheus.render(report(LEVELS)).splitlines()
    shape = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\\n]*"(,[a-z]+="[^"\\\n]*")*\})? -?[0-9.]+')
    assert all(row.startswith("# ") or shape.fullmatch(row) for row in rows)
    assert 'ascend_doctor_findings{level="error"} 1' in rows
    assert 'ascend_doctor_check{check="bad"} 4' in rows
    assert "ascend_doctor_exit_code 1" in rows


def test_json_lines_are_objects_with_pinned_heads() -> None:
    rows = [json.loads(row) for row in jsonl.render(report(LEVELS)).splitlines()]
    assert [row["kind"] for row in rows] == ["finding"] * 6 + ["verdict"]
    assert all({"schema", "host", "simulated", "kind"} <= set(row) for row in rows)


def test_markdown_shows_the_findings_and_the_environment() -> None:
    page = markdown.render(report(LEVELS))
    for part in ("### error: Broken", "```bash\nmend --now\n```", "| torch | 2.13.0 |"):
        assert part in page


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_simulated_is_said_in_every_format(name: str) -> None:
    assert "simulated" in RENDER[name](report(LEVELS, simulated=True)).lower()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FORMATS))
@given(text=st.text() | st.just(HOSTILE + "\x7f\x9b"))
def test_hostile_text_reaches_no_format_raw(name: str, text: str) -> None:
    finding = Finding(
        check="c",
        level=Level.ERROR,
        title=text,
        observed=text,
        required=text,
        because=text,
        refs=(text,),
        remedy=Remedy(summary=text, commands=(text,)),
    )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return  # no UTF-8 file or process output can hold it; the text format is tested with it
    for level in Level:
        out: Any = RENDER[name](report([msgspec.structs.replace(finding, level=level)]))
        assert not {character for character in out if ord(character) < 32 and character != "\n"}
        assert not {"\x7f", "\x9b", "\u202e"} & set(out)
        if name == "junit":
            ET.fromstring(out)
        elif name in {"json", "sarif"}:
            json.loads(out)
