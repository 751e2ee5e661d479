"""Every answer of every tool, left out on all devices at once, and the checks that read it.

An answer is a command, a line that it prints, a cell of a table, or an assignment of a file. It is
removed, emptied or replaced by NA. The facts that a check reads are recorded while it judges.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any

import msgspec
import pytest

from ascend_doctor.checks.npu.soc import names
from ascend_doctor.collect.snapshot import _COLLECTED, Taking, take
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Launch, Part, Section, Snapshot, StackLock
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.chip import ascend, device_count, npu_name
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.judging.matrix_fit import _FACTS
from ascend_doctor.judging.packages import family
from ascend_doctor.machine.recorded import RecordedCommand, RecordingMachine
from tests.level0.machine import ChangedMachine, machine
from tests.level0.mutants import CATALOG, LEVEL0, findings, healthy, questions

# Struct and field.
Fact = tuple[str, str]


def _is_ascend(case: Case) -> bool:
    ascend(case)
    return True


# Several facts answer these, any will do: the answer counts, not each fact.
_DERIVED: dict[CodeType, tuple[str, Callable[[Case], object]]] = {
    family.__code__: ("family", family),
    names.__code__: ("names of chips", names),
    ascend.__code__: ("traces of Ascend", _is_ascend),
    device_count.__code__: ("device count", device_count),
    _FACTS["driver"].__code__: ("driver", _FACTS["driver"]),
    npu_name.__code__: ("words of a finding", lambda _: True),
}
Change = Callable[[ChangedMachine], None]
# Facts that another source answers too.
_ELSEWHERE = {
    # The PCI bus counts A2 and 950 devices. Without that count the check is unknown.
    "device-files": {"Npu.device", "Npus.devices", "Npus.layout"},
    # The usual folder is looked at, and its version is asked for.
    "driver-complete": {"InstallInfo.driver_path"},
    # The files themselves say who may open them.
    "device-access": {"InstallInfo.group"},
    # Compared with each other; load, memory and temperature have checks.
    "npu-table": {"Npu.cells", "Npu.bus"},
    # npu-smi's OK on every card is the driver's own verdict. chip_name parts chips from cards.
    "driver-firmware": {"Driver.compatible_firmware", "NpuBoard.chip_name"},
    "npu-alike": {"NpuBoard.chip_name"},
    # One trace of a driver suffices; its version is only shown.
    "npu-present": {"Driver.version"},
    # Matters for repeating a run only.
    "checkouts": {"GitState.dirty"},
    # The operators are on disk.
    "ops-package": {"CannInstall.ops_packages"},
}
_UNANSWERED: tuple[Any, ...] = (None, "", (), {})
# Sections that are made of others.
_MADE_OF = {"native": ("python",), "import_path": ("python",), "hccn": ("driver",)}
_PAIR = re.compile(r"^(?P<key>[^:=|]*[A-Za-z][^:=|]*?)(?P<sign>\s*[:=]\s*)(?P<value>\S.*)$")
_SEE = re.compile(r"\(see ([a-z0-9-]+)\)")
_FILLED = {"gone": None, "empty": "", "NA": "NA"}


def facts_of(of: ChangedMachine) -> Snapshot:
    taken = take(of, CATALOG())
    return msgspec.structs.replace(taken, launch=Launch(), stack_lock=StackLock())


def _with_sources(sections: set[str]) -> tuple[str, ...]:
    return (*{*sections, *(each for name in sections for each in _MADE_OF.get(name, ()))},)


@functools.cache
def _readers(name: str) -> dict[str, set[str]]:
    """Commands and files with the sections that ask for them."""
    readers: dict[str, set[str]] = {}
    for section in _COLLECTED:
        recorder = RecordingMachine(machine(name))
        take(recorder, CATALOG(), taking=Taking(only=_with_sources({section})))
        for question in (*recorder._commands, *recorder._files):
            readers.setdefault(question, set()).add(section)
    return readers


def changed_facts(name: str, facts: Snapshot, of: ChangedMachine) -> Snapshot:
    """As ``facts_of`` gives, where ``facts`` are those before: the others need not be asked for."""
    before = machine(name)
    answers = {**before.commands, **before.files}.items()
    now = {**of.commands, **of.files}
    changed = {question for question, answer in answers if now.get(question) != answer}
    sections = {each for question in changed for each in _readers(name).get(question, ())}
    taken = take(of, CATALOG(), taking=Taking(only=_with_sources(sections)))
    gaps = [gap for gap in facts.gaps if gap.section not in sections]
    gaps += [gap for gap in taken.gaps if gap.section in sections]
    new = {section: getattr(taken, section) for section in sections}
    return msgspec.structs.replace(facts, gaps=tuple(gaps), **new)


def list_answers(value: Any) -> Iterator[Fact]:
    """Facts with an answer on one device at least."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            inner = getattr(value, field)
            if inner not in _UNANSWERED:
                yield type(value).__name__, field
            yield from list_answers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from list_answers(inner)


def _list_known(facts: Snapshot) -> set[Fact]:
    return {*list_answers(facts), *_list_derived(Case(facts=facts, catalog=CATALOG()))}


def _asked_by() -> Fact | None:
    """The ``_DERIVED`` function that reads now; its answer counts in the fact's place."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not judge.__code__:
        if frame.f_code in _DERIVED:
            return _DERIVED[frame.f_code][0], ""
        frame = frame.f_back
    return None


def _list_derived(case: Case) -> Iterator[Fact]:
    for name, function in _DERIVED.values():
        with suppress(Unknown, NotApplicable):
            if function(case) is not None:
                yield name, ""


@contextmanager
def _watch(reads: set[Fact]) -> Iterator[None]:
    """Add facts read in the meantime to ``reads``."""

    def read(self: msgspec.Struct, name: str) -> Any:
        reads.add(_asked_by() or (type(self).__name__, name))
        return object.__getattribute__(self, name)

    with pytest.MonkeyPatch.context() as patch:
        for struct in (Part, Section):
            patch.setattr(struct, "__getattribute__", read, raising=False)
        yield


def reads_of_ok_checks(facts: Snapshot) -> dict[str, set[Fact]]:
    case, reads = Case(facts=facts, catalog=CATALOG()), {}
    for check in LEVEL0():
        seen: set[Fact] = set()
        with _watch(seen):
            findings = judge(case, [check])
        if {finding.level for finding in findings} == {Level.OK}:
            reads[check.id] = seen
    return reads


def silent_checks(name: str) -> Iterator[tuple[str, str, str]]:
    """(check, facts, change): the check stays ok without any device's answer."""
    facts = facts_of(machine(name))
    known, reads = _list_known(facts), reads_of_ok_checks(facts)
    for what, change in changes(name):
        altered = machine(name)
        change(altered)
        after = changed_facts(name, facts, altered)
        lost = known - _list_known(after)
        readers = {check: missed for check in reads if (missed := reads[check] & lost)}
        if not readers:
            continue
        findings = judge(Case(facts=after, catalog=CATALOG()), LEVEL0())
        for check, read in readers.items():
            facts_read = {".".join(fact) for fact in read} - _ELSEWHERE.get(check, set())
            if facts_read and not _speaks(check, findings):
                yield check, " ".join(sorted(facts_read)), what


def _speaks(check: str, findings: tuple[Finding, ...]) -> bool:
    """Whether a check is not content, or names one that is not."""
    worse = {f.check for f in findings if f.level in {Level.WARNING, Level.UNKNOWN, Level.ERROR}}
    skipped = [f.title for f in findings if f.check == check and f.level is Level.SKIPPED]
    return check in worse or any(worse & set(_SEE.findall(title)) for title in skipped)


# --- the changes


def accusing_checks(name: str) -> Iterator[tuple[str, str]]:
    """(path, title): where the user may not open a path, something there is called absent."""
    known = healthy(name)
    for path in questions(name):
        if path.startswith("/"):
            altered = machine(name)
            altered.refused = {path}
            for finding in findings(altered):
                key = (finding.check, finding.level, finding.title)
                is_new = finding.level in {Level.WARNING, Level.ERROR} and key not in known
                if is_new and "stack-readable" not in {finding.check, finding.because_of}:
                    yield path, finding.title


def _stars(text: str) -> str:
    return re.sub(r"\d+", "*", text)


def changes(name: str) -> Iterator[tuple[str, Change]]:
    """Answers by question, digits as stars, and how each is left out."""
    of = machine(name)
    for question in dict.fromkeys(map(_stars, of.commands)):
        names = [command for command in of.commands if _stars(command) == question]
        yield f"gone {question}", functools.partial(_take_away, names)
        yield f"empty {question}", functools.partial(_print, names, lambda _: "")
        texts = [of.commands[command].stdout for command in names]
        for what, edit in _edits(texts):
            yield f"{what} of {question}", functools.partial(_print, names, edit)
    for path, text in of.files.items():
        if path.endswith(".py") or "/.git/" in path:
            continue  # a package and a checkout answer for no device
        for what, edit in _edits([text]):
            yield f"{what} of {path}", functools.partial(_write, path, edit)


def _take_away(names: list[str], of: ChangedMachine) -> None:
    for name in names:
        del of.commands[name]


def _print(names: list[str], edit: Callable[[str], str], of: ChangedMachine) -> None:
    for name in names:
        printed = of.commands[name]
        of.commands[name] = RecordedCommand(
            name=name, stdout=edit(printed.stdout), exit_code=printed.exit_code
        )


def _write(path: str, edit: Callable[[str], str], of: ChangedMachine) -> None:
    of.files[path] = edit(of.files[path])


def _edits(texts: list[str]) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Each line, cell and word, left out of all texts."""
    lines = [line for text in texts for line in text.splitlines()]
    keys = dict.fromkeys(
        _stars(match["key"]).strip() for line in lines if (match := _PAIR.match(line))
    )
    for key in keys:
        for how, filling in _FILLED.items():
            yield f"{how} {key!r}", functools.partial(_edit_pair, key, filling)
    words = max((len(list(_words(line))) for line in lines if line.startswith("|")), default=0)
    for parity in (0, 1):
        for position in range(words):
            for how in ("empty", "NA"):
                yield (
                    f"{how} word {position} of rows {parity}",
                    functools.partial(_edit_rows, parity, position, _FILLED[how] or ""),
                )


def _edit_pair(key: str, filling: str | None, text: str) -> str:
    edited = []
    for line in text.splitlines():
        match = _PAIR.match(line)
        if match is None or _stars(match["key"]).strip() != key:
            edited.append(line)
        elif filling is not None:
            edited.append(f"{match['key']}{match['sign']}{filling}")
    return "\n".join((*edited, ""))


def _words(line: str) -> Iterator[re.Match[str]]:
    return re.finditer(r"[^\s|/]+", line)


def _edit_rows(parity: int, position: int, filling: str, text: str) -> str:
    """Of a framed table every second row below its header, up to its second part."""
    edited: list[str] = []
    row, is_below = 0, False
    for line in text.splitlines():
        is_below |= line.startswith("+=")
        is_row = is_below and line.startswith("|") and not line.startswith("| N")
        words = list(_words(line)) if is_row else []
        if row % 2 == parity and position < len(words):
            start, end = words[position].span()
            edited.append(f"{line[:start]}{filling.ljust(end - start)}{line[end:]}")
        else:
            edited.append(line)
        row += is_row
    return "\n".join((*edited, ""))
