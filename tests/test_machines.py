"""Every machine of tests/machines gets the report that its expected.yaml has.

After a change, read the difference that the failed test prints. If it is what was meant:

    python -m tests.test_machines --accept NAME...    writes what the doctor says now
    python -m tests.test_machines --write NAME DIR    writes the machine for check --replay DIR

A new machine is a folder with machine.yaml, see machines/compose.py, or what --record wrote.
"""

import argparse
import contextlib
import functools
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.checks import all_checks
from ascend_doctor.cli import run
from ascend_doctor.collect.snapshot import take
from ascend_doctor.commands.options.target import Examination
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.machine.live import Completed, FileStatus, NotRecorded, ProgramMissing
from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.machine.recorded import RecordingMachine, ReplayMachine
from ascend_doctor.matrix.catalog import Catalog
from tests.conftest import Command
from tests.machines.compose import MACHINES, build, names

NAMES = names()
HEALTHY = ("healthy-a2", "healthy-a3", "laptop")


@functools.cache
def folder_of(name: str) -> Path:
    directory = tempfile.TemporaryDirectory()
    _KEPT.append(directory)
    return build(name, Path(directory.name) / name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []
CATALOG = functools.cache(Catalog)


def summarise(report: dict[str, Any]) -> dict[str, Any]:
    """What expected.yaml has of a JSON report."""
    levels = [finding["level"] for finding in report["findings"]]
    summary = {
        "exit_code": report["verdict"]["exit_code"],
        **{level: levels.count(level) for level in ("error", "unknown", "warning")},
        "findings": [
            {
                "check": finding["check"],
                "level": finding["level"],
                "title": finding["title"],
                **({"because_of": finding["because_of"]} if finding["because_of"] else {}),
            }
            for finding in report["findings"]
            if finding["level"] not in ("ok", "skipped")
        ],
    }
    assert all(report["verdict"][level] == summary[level] for level in ("error", "unknown"))
    return summary


def ask(*arguments: str) -> tuple[int, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run([*arguments, "--format", "json"])
    return code, json.loads(out.getvalue())


@functools.cache
def check(name: str, *arguments: str) -> tuple[int, Any]:
    return ask(
        "check", "-l", "0", "--replay", str(folder_of(name)), "--no-redact", "-q", *arguments
    )


def read_expected(name: str) -> Any:
    return read_yaml(MACHINES / name / "expected.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_report_is_the_expected_one(name: str) -> None:
    code, report = check(name)
    assert summarise(report) == read_expected(name)
    assert code == report["verdict"]["exit_code"]
    assert not report["redacted"]


@pytest.mark.slow
def test_the_installed_command_says_the_same(installed: Command) -> None:
    done = installed(
        "check", "-l", "0", "--replay", str(folder_of(NAMES[0])), "--format", "json", "--no-redact"
    )
    assert summarise(json.loads(done.stdout)) == read_expected(NAMES[0])
    assert done.returncode == read_expected(NAMES[0])["exit_code"]
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_error_and_warning_says_what_to_do(name: str) -> None:
    _, report = check(name)
    for finding in report["findings"]:
        if finding["level"] in {"error", "warning"}:
            assert finding["found"], finding["title"]
            assert finding["remedy"], finding["title"]
            assert finding["because"], finding["title"]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_machines_are_well(name: str) -> None:
    assert (
        read_expected(name)["exit_code"]
        == read_expected(name)["error"]
        == read_expected(name)["unknown"]
        == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_machine_has_an_honest_origin(name: str) -> None:
    origin = ReplayMachine(folder_of(name)).recording.origin
    assert len(origin) > 40
    assert name in HEALTHY or summarise(check(name)[1])["findings"], (
        "a machine with nothing to find"
    )


@pytest.mark.slow
@pytest.mark.parametrize("redact", ["--redact", "--no-redact"])
@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_is_judged_as_the_machine_was(name: str, redact: str, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    assert run(["snapshot", "--replay", str(folder_of(name)), redact, "-o", str(file)]) == 0
    code, report = ask("judge", str(file))
    assert _levels(report) == _levels(check(name)[1])
    assert code == read_expected(name)["exit_code"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_redacted_recording_replays_to_the_same_report(name: str, tmp_path: Path) -> None:
    machine = ReplayMachine(folder_of(name))
    machine.env = {**machine.env, "NPU_TOKEN": "withheld-value", "NPU_VISIBLE_DEVICES": "0"}
    Examination(machine, record=str(tmp_path / "again")).collect()
    saved = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    text = "\n".join(f"{path}\n{path.read_text('utf-8')}" for path in saved)
    secret = ("withheld-value", "ipaddr:192.0.2.", "address_0=192.0.2.", "/home/ada")
    assert [word for word in secret if word in text] == []
    assert _findings(ReplayMachine(tmp_path / "again")) == _findings(machine)


def _findings(machine: ReplayMachine) -> list[tuple[str, Level]]:
    facts = take(machine, CATALOG())
    findings = judge(
        Case(facts=facts, catalog=CATALOG()), [check for check in all_checks() if check.level == 0]
    )
    return [(finding.check, finding.level) for finding in findings]


def _levels(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding["check"], finding["level"]) for finding in report["findings"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_one_check_alone_says_what_it_says_among_all(name: str) -> None:
    check_id = next(
        (finding["check"] for finding in read_expected(name)["findings"]), "shared-memory"
    )
    _, report = check(name, "--only", check_id)
    assert {finding["check"] for finding in report["findings"]} == {check_id}
    among = [finding for finding in check(name)[1]["findings"] if finding["check"] == check_id]
    assert report["findings"] == among


class Holed(ReplayMachine):
    """A machine without some answers: refused files, absent programs."""

    def __init__(self, folder: Path, holes: frozenset[str]) -> None:
        super().__init__(folder)
        self.holes = holes

    def run(self, argv: list[str], *, name: str = "", **options: Any) -> Completed:
        if f"run {name}" in self.holes:
            raise ProgramMissing(name)
        return super().run(argv, name=name, **options)

    def read(self, path: str, **options: Any) -> str:
        self._refuse(f"read {path}")
        return super().read(path, **options)

    def status(self, path: str) -> FileStatus:
        self._refuse(f"status {path}")
        return super().status(path)

    def names(self, path: str) -> tuple[str, ...]:
        self._refuse(f"names {path}")
        return super().names(path)

    def _refuse(self, question: str) -> None:
        if question in self.holes:
            raise PermissionError(13, "Permission denied", question)

    def value(self, key: str, ask: Callable[[], Any]) -> Any:
        if f"value {key}" in self.holes:
            raise NotRecorded(key)
        return super().value(key, ask)


@functools.cache
def questions(name: str) -> tuple[str, ...]:
    seen = RecordingMachine(ReplayMachine(folder_of(name)))
    take(seen, CATALOG())
    asked_of = {
        "run": [key for key, command in seen._commands.items() if not command.missing],
        "read": seen._files,
        "status": seen._nodes,
        "names": seen._folders,
        "value": seen._values,
    }
    return tuple(sorted(f"{kind} {key}" for kind, keys in asked_of.items() for key in keys))


def judge_machine(name: str, holes: frozenset[str] = frozenset()) -> dict[str, list[Finding]]:
    """Collecting and judging never raise."""
    facts = take(Holed(folder_of(name), holes), CATALOG())
    by_check: dict[str, list[Finding]] = {}
    for finding in judge(
        Case(facts=facts, catalog=CATALOG()), [c for c in all_checks() if c.level == 0]
    ):
        by_check.setdefault(finding.check, []).append(finding)
    return by_check


@st.composite
def draw_holes(draw: st.DrawFn) -> tuple[str, frozenset[str]]:
    """A machine and what cannot be asked there: single questions, or all of one kind."""
    name = draw(st.sampled_from(NAMES))
    known = questions(name)
    kinds = draw(st.sets(st.sampled_from(["run", "read", "status", "names", "value"]), max_size=2))
    single = draw(st.sets(st.sampled_from(known), max_size=8))
    return name, frozenset(
        single | {question for question in known if question.split(" ", 1)[0] in kinds}
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(draw_holes())
def test_holes_end_in_words_not_in_crashes(case: tuple[str, frozenset[str]]) -> None:
    crashes = [
        f"{finding.title}: {finding.observed}"
        for findings in judge_machine(*case).values()
        for finding in findings
        if "the check itself failed" in finding.title
    ]
    assert crashes == []


@st.composite
def silence(draw: st.DrawFn) -> tuple[str, frozenset[str]]:
    """A machine, and commands and values that give no answer there."""
    name = draw(st.sampled_from(NAMES))
    known = [question for question in questions(name) if question.startswith(("run ", "value "))]
    return name, draw(st.frozensets(st.sampled_from(known), min_size=1, max_size=3))


@pytest.mark.slow
@settings(max_examples=60)
@given(silence())
def test_what_was_wrong_is_not_well_once_it_is_not_told(case: tuple[str, frozenset[str]]) -> None:
    name, holes = case
    by_check = judge_machine(name, holes)
    wrong = [finding["check"] for finding in read_expected(name)["findings"]]
    assert [check_id for check_id in wrong if by_check[check_id][0].level is Level.OK] == []


# Only npu-smi, hccn_tool and /proc say this: without them nothing is OK.
ONLY_TOLD_BY = {
    "run npu-smi": ("npu-table", "npu-health", "npu-ecc", "npu-topology", "npu-memory"),
    "run hccn_tool": ("hccn-conf", "hccn-addresses", "hccn-gateway", "hccn-link", "hccn-tls"),
    "run interpreter": ("torch-npu-base-mismatch", "numpy-bound", "megatron-mindspeed-pair"),
    "value objects:": ("torch-npu-libraries",),
    "value symbols:": ("torch-npu-cann-symbols", "torch-npu-torch-symbols"),
    "value statvfs:": ("shared-memory",),
    "read /proc/net/tcp": ("ports-free",),
}


@pytest.mark.slow
@pytest.mark.parametrize("told_by", ONLY_TOLD_BY)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "laptop"])
def test_what_was_not_seen_is_not_well(name: str, told_by: str) -> None:
    holes = frozenset(question for question in questions(name) if question.startswith(told_by))
    by_check = judge_machine(name, holes)
    well = [
        check_id for check_id in ONLY_TOLD_BY[told_by] if by_check[check_id][0].level is Level.OK
    ]
    assert well == []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", nargs="+", metavar="NAME", default=[])
    parser.add_argument("--write", nargs=2, metavar=("NAME", "DIR"))
    wish = parser.parse_args()
    for accepted in wish.accept:
        path = MACHINES / accepted / "expected.yaml"
        comments = [
            line
            for line in (path.read_text("utf-8").splitlines() if path.exists() else ())
            if line.startswith("#")
        ]
        text = yaml.safe_dump(summarise(check(accepted)[1]), sort_keys=False, width=100)
        path.write_text("\n".join([*comments, text]), "utf-8")
    if wish.write:
        build(wish.write[0], Path(wish.write[1]))
