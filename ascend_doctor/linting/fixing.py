"""What can be mended in a shell script: at once where one thing is meant, else as a diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from ascend_doctor.facts import ShellMark
from ascend_doctor.findings import Finding

Change = Callable[[str, str, str], str]

_CONTINUED = re.compile(r"\\[ \t]+$")
_AROUND = re.compile(r"^(\s*(?:export\s+)?\w+)[ \t]*=[ \t]*(?=\S)")
_OPTIONS = frozenset({"run-flags-known", "run-swift-options"})


def _around(line: str, _text: str, _near: str) -> str:
    return _AROUND.sub(r"\1=", line)


# Nothing but blanks and carriage returns go; what is left is what stands in the file.
_SAFE = frozenset({"SC1101", "stray-backslash", "carriage-return"})
_PROPOSED: dict[str, Change] = {
    **dict.fromkeys(("SC1007", "SC1068", "SC2283", "SC2290"), _around),
    "lost-dollar": lambda line, text, near: _once(line, text, f"${near}"),
    "parentheses": lambda line, text, near: _once(line, text, f"${{{near}}}"),
    "unset-name": lambda line, text, near: re.sub(
        rf"(\$\{{?){re.escape(text)}\b", rf"\g<1>{near}", line
    ),
    "open-brace": lambda line, text, _: _once(line, text, text + "}"),
}


def _once(line: str, text: str, better: str) -> str:
    """The line with a word replaced, if it has that word once."""
    pattern = rf"(?<![\w$]){re.escape(text)}(?!\w)"
    return line if len(re.findall(pattern, line)) != 1 else re.sub(pattern, lambda _: better, line)


def mend(content: bytes, marks: Iterable[ShellMark], file: str) -> bytes:
    """The script without carriage returns at line ends and blanks behind backslashes.

    Only lines with a mark are changed. What is no UTF-8 is left as it is.
    """
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    for mark in marks:
        number = mark.location.line - 1
        if mark.rule in _SAFE and mark.location.file == file and number < len(lines):
            lines[number] = _CONTINUED.sub(r"\\", lines[number].removesuffix("\r"))
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def propose(
    content: bytes, marks: Iterable[ShellMark], findings: Iterable[Finding], file: str
) -> tuple[str, ...]:
    """The lines of a diff of what was probably meant, as they stand in the file."""
    before = content.decode("utf-8", "replace").split("\n")
    after = list(before)
    for mark in marks:
        number = mark.location.line - 1
        if mark.rule in _PROPOSED and mark.location.file == file and number < len(after):
            after[number] = _PROPOSED[mark.rule](after[number], mark.text, mark.near)
    for finding in findings:
        slip = finding.check in _OPTIONS and finding.required.startswith("--")
        if slip and finding.location is not None and finding.location.file == file:
            number = finding.location.line - 1
            after[number] = _once(after[number], finding.observed, finding.required)
    diff = difflib.unified_diff(before, after, file, file, lineterm="", n=1)
    return tuple(diff)
