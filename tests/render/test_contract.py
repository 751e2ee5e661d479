"""What readers of each format rely on: its keys.

The keys of the JSON report are pinned with its schema, in tests/test_report.py.
"""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from ascend_doctor.findings import Finding, Level, Place, Remedy
from ascend_doctor.render.formats import github, html, jsonl, junit, markdown, prometheus, sarif
from ascend_doctor.report import Fleet, Report
from tests.conftest import Command
from tests.fleet.nodes import node
from tests.machines.compose import build
from tests.render.test_formats import HOSTILE
from tests.render.test_html import RUNS, Page, fleet, single

EVERY = tuple(
    Finding(
        check=f"check-{level.value}",
        level=level,
        title=f"Title {HOSTILE}",
        observed="this",
        required="that",
        because="why",
        remedy=Remedy(summary="Mend it", commands=("mend --now",)),
        refs=("https://example.org/a",),
        ranks=(3,),
        devices=(1,),
        nodes=("n1", "n2"),
        location=Place(file="train.sh", line=3, column=5) if level is Level.ERROR else None,
    )
    for level in Level
)


@pytest.fixture
def report() -> Report:
    return node("host", *EVERY)


def keys(value: object, path: str = "") -> set[str]:
    if isinstance(value, dict):
        inner = (keys(child, f"{path}.{name}".lstrip(".")) for name, child in value.items())
        return set().union(*inner)
    if isinstance(value, list) and value:
        return set().union(*(keys(child, f"{path}[]") for child in value))
    return {path}


def test_json_lines(report: Report) -> None:
    *findings, last = map(json.loads, jsonl.render(report).splitlines())
    assert {tuple(finding) for finding in findings} == {
        (
            *("schema", "host", "simulated", "kind", "check", "level", "title", "found", "wanted"),
            *("because", "remedy", "refs", "ranks", "devices", "nodes", "place", "excerpt"),
            *("reason", "needs", "because_of", "accepted"),
        )
    }
    assert set(last) == {
        *("schema", "host", "simulated", "kind", "worst", "ok", "skipped", "warning", "unknown"),
        *("error", "checks", "judged", "exit_code", "consequences"),
    }


def test_junit(report: Report) -> None:
    suite = ET.fromstring(junit.render(report))
    assert (suite.tag, set(suite.keys())) == (
        "testsuite",
        {*("name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname")},
    )
    assert {(element.tag, *element.keys()) for element in suite} == {
        ("testcase", "classname", "name", "time")
    }
    inside = {(element.tag, *element.keys()) for case in suite for element in case}
    assert inside == {
        ("failure", "message", "type"),
        ("error", "message", "type"),
        ("skipped", "message"),
        ("system-out",),
    }


def test_sarif(report: Report) -> None:
    result = "runs[].results[]"
    location = f"{result}.locations[].physicalLocation"
    assert keys(json.loads(sarif.render(report))) == {
        *("$schema", "version", "runs[].properties.simulated"),
        *("runs[].tool.driver.name", "runs[].tool.driver.semanticVersion"),
        *(f"runs[].tool.driver.rules[].{key}" for key in ("id", "help.text", "helpUri")),
        *("runs[].invocations[].executionSuccessful", "runs[].invocations[].exitCode"),
        *(f"{result}.ruleId", f"{result}.ruleIndex", f"{result}.level", f"{result}.message.text"),
        *(f"{result}.locations[].logicalLocations[].{key}" for key in ("name", "kind")),
        *(f"{location}.{key}" for key in ("artifactLocation.uri", "region.startLine")),
        f"{location}.region.startColumn",
        f"{result}.locations[].message.text",
    }


def test_github(report: Report) -> None:
    shape = re.compile(r"::(?:error|warning|notice) (?:file=[^,]+,line=\d+,)?title=[^,:]+::.+")
    rows = github.render(report).splitlines()
    assert all(map(shape.fullmatch, rows)), rows
    assert rows[-1].startswith("::notice title=ascend-doctor::")


@pytest.mark.slow
def test_github_also_gets_the_page_of_the_step(
    doctor: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("driver-not-loaded", tmp_path / "machine")
    page = tmp_path / "page"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    done = doctor("check", "-l", "0", "--replay", str(tmp_path / "machine"), "--format", "github")
    assert done.stdout.startswith("::error ")
    assert page.read_text().startswith("before\n### ascend-doctor ")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    done = doctor("check", "-l", "0", "--replay", str(tmp_path / "machine"), "--format", "github")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_prometheus(report: Report) -> None:
    rows = prometheus.render(report).splitlines()
    names = {re.split("[{ ]", row)[0]: set(re.findall(r"(\w+)=\"", row)) for row in rows
             if not row.startswith("#")}  # fmt: skip
    assert names == {
        "ascend_doctor_findings": {"level"},
        "ascend_doctor_check": {"check"},
        "ascend_doctor_exit_code": set(),
        "ascend_doctor_last_run_timestamp_seconds": set(),
        "ascend_doctor_info": {"version", "simulated"},
    }


def test_prometheus_has_the_nodes_of_a_fleet(report: Report) -> None:
    fleet = Fleet(passing=("n1",), untold=("n2",), failing=('n"3',), missing=("n4",))
    rows = prometheus.render(msgspec.structs.replace(report, fleet=fleet)).splitlines()
    nodes = [row for row in rows if row.startswith("ascend_doctor_node{")]
    assert nodes == [
        'ascend_doctor_node{node="n1"} 0',
        'ascend_doctor_node{node="n2"} 1',
        r'ascend_doctor_node{node="n\"3"} 2',
        'ascend_doctor_node{node="n4"} 3',
    ]
    named = {name for finding in report.complaints for name in finding.nodes}
    shape = re.compile(r'ascend_doctor_node_check\{check="[\w-]+",node="(.+)"\} [234]')
    printed = [match[1] for row in rows if (match := shape.fullmatch(row))]
    assert named
    assert set(printed) == named


def test_markdown(report: Report) -> None:
    rows = markdown.render(report).splitlines()
    assert [row.split(" ")[:2] for row in rows if row.startswith("#")] == [
        ["##", "ascend-doctor"],
        *(["###", f"{level}:"] for level in ("error", "warning", "unknown")),
    ]
    fields = [row.split(":")[0] for row in rows if row.startswith("- ")]
    names = ("Nodes", "Ranks", "Device", "Found", "Expected", "Why", "Source", "Fix")
    rest = [f"- {name}" for name in names]
    assert fields == ["- Check", "- At", *rest, *(["- Check", *rest] * 2)]


def test_html(tmp_path: Path) -> None:
    own = Page(html.render(single(*EVERY, probes=RUNS))).ids
    findings = ["check-error", "check-warning", "check-unknown"]
    assert own == ["page", "findings", "all", *findings, "time", "fine", "said"]
    assert Page(html.render(fleet(tmp_path))).ids[:3] == ["page", "findings", "fleet"]
