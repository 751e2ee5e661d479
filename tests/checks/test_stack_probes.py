from typing import Any

import msgspec
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.probe_results import ProbeResult, ProbeRun, Wrong
from tests.checks.machine import CATALOG, CHECKS, healthy

PROBES = (
    "mindspeed-patches",
    "entry-points",
    "megatron-tree",
    "megatron-calls",
    "mindspeed-forward",
    "port",
)
MINE = [check.id for check in all_checks() if check.probe in PROBES]
PLAN = Wrong(what="a plan of 1 steps with 1 of warm-up", got="True", expected="False")
COPIES = Wrong(what="copies on all ranks under TP2 PP1", got="6", expected="12")
LAYOUT = {"first": 6, "all": 12, "samples": 6}
PEFT = {
    "megatron": "0.15.3",
    "peft": {"version": "0.18.1", "error": "KeyError: 'default'", "broken": ""},
}


def judge_values(
    check: str,
    values: dict[str, Any] | None = None,
    *,
    ok: bool = True,
    facts: Snapshot | None = None,
    **fields: Any,
) -> tuple[Finding, ...]:
    result = ProbeResult(ok=ok, values=values or {}, error="" if ok else "OSError: x", **fields)
    probe = CHECKS[check].probe
    run = ProbeRun(probe=probe, device="npu", exit_code=0 if ok else 1, ranks=(result,))
    return judge(Case(facts=_with(run, facts), catalog=CATALOG), [CHECKS[check]])


def _with(run: ProbeRun, facts: Snapshot | None) -> Snapshot:
    return msgspec.structs.replace(facts or Snapshot(), probes=(run,))


@pytest.mark.parametrize("check", MINE)
def test_a_probe_without_a_measurement_is_no_success(check: str) -> None:
    for failed in (judge_values(check, ok=False), judge_values(check, {"cases": {}})):
        assert max(finding.level for finding in failed) > Level.OK
        assert not any("the check itself failed" in finding.title for finding in failed)


@pytest.mark.parametrize("check", MINE)
def test_a_probe_that_was_skipped_skips_its_checks(check: str) -> None:
    (finding,) = judge_values(check, skipped="there is no megatron.core")
    assert finding.level is Level.SKIPPED


PATCHES: dict[str, Any] = {
    "import": {"optimization_level": 2},
    "arguments": {"off": {}},
    "repatch": {"off": {}, "changed": []},
    "again": {"changed": {}},
    "argv": {"taken": {}},
}
ERROR = {"error": "AttributeError: no moe", "output": "\nlast words\n"}


@pytest.mark.parametrize(
    ("check", "case", "level"),
    [
        ("import-order", "import", Level.SKIPPED),
        ("argv-leak", "import", Level.SKIPPED),
        ("mindspeed-args", "arguments", Level.ERROR),
        ("first-repatch", "repatch", Level.ERROR),
        ("first-repatch", "arguments", Level.UNKNOWN),
        ("repatch-keeps-patches", "again", Level.ERROR),
    ],
)
def test_a_case_of_mindspeed_that_fails(check: str, case: str, level: Level) -> None:
    (finding,) = judge_values(check, {"cases": {**PATCHES, case: ERROR}})
    assert finding.level is level
    assert level is not Level.ERROR or finding.observed == "AttributeError: no moe\nlast words"


@pytest.mark.parametrize("check", ["mindspeed-args", "first-repatch", "repatch-keeps-patches"])
def test_a_mindspeed_without_repatch_and_a_slow_machine(check: str) -> None:
    old = {name: PATCHES[name] for name in ("import", "argv")}
    assert judge_values(check, {"repatches": False, "cases": old})[0].level is Level.SKIPPED
    late = {"error": "TimeoutError: no end after 120 s"}
    slow = {**PATCHES, "arguments": late, "repatch": late, "again": late}
    assert judge_values(check, {"cases": slow})[-1].level is Level.UNKNOWN


@pytest.mark.parametrize("text", ["no end after 120 s", "no time left, 18 of 120 s"])
@pytest.mark.parametrize(
    ("check", "case"),
    [
        ("cp-ring", "ring"),
        ("use-flash", "flash"),
        ("type-strings", "types"),
        ("framework-imports", "verl-actor"),
    ],
)
def test_what_does_not_end_in_time_is_no_fault_of_the_stack(
    check: str, case: str, text: str
) -> None:
    (finding,) = judge_values(check, {"cases": {case: {"error": f"TimeoutError: {text}"}}})
    assert finding.level is Level.UNKNOWN, finding


def test_a_program_without_options_leaks_none() -> None:
    (finding,) = judge_values("argv-leak", {"cases": PATCHES})
    assert finding.level is Level.OK


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("No module named 'triton'", "imports Triton kernels"),
        ("ValueError: x names that are not kernel arguments: BT", "for triton-ascend"),
        ("No module named 'megatron.training'", "imports megatron.training"),
        ("anything else", "MindSpeed cannot be imported"),
    ],
)
def test_how_an_import_of_mindspeed_fails(text: str, title: str) -> None:
    (finding,) = judge_values("stack-pair", {"line": "0.16", "cases": {"import": {"error": text}}})
    assert finding.level is Level.ERROR
    assert title in finding.title
    assert (finding.remedy is None) is (text == "anything else")


@pytest.mark.parametrize(
    ("line", "megatron", "level"),
    [
        ("0.17 or newer", "0.19.1", Level.OK),
        ("0.17 or newer", "0.16.1", Level.ERROR),
        ("0.12", "0.12.3", Level.OK),
        ("0.12", "0.13.0", Level.ERROR),
    ],
)
def test_mindspeed_of_another_megatron_line_is_reported(
    line: str, megatron: str, level: Level
) -> None:
    outcome = {"megatron": megatron, "patches": 5, "applied": 5}
    (finding,) = judge_values("stack-pair", {"line": line, "cases": {"import": outcome}})
    assert finding.level is level


def test_wrong_plans_and_wrong_samples_are_told_apart() -> None:
    values = {"megatron": "0.15.3", "decay 1 warm-up 1": True, "TP2 PP1": LAYOUT}
    assert judge_values("schedule", values, wrong=(PLAN,))[0].level is Level.ERROR
    assert judge_values("schedule", values, wrong=(COPIES,))[0].level is Level.OK
    assert judge_values("sample-collection", values, wrong=(COPIES,))[0].level is Level.ERROR
    (samples,) = judge_values("sample-collection", values, wrong=(PLAN,))
    assert (samples.level, samples.observed) == (Level.OK, "TP2 PP1: 6 of 12")


def test_peft_beside_a_bridge_needs_no_layers_of_its_own() -> None:
    assert judge_values("peft-on-megatron", PEFT)[0].level is Level.WARNING
    assert judge_values("peft-on-megatron", PEFT, facts=healthy())[0].level is Level.OK


def test_an_entry_point_that_fails_hides_no_other() -> None:
    broken = {"fla": ERROR, "registry": ERROR, "ms-swift": ERROR}
    cases = {**broken, "twinkle": {"mindspeed": False, "version": "twinkle 1"}}
    assert judge_values("fla-owner", {"cases": cases})[0].level is Level.UNKNOWN
    assert judge_values("registry", {"cases": cases})[0].level is Level.UNKNOWN
    assert judge_values("framework-order", {"cases": cases})[0].level is Level.SKIPPED
    good, failed = judge_values("framework-imports", {"cases": cases})
    assert (failed.level, good.observed) == (Level.ERROR, "twinkle 1")


def test_without_a_plan_for_it_nothing_is_said_of_fla_and_types() -> None:
    assert judge_values("fla-owner", {"cases": {"twinkle": {}}})[0].level is Level.SKIPPED
    assert judge_values("registry", {"cases": {"ms-swift": {}}})[0].level is Level.SKIPPED


def test_a_gated_delta_net_of_transformers_is_worth_a_note() -> None:
    there = {"megatron": True, "mindspeed": True, "bridge_has": True, "fla": True}
    values = {"gdn": {**there, "bridge_masks": True, "variable": "0"}}
    (finding,) = judge_values("gdn", values)
    assert finding.level is Level.OK
    assert finding.observed == "USE_MCORE_GDN=0"
