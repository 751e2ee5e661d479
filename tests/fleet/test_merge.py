import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.cli import run
from ascend_doctor.facts import Distribution
from ascend_doctor.findings import Finding, Level
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.merged_report import judge
from ascend_doctor.render.formats import FORMATS
from ascend_doctor.render.formats.text import render
from ascend_doctor.report import Fleet, Report
from tests.fleet.nodes import node, write

STACK = frozenset({"torch"})
BAD = Finding(check="hccn-link", level=Level.ERROR, title="a link is down")
UNTOLD = Finding(check="hccn-link", level=Level.UNKNOWN, title="no answer")


def merge_folder(folder: Path, *expected: str, fail_on: Level = Level.ERROR) -> Report:
    merged = merge(report_files([str(folder)]), STACK)
    return judge(merged, expected=expected or None, fail_on=fail_on, seconds=0)


def fleet(report: Report) -> Fleet:
    assert report.fleet is not None
    return report.fleet


def of(report: Report, check: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.check == check]


def test_equal_nodes_pass(tmp_path: Path) -> None:
    write(tmp_path, *(node(f"n{i}") for i in range(4)))
    report = merge_folder(tmp_path, "n0", "n1", "n2", "n3")
    assert fleet(report).passing == ("n0", "n1", "n2", "n3")
    assert [finding.title for finding in report.findings] == ["Nodes that passed: 4"]
    assert report.verdict.exit_code == 0


def test_the_minority_of_the_stack_fails(tmp_path: Path) -> None:
    write(tmp_path, node("n0"), node("n1"), node("n2", torch="2.6.0"), node("n3"))
    report = merge_folder(tmp_path)
    (drift,) = fleet(report).drift
    assert (drift.setting, drift.majority, drift.values[1].nodes) == ("torch", "2.7.1", ("n2",))
    assert fleet(report).failing == ("n2",)
    assert fleet(report).passing == ("n0", "n1", "n3")
    assert report.verdict.exit_code == 1


def test_without_a_majority_nobody_is_accused(tmp_path: Path) -> None:
    write(tmp_path, node("n0"), node("n1", torch="2.6.0"))
    report = merge_folder(tmp_path)
    assert fleet(report).drift[0].majority is None
    assert of(report, "fleet-drift")[0].nodes == ()
    assert fleet(report).failing == ()
    assert report.verdict.exit_code == 1


def test_a_package_or_variable_that_one_node_lacks_is_drift(tmp_path: Path) -> None:
    extra = (Distribution(name="tqdm", version="1"),)
    have = {"extra": extra, "variables": {"HCCL_BUFFSIZE": "200"}}
    write(tmp_path, node("n0", **have), node("n1", **have), node("n2"))  # type: ignore[arg-type]
    report = merge_folder(tmp_path)
    assert {drift.setting for drift in fleet(report).drift} == {"tqdm", "HCCL_BUFFSIZE"}
    for drift in fleet(report).drift:
        assert (drift.values[1].value, drift.values[1].nodes) == ("(absent)", ("n2",))
    assert report.verdict.exit_code == 0  # no difference of the stack
    assert merge_folder(tmp_path, fail_on=Level.WARNING).verdict.exit_code == 1


def test_the_same_finding_is_told_once_with_its_nodes(tmp_path: Path) -> None:
    write(tmp_path, node("n0", BAD), node("n1", BAD), node("n2"))
    report = merge_folder(tmp_path)
    (finding,) = of(report, "hccn-link")
    assert finding.nodes == ("n0", "n1")
    assert fleet(report).failing == ("n0", "n1")


def test_a_node_that_could_not_tell_has_not_passed(tmp_path: Path) -> None:
    write(tmp_path, node("n0", UNTOLD), node("n1"))
    report = merge_folder(tmp_path)
    assert (fleet(report).untold, fleet(report).passing) == (("n0",), ("n1",))
    assert report.verdict.exit_code == 3


def test_missing_nodes_are_named(tmp_path: Path) -> None:
    write(tmp_path, node("n0.cluster"), node("n1"))
    report = merge_folder(tmp_path, "n0", "n1", "n2")
    assert fleet(report).missing == ("n2",)
    assert report.verdict.exit_code == 3


def test_why_nodes_are_missing_is_told_by_reason(tmp_path: Path) -> None:
    write(tmp_path, node("n1"))
    report = judge(
        merge(report_files([str(tmp_path)]), STACK),
        expected=["n1", "n2", "n3", "n4", "n5"],
        fail_on=Level.ERROR,
        seconds=0,
        reasons={"n1": "it did report", "n2": "no power", "n4": "no power", "n3": "drained"},
    )
    (finding,) = of(report, "fleet-missing")
    assert finding.nodes == ("n2", "n3", "n4", "n5")
    assert finding.observed == "n[2,4]: no power; n3: drained"


def test_a_report_that_is_replaced_is_an_earlier_merge(tmp_path: Path) -> None:
    write(tmp_path, node("n0"), node("n1"))
    (report := tmp_path / "all").mkdir()
    for _ in range(3):
        run(
            [
                "merge",
                f"{tmp_path}/n0.json",
                f"{tmp_path}/n1.json",
                "-o",
                f"{report}/f.json",
                "-o",
                f"{report}/f.html",
            ]
        )
    earlier = json.loads((report / "f.json").read_text())["fleet"]["earlier"]
    assert [merge["passed"] for merge in earlier] == [2, 2]
    assert (report / "f.html").read_text().count("<td>2 passed, 0 failed") == 2


def test_files_that_are_no_report_are_counted_and_named(tmp_path: Path) -> None:
    write(tmp_path, node("n0"))
    whole = (tmp_path / "n0.json").read_text()
    bad = {
        "cut.json": whole[:500],
        "empty.json": "",
        "other.json": '{"schema": 1}',
        "binary.json": "\x00\x01",
        "newer.json": whole.replace('"schema": 1', '"schema": 99', 1),
        "deep.json": "[" * 100_000,
        "evil\x1b[2J.json": "{}",
    }
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
    report = merge_folder(tmp_path)
    assert {Path(unreadable.file).name for unreadable in fleet(report).unreadable} == set(bad)
    reasons = {
        Path(unreadable.file).name: unreadable.reason for unreadable in fleet(report).unreadable
    }
    assert "cut short" in reasons["cut.json"]
    assert "newer" in reasons["newer.json"]
    assert "no report" in reasons["other.json"]
    assert fleet(report).passing == ("n0",)
    assert report.verdict.exit_code == 3


def test_of_two_reports_of_a_node_the_newer_counts(tmp_path: Path) -> None:
    old = node("n0", BAD, taken_at="2026-11-20T00:00:00+00:00")
    for folder, report in (("a", node("n0")), ("b", old)):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, report, node(f"n-{folder}"))
    result = merge_folder(tmp_path)
    assert fleet(result).passing == ("n-a", "n0", "n-b")
    assert fleet(result).duplicates == (str(tmp_path / "b" / "n0.json"),)


def test_a_redacted_report_is_called_by_its_file(tmp_path: Path) -> None:
    report = node("host-a1b2c3", redacted=True)
    (tmp_path / "rack7.json").write_text(__import__("msgspec").json.encode(report).decode())
    assert fleet(merge_folder(tmp_path)).passing == ("rack7",)


def test_one_address_on_two_npus_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, node("n0", address="192.0.2.1"), node("n1", address="192.0.2.1"))
    (finding,) = of(merge_folder(tmp_path), "fleet-duplicate-address")
    assert finding.nodes == ("n0", "n1")


def test_redacted_addresses_are_not_compared(tmp_path: Path) -> None:
    for name in ("n0", "n1"):
        write(tmp_path, node(name, address="10.0.0.1", redacted=True))
    assert not of(merge_folder(tmp_path), "fleet-duplicate-address")


def test_the_slow_node_stands_out(tmp_path: Path) -> None:
    rates = [100.0, 101.0, 99.0, 100.5, 60.0]
    write(tmp_path, *(node(f"n{i}", figure=rate) for i, rate in enumerate(rates)))
    (finding,) = of(merge_folder(tmp_path), "fleet-outlier")
    assert finding.nodes == ("n4",)


def test_simulated_nodes_do_not_mix_with_real_ones(tmp_path: Path) -> None:
    write(tmp_path, node("n0", simulated=True), node("n1"))
    report = merge_folder(tmp_path)
    assert report.simulated
    assert of(report, "fleet-nodes")[0].nodes == ("n0",)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_a_fleet(tmp_path: Path, name: str) -> None:
    write(tmp_path, node("evil\x1b[2J[red]", BAD), node("n1"), node("n2", torch="9"))
    module = __import__(f"ascend_doctor.render.formats.{name}", fromlist=["render"])
    text = module.render(merge_folder(tmp_path, "gone"))
    assert "\x1b[2J" not in text
    assert "fleet-missing" in text or name == "github"


@settings(max_examples=50, deadline=None)
@given(content=st.lists(st.binary(max_size=200), max_size=3))
def test_any_files_are_counted(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    for number, data in enumerate(content):
        (folder / f"{number}.json").write_bytes(data)
    summary = fleet(merge_folder(folder))
    assert len(summary.unreadable) + len(summary.nodes) + len(summary.duplicates) == len(content)


def test_whatever_a_merged_report_says_has_a_manual(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(judge.__code__.co_filename).parent
    source = "".join(file.read_text() for file in folder.glob("*.py"))
    ids = set(re.findall(r'check="(fleet-[a-z-]+)"', source))
    assert ids == set(TOPICS)
    for check_id in sorted(ids):
        assert run(["explain", check_id]) == 0
        assert check_id in capsys.readouterr().out


def test_two_hundred_nodes_have_a_line_for_each_cause(tmp_path: Path) -> None:
    """Missing ones first, settings in which the same nodes differ together, a list to leave out."""
    bad = {3, 50, 51, 199}
    write(
        tmp_path,
        *(
            node(
                f"n{number:03d}",
                *((BAD,) if number in bad else ()),
                torch="2.6.0" if number in bad else "2.7.1",
                variables={"HCCL_BUFFSIZE": "1"} if number in bad else None,
                address="10.0.0.1" if number in {7, 8} else f"10.1.0.{number}",
            )
            for number in range(200)
            if number != 20
        ),
    )
    text = render(merge_folder(tmp_path, *(f"n{number:03d}" for number in range(200))))
    rows = text.splitlines()
    assert len(rows) < 60
    assert rows[1] == "193 passed, 6 failed, 0 without a verdict, 1 missing"
    blocks = {block.splitlines()[0]: block.splitlines()[1:] for block in text.split("\n\n")[1:]}
    assert list(blocks)[:3] == [
        "1 node  n020",
        "4 nodes  n[003,050-051,199]",
        "2 nodes  n[007-008]",
    ]
    assert [row.split("  ")[1][2:] for row in blocks["4 nodes  n[003,050-051,199]"]] == [
        "Nodes differ in torch and HCCL_BUFFSIZE",
        "a link is down",
    ]
    assert "Leave out:  n[003,007-008,020,050-051,199]" in rows


@pytest.mark.parametrize(("figure", "level"), [(55.0, Level.WARNING), (45.0, Level.ERROR)])
def test_nodes_at_less_than_half_of_the_rate_fail(
    tmp_path: Path, figure: float, level: Level
) -> None:
    write(tmp_path, *(node(f"n{number}", figure=100.0) for number in range(5)))
    write(tmp_path, *(node(f"slow{number}", figure=figure) for number in range(2)))
    report = merge_folder(tmp_path)
    (slow,) = of(report, "fleet-outlier")
    assert (slow.level, slow.nodes) == (level, ("slow0", "slow1"))
    assert slow.title == "2 nodes stand out in bandwidth busbw_gbps"
    assert fleet(report).failing == (slow.nodes if level is Level.ERROR else ())
