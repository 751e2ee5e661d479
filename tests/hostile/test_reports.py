"""Reports made elsewhere: what of them goes into labels, attributes and commands is checked."""

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor import cli
from ascend_doctor.render.formats import prometheus
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.page import Page
from ascend_doctor.render.plain import one_line
from tests.fleet.nodes import node
from tests.hostile.seeds import report

IDS = (
    *("", "A", "a b", "a\n", "x" * 65, 'a"} 1\nevil{x="', "<b>", "::error::x", "\x1b[2J", "a,b"),
    *("../x", "a`b", "é"),
)
TIMES = (
    *("yesterday", "2026-11-22", "2026-11-22T08:47:27", "2026-11-22T08:47:27+01:00", "\x1b[2J"),
    *('2026-11-22T08:47:27+00:00\n# evil{a="b"} 1', "<script>", "99999-01-01T00:00:00+00:00"),
    "\uff12\uff1026-11-22T08:47:27+00:00",
)


def save(folder: Path, report: dict[str, Any]) -> str:
    file = folder / "node.json"
    file.write_text(json.dumps(report))
    return str(file)


@pytest.mark.parametrize("name", IDS)
def test_an_id_that_is_none_makes_a_file_no_report(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = report()
    document["findings"][0]["check"] = name
    assert cli.run(["merge", save(tmp_path, document), "--format", "prometheus"]) == 3
    out, _ = capsys.readouterr()
    assert 'check="fleet-unreadable"' in out
    assert "evil" not in out


@pytest.mark.parametrize("time", TIMES)
def test_a_time_that_is_none_is_refused(
    time: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = report()
    document["taken_at"] = time
    assert cli.run(["merge", save(tmp_path, document)]) == 3
    assert "no report" in capsys.readouterr().out.replace("not a report", "no report")
    document["snapshot"]["taken_at"] = time
    assert cli.run(["judge", save(tmp_path, document), "--format", "prometheus"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "taken_at" in err
    assert len(err.splitlines()) == 1


def test_a_day_that_no_calendar_has_is_no_time() -> None:
    report = node("n", taken_at="2026-02-30T00:00:00+00:00")
    assert "last_run_timestamp_seconds 0\n" in prometheus.render(report)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("::error file=a,line=1::x", ": :error file=a,line=1::x"),
        ("  ::set-output name=a::b", "  : :set-output name=a::b"),
        ("::endgroup::", ": :endgroup::"),
        ("see ##[error]x", "see # #[error]x"),
        ("##vso[task.setvariable]x", "# #vso[task.setvariable]x"),
        ("##teamcity[x]", "# #teamcity[x]"),
        ("::1 and ::ffff:10.0.0.1", "::1 and ::ffff:10.0.0.1"),
        ("at::native::add", "at::native::add"),
        ("## a title", "## a title"),
    ],
)
def test_what_a_log_reader_would_obey_is_broken_up(line: str, expected: str) -> None:
    assert one_line(line) == expected


def test_a_line_that_wrapping_begins_is_no_command_either() -> None:
    page = Page(color=False, width=40, ascii_only=False, label=7)
    page.field("found", "x" * 30 + " ::set-output name=a::b and more")
    assert ": :set-output" in page.text
    assert not any(row.strip().startswith("::") for row in page.text.splitlines())


def test_json_holds_no_command_and_says_the_same() -> None:
    text = pretty({"a": "##[error]x", "##vso[b]": 1})
    assert "##[" not in text
    assert "##vso[" not in text
    assert json.loads(text) == {"a": "##[error]x", "##vso[b]": 1}


def test_a_file_name_ends_no_annotation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = report()
    location = {"file": "a,line=9::pwn\n::error::", "line": 1, "column": 1}
    document["findings"] = [{"check": "x", "level": "error", "title": "t", "place": location}]
    cli.run(["merge", save(tmp_path, document), "--format", "github"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "pwn" in line]
    assert len(lines) == 1
    assert lines[0].startswith("::error file=a%2Cline=9%3A%3Apwn")
    cli.run(["merge", save(tmp_path, document), "--format", "sarif"])
    assert '"uri": "a%2Cline%3D9%3A%3Apwn%0A%3A%3Aerror%3A%3A"' in capsys.readouterr().out
