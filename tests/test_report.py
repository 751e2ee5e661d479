import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.facts import Host, Snapshot
from ascend_doctor.findings import Finding, Level, Place, Remedy
from ascend_doctor.render import issue
from ascend_doctor.render.formats import json as json_format
from ascend_doctor.render.formats import markdown
from ascend_doctor.render.formats import text as text_format
from ascend_doctor.report import LEVELS, LevelRun, Report, Verdict, verdict
from tests.checks.levels import remedy_of
from tests.later import jsonschema

HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold red]x[/]\r\n\u202eevil\u2066\x9b31m\ud800"


def finding(level: Level, check: str = "a-check", **more: Any) -> Finding:
    return Finding(check=check, level=level, title=more.pop("title", "a title"), **more)


def report(*findings: Finding, **more: Any) -> Report:
    levels = (
        LevelRun(level=0, adds=LEVELS[0]),
        LevelRun(level=2, adds=LEVELS[2], ran=False, asked=False),
    )
    fields: dict[str, Any] = {
        "tool_version": "1",
        "taken_at": "2026-11-21T00:00:00+00:00",
        "host": "h",
        "python": "/p",
        "device": "npu",
        "simulated": False,
        "redacted": True,
        "levels": levels,
        "verdict": verdict(findings, fail_on=Level.ERROR, levels=levels),
        "findings": findings,
        "snapshot": Snapshot(host=Host(name="h", os_id="debian")),
        "seconds": 0.5,
    }
    return Report(**{**fields, **more})


@pytest.mark.parametrize(
    ("levels", "fail_on", "code"),
    [
        ([Level.OK], Level.ERROR, 0),
        ([Level.OK, Level.SKIPPED], Level.WARNING, 0),
        ([Level.WARNING], Level.ERROR, 0),
        ([Level.WARNING], Level.WARNING, 1),
        ([Level.UNKNOWN, Level.OK], Level.ERROR, 3),
        ([Level.UNKNOWN], Level.UNKNOWN, 1),
        ([Level.UNKNOWN], Level.WARNING, 1),
        ([Level.UNKNOWN, Level.WARNING], Level.ERROR, 3),
        ([Level.ERROR, Level.UNKNOWN], Level.ERROR, 1),
        ([Level.SKIPPED], Level.ERROR, 3),
        ([], Level.ERROR, 3),
    ],
)
def test_exit_codes(levels: list[Level], fail_on: Level, code: int) -> None:
    findings = tuple(finding(level, f"c-{n}") for n, level in enumerate(levels))
    assert verdict(findings, fail_on=fail_on).exit_code == code


def test_a_level_that_was_asked_for_and_did_not_run_is_never_0() -> None:
    levels = (LevelRun(level=3, adds="", ran=False, reason="no NPU"),)
    assert verdict((finding(Level.OK),), fail_on=Level.ERROR, levels=levels).exit_code == 3


def test_a_check_with_an_unknown_part_does_not_count_as_judged() -> None:
    got = verdict((finding(Level.OK), finding(Level.UNKNOWN)), fail_on=Level.ERROR)
    assert (got.checks, got.judged) == (1, 0)


@given(st.lists(st.sampled_from(Level)))
def test_counts_add_up(levels: list[Level]) -> None:
    got = verdict(tuple(finding(level) for level in levels), fail_on=Level.ERROR)
    assert got.ok + got.skipped + got.warning + got.unknown + got.error == len(levels)
    assert (got.exit_code == 0) == (
        any(level in {Level.OK, Level.WARNING} for level in levels)
        and not {Level.ERROR, Level.UNKNOWN} & set(levels)
        and got.judged > 0
    )


@pytest.mark.slow
def test_json_has_pinned_keys_and_fits_the_published_schema() -> None:
    full = finding(
        Level.ERROR,
        observed="f",
        required="w",
        because="b",
        refs=("r",),
        ranks=(1,),
        devices=(2,),
        remedy=Remedy(summary="s", commands=("c",), step="x"),
    )
    loaded = json.loads(json_format.render(report(full)))
    jsonschema.validate(loaded, json_format.schema())
    assert set(loaded) == {
        *("schema", "tool_version", "taken_at", "host", "python", "device", "simulated"),
        *("redacted", "interrupted", "levels", "verdict", "findings", "fleet", "snapshot"),
        *("seconds", "patience", "patience_because", "notices", "subjects"),
    }
    assert set(loaded["verdict"]) == {
        *("worst", "ok", "skipped", "warning", "unknown", "error", "checks", "judged", "exit_code"),
        "consequences",
    }
    assert set(loaded["findings"][0]) == {
        *("check", "level", "title", "found", "wanted", "because", "excerpt", "remedy", "refs"),
        *("ranks", "devices", "nodes", "place", "reason", "needs", "because_of", "accepted"),
    }
    assert set(loaded["findings"][0]["remedy"]) == {"summary", "commands", "step"}
    assert loaded["schema"] == 1
    assert loaded["snapshot"]["schema"] == 1


@pytest.mark.slow
def test_the_schema_refuses_what_is_no_report() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": 1}, json_format.schema())
    loaded = json.loads(json_format.render(report(finding(Level.OK))))
    loaded["findings"][0]["level"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(loaded, json_format.schema())


def test_a_report_round_trips() -> None:
    original = report(finding(Level.WARNING, observed="x"))
    assert msgspec.json.decode(msgspec.json.encode(original), type=Report) == original


def text_of(*findings: Finding, **options: Any) -> str:
    return text_format.render(report(*findings), **options)


CAUSE = finding(Level.ERROR, "cann-installed", title="No CANN", remedy=Remedy(summary="Install it"))
EFFECT = finding(
    Level.ERROR, "torch-npu-libraries", title="No libhccl", because_of="cann-installed"
)


def test_what_follows_from_an_error_stands_below_it_and_is_counted() -> None:
    both = report(CAUSE, EFFECT)
    assert both.complaints == [CAUSE]
    assert both.consequences(CAUSE) == [EFFECT]
    assert both.unfolded == [CAUSE, EFFECT]
    text = text_of(CAUSE, EFFECT)
    assert "Leads to  No libhccl  [torch-npu-libraries]" in text
    assert "✗ No libhccl" not in text
    assert "1 error, 0 warnings; 0 passed" in text
    assert "Start here: Install it" in text
    for render in (markdown.render, issue.render):
        assert "Leads to: No libhccl" in render(both)


def test_without_its_cause_a_finding_stands_by_itself() -> None:
    assert report(EFFECT).complaints == [EFFECT]
    for level in (Level.OK, Level.SKIPPED, Level.UNKNOWN, Level.WARNING):
        harmless = msgspec.structs.replace(CAUSE, level=level)
        assert EFFECT in report(harmless, EFFECT).complaints
        assert report(harmless, EFFECT).consequences(harmless) == []


def test_sources_are_shown_where_the_text_is_verbose() -> None:
    sourced = finding(Level.ERROR, refs=("https://example.com/a",))
    assert "https://example.com/a" not in text_of(sourced)
    assert "https://example.com/a" in text_of(sourced, verbose=True)


def test_text_shows_every_field_of_a_finding_and_its_commands() -> None:
    text = text_of(
        finding(
            Level.ERROR,
            "hccl-up",
            title="HCCL is down",
            observed="nothing",
            required="something",
            because="it matters",
            refs=("https://example.com/a",),
            ranks=(0, 3),
            remedy=Remedy(summary="Switch it on", commands=("hccl on", "hccl status")),
        )
    )
    for part in (
        "✗ HCCL is down ",
        " hccl-up\n",
        "Found     nothing",
        "Expected  something",
        "Why       it matters",
        "0, 3",
        "Switch it on",
        "            hccl on",
        "            hccl status",
        "Start here: hccl on\n",
        "1 error,",
        "pseudonyms",
    ):
        assert part in text, part


def test_text_says_what_was_started() -> None:
    level = LevelRun(level=0, adds=LEVELS[0], ran=True)
    facts = Snapshot(started=("/usr/local/bin/npu-smi", "git"))
    text = text_format.render(report(levels=(level,), snapshot=facts))
    assert "Ran level 0 · device npu · started git, npu-smi\n" in text


def test_errors_stand_before_warnings_and_unknowns() -> None:
    text = text_of(
        finding(Level.UNKNOWN, title="U"),
        finding(Level.WARNING, title="W"),
        finding(Level.ERROR, title="E"),
    )
    assert text.index("✗ E") < text.index("! W") < text.index("? U")


def untold(check: str, title: str, reason: str = "", needs: str = "") -> Finding:
    return finding(Level.UNKNOWN, check, title=title, reason=reason, needs=needs)


def test_checks_that_could_not_tell_for_one_reason_are_one_complaint() -> None:
    why = "MindSpeed cannot be imported: ImportError: x"
    whole = report(
        untold("one", "Ones: it did not say", "it did not say"),
        untold("two", f"Twos: {why}", why),
        untold("five", "Fives"),
        finding(Level.ERROR, "six"),
        untold("three", f"Threes: {why}", why),
        untold("seven", "Sevens"),
    )
    assert [(finding.check, finding.title) for finding in whole.complaints] == [
        ("six", "a title"),
        ("one", "Ones: it did not say"),
        ("two, three", f"{why}; 2 checks could not be judged"),
        ("five", "Fives"),
        ("seven", "Sevens"),
    ]
    assert [finding.check for finding in whole.unfolded] == [
        "six",
        "one",
        "two",
        "five",
        "three",
        "seven",
    ]
    assert len(json.loads(json_format.render(whole))["findings"]) == 6
    folded, unfolded = text_format.render(whole), text_format.render(whole, verbose=True)
    assert (folded.count("\n? "), unfolded.count("\n? ")) == (4, 5)


def test_one_reason_at_many_places_is_told_once() -> None:
    where = [Place(file=f"{number}.sh", line=number) for number in range(1, 9)]
    same = [finding(Level.ERROR, title="Two", location=spot) for spot in where]
    text = text_of(*same)
    assert text.count("Two") == 1
    assert "Also at   2.sh:2:1, 3.sh:3:1, 4.sh:4:1, 5.sh:5:1, 6.sh:6:1 and 2 more" in text
    assert "8 errors" in text
    assert text_of(*same, verbose=True).count("Two") == len(where)
    other = finding(Level.ERROR, title="Two", observed="3", location=where[0])
    assert text_of(*same, other).count("Two") == 2


def test_what_is_folded_keeps_the_nodes_of_a_fleet() -> None:
    nodes = (("n1", "n2"), ("n2", "n3"))
    rows = [
        msgspec.structs.replace(untold(f"check-{n}", "t", "gone"), nodes=names)
        for n, names in enumerate(nodes)
    ]
    (finding,) = report(*rows).complaints
    assert finding.nodes == ("n1", "n2", "n3")


def test_what_needs_root_is_one_complaint_that_says_what_to_do() -> None:
    (finding,) = report(
        untold("ports", "Ports were not seen", needs="root"),
        untold("owners", "Owners: not all", "not all", needs="root"),
    ).complaints
    assert (finding.check, finding.title) == ("ports, owners", "Not checked, needs root")
    assert finding.observed == "Ports were not seen; Owners: not all"
    assert "unknown: needs-root" in remedy_of(finding).commands[0]


def test_eighty_checks_without_their_section_are_one_line() -> None:
    many = [untold(f"check-{n}", f"Title {n}: driver: gone", "driver: gone") for n in range(80)]
    (finding,) = report(*many).complaints
    assert finding.title == "driver: gone; 80 checks could not be judged"
    assert finding.check == "check-0, check-1, check-2, check-3 and 76 more"


def test_where_nothing_trains_the_first_line_says_so_and_nothing_is_ticked() -> None:
    for ascii_only, tick in ((False, "\u2713"), (True, "+")):
        shown = text_format.render(
            report(finding(Level.OK), notices=("No NPU, no driver and no CANN here", HOSTILE)),
            ascii_only=ascii_only,
            width=60,
        )
        assert "No NPU, no driver and no CANN here" in shown.splitlines()[0]
        assert tick not in [row[:1] for row in shown.splitlines()]
        assert "\x1b" not in shown


def test_symbols_differ_in_shape_with_and_without_unicode() -> None:
    levels = [finding(level, title=level.value.upper()) for level in Level]
    for ascii_only in (False, True):
        text = text_of(*levels, ascii_only=ascii_only, verbose=True)
        marks = {
            next(line for line in text.splitlines() if finding.title in line).split()[0]
            for finding in levels
        }
        assert len(marks) == 5
        assert ascii_only == text.isascii()


def test_a_simulated_report_says_so_at_the_top_and_in_the_verdict() -> None:
    text = text_format.render(report(finding(Level.OK), simulated=True))
    assert "SIMULATED" in text.splitlines()[1]
    assert "(simulated)" in text


def test_long_commands_are_not_wrapped() -> None:
    command = "x " * 200 + "end"
    assert command in text_of(finding(Level.ERROR, remedy=Remedy(summary="s", commands=(command,))))


def test_hostile_text_reaches_no_format_raw() -> None:
    hostile = finding(
        Level.ERROR,
        title=HOSTILE,
        observed=HOSTILE,
        required=HOSTILE,
        because=HOSTILE,
        refs=(HOSTILE,),
        remedy=Remedy(summary=HOSTILE, commands=(HOSTILE,)),
    )
    for level in Level:
        text = text_of(msgspec.structs.replace(hostile, level=level), verbose=True)
        assert not {"\x1b", "\x07", "\r", "\u202e", "\u2066", "\x9b", "\ud800"} & set(text)
        assert "[bold red]x[/]" in text


@given(st.text())
def test_any_text_stays_on_its_lines_and_prints(text: str) -> None:
    out = text_of(finding(Level.ERROR, title=text, observed=text, refs=(text,)))
    out.encode("utf-8")
    assert not any(ord(character) < 32 and character != "\n" for character in out)


def test_color_is_there_only_when_asked_for() -> None:
    assert "\x1b[" in text_of(finding(Level.ERROR), color=True)
    assert "\x1b[" not in text_of(finding(Level.ERROR), color=False)


def test_a_verdict_is_one_line() -> None:
    got = Verdict(
        worst=Level.ERROR,
        ok=3,
        skipped=1,
        warning=1,
        unknown=0,
        error=2,
        checks=7,
        judged=6,
        exit_code=1,
    )
    assert got.text() == "2 errors, 1 warning; 3 passed"
