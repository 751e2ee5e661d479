"""What can be mended in a shell script: where one thing is meant, and judging it again agrees."""

import difflib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from ascend_doctor.checks.launch.shell import TEXTS
from ascend_doctor.facts import ShellMark
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.spelling import slip_of
from ascend_doctor.patterns import patterns_of


class Judgement(msgspec.Struct, frozen=True):
    """``marks`` are those of the script as text."""

    marks: tuple[ShellMark, ...]
    findings: tuple[Finding, ...]


Judge = Callable[[bytes], Judgement]
Change = Callable[[str, ShellMark], str]

# A change may reveal another mistake; each try judges the whole script.
_MOST_ROUNDS, _MOST_TRIES = 3, 40
(_CONTINUED, _ALONE, _ASSIGNED, _VARIABLE, _DASHES, _QUOTED, _TEST_END, _SECONDS) = patterns_of(
    __file__
)
_PLAIN = str.maketrans("\u201c\u201d\u201e\u2018\u2019\u201a", "\"\"\"'''")
# While one of these is there, the lines after it are misread.
_UNREAD = frozenset(TEXTS.of_check("shell-syntax")) - {"placeholder", "typographic-dash"}
# If one of these is new, the script is read differently.
_SYNTAX = frozenset({"shell-syntax", "shell-continued"})
# Findings on values and option names, seen once the shell can read them.
_REVEALED = frozenset(
    ("shell-placeholders", "run-flags-known", "run-option-values", "run-swift-options")
)


def _continue(line: str, _: ShellMark) -> str:
    text = line.rstrip()
    return line if not text or "#" in text or text.endswith("\\") else f"{text} \\"


def _whole_array(line: str, mark: ShellMark) -> str:
    match = _VARIABLE.match(line, mark.location.column - 1)
    if match is None:
        return line
    before, after = line[: match.start()], line[match.end() :]
    quote = "" if before.endswith('"') else '"'
    return f"{before}{quote}${{{match.group(1)}[@]}}{quote}{after}"


def _close_test(line: str, mark: ShellMark) -> str:
    end = _TEST_END.search(line)
    return f"{line[: end.start()]} {mark.near}{end.group().lstrip()}" if end else line


_CHANGES: Mapping[str, Change] = {
    **dict.fromkeys(
        ("SC1101", "stray-backslash", "carriage-return"),
        lambda line, _: _CONTINUED.sub(r"\\", line.removesuffix("\r")),
    ),
    **dict.fromkeys(
        ("SC1007", "SC1068", "SC2283", "SC2290"), lambda line, _: _ALONE.sub(r"\1=\2", line)
    ),
    **dict.fromkeys(
        ("SC1015", "SC1016", "SC1110", "SC1111", "SC1112"), lambda line, _: line.translate(_PLAIN)
    ),
    "SC1078": lambda line, mark: f'{line.rstrip()}"' if mark.text else line,
    "SC2089": lambda line, _: _QUOTED.sub(r"\1", line),
    "SC2128": _whole_array,
    "lost-line": _continue,
    "lost-equals": lambda line, mark: line.replace(f"{mark.near} ", f"{mark.near}=", 1),
    "misspelt-export": lambda line, mark: _once(line, mark.text, mark.near),
    "lost-dollar": lambda line, mark: _once(line, mark.text, f"${mark.near}"),
    "parentheses": lambda line, mark: _once(line, mark.text, f"${{{mark.near}}}"),
    "not-expanded": lambda line, mark: _once(line, f"'{mark.text}'", f'"{mark.text}"'),
    "unset-name": lambda line, mark: re.sub(
        rf"(\$\{{?){re.escape(mark.text)}\b", rf"\g<1>{mark.near}", line
    ),
    "open-brace": lambda line, mark: _once(line, mark.text, f"{mark.text}}}"),
    "open-test": _close_test,
    "typographic-dash": lambda line, _: _DASHES.sub("--", line),
}


def _once(line: str, text: str, better: str) -> str:
    pattern = rf"(?<![\w$-]){re.escape(text)}(?![\w-])"
    return line if len(re.findall(pattern, line)) != 1 else re.sub(pattern, lambda _: better, line)


def _mend_mark(line: str, mark: ShellMark) -> str:
    return _CHANGES[mark.rule](line, mark)


def _mend_option(line: str, finding: Finding) -> str:
    better = finding.required
    return _once(line, finding.observed, better) if better.startswith("--") else line


def _mend_truth(line: str, finding: Finding) -> str:
    if finding.required not in {"True", "False"}:
        return line
    value = re.escape(finding.observed.rpartition("=")[2])
    return re.sub(rf"(?<=[=: \"']){value}(?![\w.])", finding.required, line, count=1)


def _mend_key(line: str, finding: Finding) -> str:
    key = rf"(?<![\w-]){re.escape(finding.observed)}(?=[.=:])"
    once = len(re.findall(key, line)) == 1
    return re.sub(key, lambda _: finding.required, line) if once else line


def _mend_name(line: str, finding: Finding) -> str:
    names = re.findall(r"\b[A-Z][A-Z0-9_]+\b", line)
    slips = [name for name in names if slip_of(name, [finding.required])]
    return _once(line, slips[0], finding.required) if len(slips) == 1 else line


_MENDS: Mapping[str, Callable[[str, Finding], str]] = {
    **dict.fromkeys(("run-flags-known", "run-swift-options", "run-option-values"), _mend_option),
    "run-override-values": _mend_truth,
    "run-verl-keys": _mend_key,
    "variables-exported": lambda line, _: _ASSIGNED.sub(r"\1export ", line),
    "variables-valid": lambda line, _: _SECONDS.sub(r"\1", line),
    "variables-misspelt": _mend_name,
}


def _mend_finding(line: str, finding: Finding) -> str:
    change = _MENDS.get(finding.check)
    return change(line, finding) if change is not None else line


def _edits(lines: list[str], judgement: Judgement, file: str) -> dict[int, str]:
    edits: dict[int, str] = {}

    def edit(number: int, change: Callable[[str], str]) -> None:
        if number < len(lines):
            line = edits.get(number, lines[number])
            edits[number] = change(line)

    unread = [mark for mark in judgement.marks if mark.rule in _UNREAD]
    for mark in unread or judgement.marks:
        if mark.rule in _CHANGES and mark.location.file == file:
            edit(mark.location.line - 1, functools.partial(_mend_mark, mark=mark))
    for finding in () if unread else judgement.findings:
        if finding.location is None or finding.location.file != file:
            continue
        number = finding.location.line - 1
        # A continuation is within a command, where export is an argument.
        goes_on = 0 < number < len(lines) and lines[number - 1].endswith("\\")
        if not (goes_on and finding.check == "variables-exported"):
            edit(number, functools.partial(_mend_finding, finding=finding))
    return {number: line for number, line in edits.items() if line != lines[number]}


def mend(content: bytes, file: str, judge: Judge) -> bytes:
    """Correct a script where only one thing can be meant; the rest stays."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    judgement = judge(content)
    tries = 0
    for _ in range(_MOST_ROUNDS):
        edits = _edits(lines, judgement, file)
        groups = [edits, *({number: edits[number]} for number in edits)] if edits else []
        before = judgement
        for group in groups if len(edits) > 1 else groups[:1]:
            tries += 1
            new = [group.get(number, line) for number, line in enumerate(lines)]
            after = judge("\n".join(new).encode("utf-8", "surrogateescape"))
            if tries <= _MOST_TRIES and _is_better(judgement, after, group):
                lines, judgement = new, after
                if group is edits:
                    break
        if judgement is before:
            break
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _is_better(before: Judgement, after: Judgement, changed: Iterable[int]) -> bool:
    old, new = Counter(complaints(before)), Counter(complaints(after))
    places, gone = {number + 1 for number in changed}, old - new
    revealed = _REVEALED if any(check in _SYNTAX for check, _, _ in gone) else frozenset()
    return bool(gone) and not any(
        check in _SYNTAX or (line in places and check not in revealed)
        for check, _, line in new - old
    )


def complaints(judgement: Judgement) -> Iterator[tuple[str, str, int]]:
    """Check, title and line of each error and warning; line 0 where it has none."""
    for finding in judgement.findings:
        if finding.level in {Level.ERROR, Level.WARNING}:
            line = finding.location.line if finding.location is not None else 0
            yield finding.check, finding.title, line


def show_changes(before: bytes, after: bytes, file: str) -> tuple[str, ...]:
    old, new = (content.decode("utf-8", "replace").split("\n") for content in (before, after))
    return tuple(difflib.unified_diff(old, new, file, file, lineterm="", n=1))
