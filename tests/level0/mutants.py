"""What level 0 says of breakages, dropped answers and healthy variations."""

import fnmatch
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ascend_doctor.checks import all_checks
from ascend_doctor.collect.snapshot import take
from ascend_doctor.facts import Launch, StackLock
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.machine.recorded import RecordedCommand, RecordingMachine
from ascend_doctor.matrix.catalog import Catalog
from tests.level0.machine import ChangedMachine, change_machine, machine, table

MACHINES = ("healthy-a2", "healthy-a3")
CATALOG = functools.cache(Catalog)
LEVEL0 = functools.cache(lambda: [check for check in all_checks() if check.level == 0])


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A changed machine and its label: any of ``see`` (level, check) or, empty, nothing."""

    id: str
    what: str
    on: str
    see: tuple[tuple[Level, str], ...]
    because: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""
    how: str = ""

    def machine(self) -> ChangedMachine:
        if not self.question:
            return change_machine(self.on, self.change)
        return drop(self.on, self.question, self.how)


def findings(of: ChangedMachine) -> tuple[Finding, ...]:
    """A crash is the check's fault, whatever the machine is."""
    taken = take(of, CATALOG())
    facts = msgspec.structs.replace(taken, launch=Launch(), stack_lock=StackLock())
    findings = judge(Case(facts=facts, catalog=CATALOG()), LEVEL0())
    assert [finding for finding in findings if "the check itself failed" in finding.title] == []
    return findings


@functools.cache
def healthy(name: str) -> frozenset[tuple[str, Level, str]]:
    return frozenset(_keys(findings(machine(name))))


def _keys(findings: tuple[Finding, ...]) -> Iterator[tuple[str, Level, str]]:
    for finding in findings:
        if finding.level in {Level.WARNING, Level.UNKNOWN, Level.ERROR}:
            yield finding.check, finding.level, finding.title


def news(of: Mutant) -> list[tuple[str, Level, str]]:
    """What the healthy machine's report lacks."""
    known = healthy(of.on)
    return [key for key in _keys(findings(of.machine())) if key not in known]


def is_seen(of: Mutant, new: list[tuple[str, Level, str]]) -> bool:
    """Whether the report has the label; "nothing" wants no news."""
    if not of.see:
        return not new
    return any((level, check) in of.see for check, level, _ in new)


# --- the tables


def _label(row: Mapping[str, Any]) -> tuple[tuple[Level, str], ...]:
    texts = row["see"] if isinstance(row["see"], list) else [row["see"]]
    if texts == ["nothing"]:
        assert row["because"], row
        return ()
    pairs = (text.split() for each in texts for text in _levels(each))
    return tuple((Level[level.upper()], check) for level, check in pairs)


def _levels(text: str) -> tuple[str, ...]:
    """A label with its level; without one, an error or a warning."""
    return (text,) if " " in text else (f"error {text}", f"warning {text}")


def breakages() -> list[Mutant]:
    return [
        Mutant(
            id=row["id"],
            what=row.get("what", row["id"]),
            on=row.get("machine", "healthy-a2"),
            see=_label(row),
            because=row.get("because", ""),
            change=row["change"],
        )
        for row in table("breakages")
    ]


def variations() -> list[Mutant]:
    return [
        Mutant(
            id=row["id"],
            what=row["id"],
            on=row.get("machine", "healthy-a2"),
            see=(),
            change=row["change"],
        )
        for row in table("variations")
    ]


def fresh(file: str = "fresh") -> list[Mutant]:
    """Rows of a file of kinds, one for each value."""
    return [
        Mutant(
            id=f"{row['id']} {value}",
            what=row["id"],
            on=row.get("machine", "healthy-a2"),
            see=_label(filled) if "see" in row else (),
            change=filled["change"],
        )
        for row in table(file)
        for value in row["each"]
        for filled in [_filled(row, value if isinstance(value, list) else [value])]
    ]


def _filled(row: Mapping[str, Any], values: list[Any]) -> dict[str, Any]:
    text = json.dumps({key: row[key] for key in ("see", "because", "change") if key in row})
    for number, value in enumerate(values):
        text = text.replace(f'"${number}#"', str(value))
        text = text.replace(f"${number}", json.dumps(str(value))[1:-1])
    filled: dict[str, Any] = json.loads(text)
    return filled


# --- dropped answers


@functools.cache
def questions(name: str) -> tuple[str, ...]:
    """Asked and present: commands ("run ..."), values ("value ...") and paths."""
    recorder = RecordingMachine(machine(name))
    take(recorder, CATALOG())
    commands = [f"run {key}" for key, command in recorder._commands.items() if not command.missing]
    values = [f"value {key}" for key in recorder._values]
    paths = {*recorder._files, *recorder._nodes, *recorder._folders}
    return tuple(sorted((*commands, *values, *(path.rstrip("/") for path in paths))))


def drop(name: str, question: str, how: str) -> ChangedMachine:
    altered = machine(name)
    kind, _, key = question.partition(" ")
    if kind == "run" and how == "empty":
        altered.commands[key] = RecordedCommand(name=key)
    elif kind == "run":
        del altered.commands[key]
    elif kind == "value":
        del altered.recording.values[key]
    elif how == "empty":
        altered.files[question] = ""
    else:
        altered.remove(altered._resolve(question))
        altered.recording.links.pop(question, None)
    return altered


def drops() -> list[Mutant]:
    rows = table("drops")
    return [
        _drop(rows, name, question, how)
        for name in MACHINES
        for question in questions(name)
        for how in _ways(name, question)
    ]


def _ways(name: str, question: str) -> tuple[str, ...]:
    if question.startswith("value "):
        return ("gone",)
    of = machine(name)
    can_be_empty = question.startswith("run ") or of.files.get(question)
    return ("gone", "empty") if can_be_empty else ("gone",)


def _drop(rows: list[dict[str, Any]], name: str, question: str, how: str) -> Mutant:
    for row in rows:
        if (row.get("how", how), row.get("machine", name)) == (how, name) and any(
            fnmatch.fnmatchcase(question, pattern) for pattern in row["match"]
        ):
            return Mutant(
                id=f"{name} {how} {question}",
                what=f"{question} is {how}",
                on=name,
                see=_label(row),
                because=row.get("because", ""),
                question=question,
                how=how,
            )
    raise AssertionError(f"no label for {how} {question}")
