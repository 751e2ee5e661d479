import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_doctor.checks.probes.pair_rounds import PROBE, pairs_of, read_table, verdicts
from ascend_doctor.commands.options.output import Output
from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Host, Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.merged_report import judge
from ascend_doctor.probe_records.common import read_record
from ascend_doctor.probe_records.pairs import PairRow, PairTable
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.redact import redactor
from ascend_doctor.render.formats import FORMATS, html, markdown, text
from ascend_doctor.render.formats import json as json_format
from ascend_doctor.render.pairs import matrix_of
from ascend_doctor.report import Fleet, Report
from tests.checks.levels import remedy_of
from tests.fleet.nodes import FINE, node, write
from tests.later import jsonschema
from tests.present import present
from tests.probes.judged import judge_probes
from tests.render.test_html import visible

HOSTILE = "\x1b]0;x\x07[red]<b>&|`@all\u202e"
BAD = Finding(check="hccn-link", level=Level.ERROR, title="a link is down")


def row(left: int, right: int, number: int = 0, **fields: Any) -> PairRow:
    fine = {"outcome": "ok", "us": 250.0, "gbps": 1.0, "sent": 1640, "messages": 200}
    return msgspec.convert({"pair": (left, right), "round": number, **fine, **fields}, PairRow)


def fail(left: int, right: int, number: int = 0) -> PairRow:
    return PairRow(pair=(left, right), round=number, outcome="failed", why="no end in time")


CUT = (row(0, 1), row(0, 2), row(1, 2), fail(0, 3), fail(1, 3), fail(2, 3))


def table(*rows: PairRow, count: int = 4, **fields: Any) -> PairTable:
    hosts = {node: f"n{node}" for node in range(count)}
    return PairTable(**{"run": "r", "count": count, "hosts": hosts, "pairs": rows, **fields})


def run_of(number: int, pair_table: PairTable, device: str = "npu") -> ProbeRun:
    values = msgspec.to_builtins(pair_table)
    result = ProbeResult(probe=PROBE, rank=number, ok=True, values=values)
    return ProbeRun(probe=PROBE, device=device, ranks=(result,))


def report_of(number: int, pair_table: PairTable, *more: Finding, **fields: Any) -> Report:
    """What a node says that has recorded this table."""
    run = run_of(number, pair_table)
    recorded = present(read_table(run))
    own = [
        msgspec.structs.replace(finding, check=PROBE)
        for finding in verdicts(recorded.table, recorded.names, device="npu")
    ]
    name = f"n{number}"
    plain = node(name, *own, *more, **fields)
    return msgspec.structs.replace(
        plain, snapshot=msgspec.structs.replace(plain.snapshot, probes=(run,))
    )


def merge_folder(folder: Path) -> Report:
    merged = merge(report_files([str(folder)]), frozenset({"torch"}))
    return judge(merged, expected=None, fail_on=Level.ERROR, seconds=0)


def fleet(report: Report) -> Fleet:
    assert report.fleet is not None
    return report.fleet


def about(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.check == PROBE]


def test_only_the_guilty_node_fails(tmp_path: Path) -> None:
    write(tmp_path, *(report_of(index, table(*CUT)) for index in range(4)))
    report = merge_folder(tmp_path)
    assert [(finding.title, finding.nodes) for finding in about(report)] == [
        ("pair-rounds: n3 has no link to the others", ("n3",))
    ]
    assert fleet(report).failing == ("n3",)
    assert fleet(report).passing == ("n0", "n1", "n2")
    assert report.verdict.exit_code == 1
    worst = {node.name: node.worst for node in fleet(report).nodes}
    assert worst == {"n0": Level.OK, "n1": Level.OK, "n2": Level.OK, "n3": Level.ERROR}


def test_a_node_that_fails_otherwise_still_fails(tmp_path: Path) -> None:
    reports = [report_of(index, table(*CUT), *([BAD] if index == 1 else [])) for index in range(4)]
    write(tmp_path, *reports)
    assert fleet(merge_folder(tmp_path)).failing == ("n1", "n3")


def test_a_node_whose_own_checks_could_not_tell_has_not_passed(tmp_path: Path) -> None:
    untold = Finding(check="allreduce", level=Level.UNKNOWN, title="was not started")
    write(tmp_path, *(report_of(index, table(*CUT), untold) for index in range(4)))
    summary = fleet(merge_folder(tmp_path))
    assert (summary.passing, summary.failing, summary.untold) == ((), ("n3",), ("n0", "n1", "n2"))


def test_both_ends_of_a_guilty_link_fail(tmp_path: Path) -> None:
    rows = (
        *(row(left, right) for left, right in ((0, 1), (0, 2), (0, 3), (1, 3), (2, 3))),
        fail(1, 2),
    )
    write(tmp_path, *(report_of(index, table(*rows, fail(1, 2, 3))) for index in range(4)))
    report = merge_folder(tmp_path)
    assert [finding.title for finding in about(report)] == [
        "pair-rounds: n1 and n2 do not reach each other"
    ]
    assert fleet(report).failing == ("n1", "n2")


def test_redacted_reports_are_known_by_number(tmp_path: Path) -> None:
    for number in range(4):
        pair_table = table(*CUT, hosts={other: f"host-{number}{other}" for other in range(4)})
        plain = report_of(number, pair_table, redacted=True)
        (tmp_path / f"rack{number}.json").write_text(json_format.render(plain))
    report = merge_folder(tmp_path)
    assert fleet(report).failing == ("rack3",)
    assert [finding.nodes for finding in about(report)] == [("rack3",)]
    pairs = present(fleet(report).pairs)
    assert pairs.nodes == ("rack0", "rack1", "rack2", "rack3")


def test_a_node_that_did_not_come_is_unknown(tmp_path: Path) -> None:
    pair_table = table(
        row(0, 1), row(0, 2), row(1, 2), hosts={0: "n0", 1: "n1", 2: "n2"}, missing=(3,)
    )
    write(tmp_path, *(report_of(index, pair_table, FINE) for index in range(3)))
    report = merge_folder(tmp_path)
    assert [(finding.level, finding.nodes) for finding in about(report)] == [
        (Level.UNKNOWN, ("node 3",)),
        (Level.OK, ()),
    ]
    assert fleet(report).passing == ("n0", "n1", "n2")
    assert report.verdict.exit_code == 3


def test_who_came_alone_has_not_passed(tmp_path: Path) -> None:
    pair_table = table(hosts={0: "n0"}, count=2, missing=(1,))
    write(tmp_path, report_of(0, pair_table))
    assert fleet(merge_folder(tmp_path)).untold == ("n0",)


def test_nodes_in_doubt_have_not_passed(tmp_path: Path) -> None:
    pair_table = table(fail(0, 1), fail(0, 1, 1), count=2)
    write(tmp_path, *(report_of(index, pair_table) for index in range(2)))
    report = merge_folder(tmp_path)
    assert fleet(report).untold == ("n0", "n1")
    assert "cannot be told" in about(report)[0].title


def test_rows_of_all_nodes_come_together(tmp_path: Path) -> None:
    """Of many nodes, most keep only their own."""
    for index in range(4):
        own = [each for each in CUT if index in each.pair]
        write(tmp_path, report_of(index, table(*own)))
    report = merge_folder(tmp_path)
    pairs = present(fleet(report).pairs)
    assert [pair.nodes for pair in pairs.pairs if pair.outcome == "failed"] == [
        ("n0", "n3"),
        ("n1", "n3"),
        ("n2", "n3"),
    ]
    assert fleet(report).failing == ("n3",)


def test_two_runs_are_judged_by_themselves(tmp_path: Path) -> None:
    """Node numbers have a meaning only within one run."""
    write(tmp_path, *(report_of(index, table(*CUT)) for index in range(4)))
    other = table(row(0, 1), run="other", count=2, hosts={0: "m0", 1: "m1"})
    for index in range(2):
        plain = msgspec.structs.replace(report_of(index, other), host=f"m{index}")
        (tmp_path / f"m{index}.json").write_text(json_format.render(plain))
    report = merge_folder(tmp_path)
    assert fleet(report).failing == ("n3",)
    assert {"m0", "m1"} <= set(fleet(report).passing)
    assert [finding.level for finding in about(report)] == [Level.OK, Level.ERROR]


@pytest.mark.parametrize(
    "values",
    [
        {"count": 2, "pairs": [{"pair": [0, 7], "outcome": "ok"}]},
        {"count": 2, "pairs": [{"pair": [0, 1], "outcome": "odd"}]},
        {"count": 2, "missing": [2]},
        {"count": 2, "hosts": {"2": "a"}},
        {"count": 10**12},
        {"hosts": 3, "pairs": []},
        {"pairs": [[]]},
    ],
)
def test_a_damaged_record_accuses_nobody(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_record(PairTable, values)
    result = ProbeResult(probe=PROBE, ok=True, values=values)
    run = ProbeRun(probe=PROBE, device="npu", ranks=(result,))
    with pytest.raises(Unknown, match="damaged"):
        read_table(run)
    plain = node("n0")
    facts = msgspec.structs.replace(plain.snapshot, probes=(run,))
    write(tmp_path, msgspec.structs.replace(plain, snapshot=facts))
    assert fleet(merge_folder(tmp_path)).pairs is None


@pytest.mark.slow
def test_keys_of_the_matrix_are_pinned_and_fit_the_schema(tmp_path: Path) -> None:
    write(tmp_path, *(report_of(index, table(*CUT)) for index in range(4)))
    loaded = json.loads(json_format.render(merge_folder(tmp_path)))
    jsonschema.validate(loaded, json_format.schema())
    assert set(loaded["fleet"]) == {
        *("nodes", "passing", "failing", "untold", "missing", "unreadable", "duplicates"),
        *("drift", "earlier", "pairs"),
    }
    assert set(loaded["fleet"]["pairs"]) == {"nodes", "pairs"}
    assert set(loaded["fleet"]["pairs"]["pairs"][0]) == {
        *("nodes", "outcome", "times", "us", "gbps", "lost", "why")
    }


def test_the_matrix_is_on_every_page(tmp_path: Path) -> None:
    single = report_of(0, table(*CUT))
    write(tmp_path, *(report_of(index, table(*CUT)) for index in range(4)))
    for report in (single, merge_folder(tmp_path)):
        rows = [line.split() for line in text.render(report).splitlines()]
        assert ["0", "n0", ".", "1", "1", "failed"] in rows
        assert ["3", "n3", "failed", "failed", "failed", "."] in rows
        assert "| n3 | failed | failed | failed |  |" in markdown.render(report)
        page = visible(html.render(report))
        assert page.count("<b>failed</b>") == 6
        assert page.count("1 GB/s, 250 us") == 6


def test_text_alone_has_the_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(0, table(*CUT))
    targets = (("text", None),)
    output = Output(
        targets=targets, fail_on=Level.ERROR, color=False, redact=True, verbose=False, quiet=False
    )
    output.write(report, redactor(report.snapshot, home="/root"))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows if "." in row] == ["0", "1", "2", "3"]


def test_of_many_nodes_the_suspects_are_shown() -> None:
    count = 400
    rows = [row(index, index + 1) for index in range(0, count, 2)]
    rows += [row(index, index + 1, 1) for index in range(1, count - 2, 2)]
    rows += [fail(300, 7, 2), fail(300, 9, 3)]
    matrix = present(matrix_of(report_of(0, table(*rows, count=count)), most=8))
    assert {"n300", "n7", "n9"} <= set(matrix.names)
    assert (len(matrix.names), matrix.hidden) == (8, 392)
    page = text.render(report_of(0, table(*rows, count=count)))
    assert "392 more nodes are left out" in page
    assert max(map(len, page.splitlines())) <= 100


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_hostile_names_and_reasons_reach_no_format_raw(name: str) -> None:
    bad = PairRow(pair=(0, 3), outcome="failed", why=HOSTILE)
    rows = (*CUT[:3], bad, fail(1, 3), fail(2, 3))
    report = report_of(0, table(*rows, hosts={0: HOSTILE, 1: "b", 3: HOSTILE}))
    render = __import__(f"ascend_doctor.render.formats.{name}", fromlist=["render"]).render
    out = render(report)
    assert not {character for character in out if ord(character) < 32 and character != "\n"}
    assert "\u202e" not in out


def test_names_of_other_nodes_are_redacted() -> None:
    facts = Snapshot(host=Host(name="n0"), probes=(run_of(0, table(*CUT)),))
    hidden = redactor(facts, home="/root")
    text = msgspec.json.encode(hidden.apply(facts)).decode()
    assert not [index for index in range(4) if f'"n{index}"' in text]
    assert len({hidden.text(f"n{index}") for index in range(4)}) == 4
    assert "n3" not in hidden.text("pair-rounds: n3 has no link to the others")


def test_what_is_known_when_node_0_is_lost_is_not_all() -> None:
    values = msgspec.to_builtins(table(row(0, 1), row(2, 3)))
    findings = [
        *verdicts(
            read_record(PairTable, values | {"untold": "node 0 was lost"}), "abcd", device="npu"
        )
    ]
    assert (findings[0].level, findings[0].observed) == (Level.UNKNOWN, "node 0 was lost")
    assert findings[0].nodes == tuple("abcd")


@pytest.mark.parametrize("stage", ["meet", "round 1"])
def test_an_agent_that_fails_is_no_fault_of_a_node(stage: str) -> None:
    broken = ProbeResult(probe=PROBE, ok=False, error="OSError: odd", stage=stage)
    stuck = ProbeResult(probe=PROBE, stage=stage)
    for result in (broken, stuck):
        with pytest.raises(Unknown, match=f"in stage {stage}"):
            read_table(ProbeRun(probe=PROBE, ranks=(result,), timed_out=result.ok is None))


def check_run(run: ProbeRun) -> list[Finding]:
    return [*judge_probes(run, device="npu")]


def of_one(**fields: Any) -> ProbeRun:
    result = ProbeResult(probe=PROBE, **fields)
    return ProbeRun(probe=PROBE, device="cpu", ranks=(result,), exit_code=0)


@pytest.mark.parametrize(
    ("run", "level", "part"),
    [
        (of_one(ok=True, skipped="one node has no other"), Level.SKIPPED, "one node"),
        (
            of_one(ok=True, values={"untold": "refused"}),
            Level.UNKNOWN,
            "no fault of a node: refused",
        ),
        (of_one(ok=False, error="OSError: x", stage="meet"), Level.UNKNOWN, "in stage meet"),
        (of_one(ok=False, error="ImportError: x", stage="import"), Level.ERROR, "stage import"),
        (ProbeRun(probe=PROBE, missing=(2,), exit_code=1), Level.ERROR, "never started"),
        (ProbeRun(probe=PROBE, not_started="no time"), Level.UNKNOWN, "no time"),
        (run_of(0, table(*CUT)), Level.ERROR, "n3 has no link to the others"),
        (run_of(0, table(*CUT[:3]), "cpu"), Level.OK, "All pairs"),
    ],
)
def test_what_the_check_says(run: ProbeRun, level: Level, part: str) -> None:
    (finding,) = check_run(run)
    assert finding.level is level
    assert part in finding.title


def test_it_says_what_was_measured_and_what_to_look_at() -> None:
    wrong = [PairRow(pair=(index, 3), outcome="wrong", wrong=7 + index) for index in range(3)]
    (finding,) = check_run(run_of(0, table(*CUT[:3], *wrong)))
    assert finding.observed.splitlines()[0] == "n0 with n3: 7 elements of the sum are wrong"
    assert "hccn_tool -i $i -link -g" in remedy_of(finding).commands[0]
    (finding,) = check_run(run_of(0, table(*CUT[:3], *wrong), "cpu"))
    assert remedy_of(finding).commands == ()
    lossy = [row(index, 3, stalls=5, retransmitted=40) for index in range(3)]
    (finding,) = check_run(run_of(0, table(*CUT[:3], *lossy)))
    assert "5 of 200 stalled, 40 of 1640 segments sent again" in finding.observed


def test_pairs_that_could_not_be_measured_accuse_nobody() -> None:
    lost = [
        PairRow(pair=(index, 3), outcome="untold", why="node 3 gave no answer")
        for index in range(3)
    ]
    findings = check_run(run_of(0, table(*CUT[:3], *lost)))
    assert [finding.level for finding in findings] == [Level.UNKNOWN, Level.OK]
    assert (findings[0].observed, findings[0].nodes) == ("node 3 gave no answer", ("n3",))
    (found_alone,) = check_run(run_of(0, table(*lost)))
    assert found_alone.nodes == ("n0", "n1", "n2", "n3")


def test_where_no_pair_does_well_nobody_is_accused() -> None:
    rows = [fail(left, right) for left in range(4) for right in range(left + 1, 4)]
    (finding,) = check_run(run_of(0, table(*rows)))
    assert finding.level is Level.UNKNOWN
    assert "nobody to compare with" in finding.because
    assert "GLOO_SOCKET_IFNAME" in remedy_of(finding).summary


def test_measurements_that_disagree_are_shown_as_such() -> None:
    rows = (*CUT[:3], row(0, 3), row(1, 3), fail(2, 3), row(2, 3, 1))
    findings = check_run(run_of(0, table(*rows)))
    assert [finding.level for finding in findings] == [Level.UNKNOWN]
    assert "disagree" in findings[0].because
    pairs = present(pairs_of(run_of(0, table(*rows))))
    assert {pair.nodes: pair.outcome for pair in pairs.pairs}["n2", "n3"] == "unsteady"


def test_what_has_no_pairs_has_no_matrix() -> None:
    for run in (of_one(ok=True, skipped="one"), of_one(ok=False, stage="meet"), run_of(0, table())):
        assert pairs_of(run) is None


def test_two_hosts_of_one_name_are_told_apart() -> None:
    recorded = present(read_table(run_of(0, table(*CUT, hosts={0: "a", 1: "b", 2: "a"}))))
    assert recorded.names == ("a (node 0)", "b", "a (node 2)", "node 3")


def test_a_simulated_device_is_judged_by_values_alone() -> None:
    slow = tuple(row(index, 3, us=9e5, gbps=0.01, stalls=9, retransmitted=90) for index in range(3))
    rows = (*CUT[:3], *slow)
    findings = [*verdicts(table(*rows), ["a", "b", "c", "d"], device="npu", simulated=True)]
    assert [finding.level for finding in findings] == [Level.OK]
    assert "say nothing" in findings[0].observed
    real = [*verdicts(table(*rows), ["a", "b", "c", "d"], device="npu")]
    assert {finding.level for finding in real} == {Level.ERROR}
