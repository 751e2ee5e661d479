"""What of a remedy can be applied here, what belongs into the user's shell, what is by hand."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from ascend_doctor.findings import Finding
from ascend_doctor.patterns import defer

# "packages" can run here; "shell" changes the calling shell; the rest is for a person:
# "look" shows more, "root" needs rights or ends what others run, "hand" is anything else.
Kind = Literal["packages", "shell", "look", "root", "hand"]

# Commands that only show something; the remedy above says what to do then.
_LOOKS = frozenset(
    ("npu-smi", "lspci", "lsmod", "ls", "df", "du", "ps", "ss", "ip", "id", "cat", "ldconfig")
)
# Our commands that only read.
_OWN_LOOKS = frozenset(("check", "list", "explain", "matrix", "diagnose"))
_ROOT = frozenset(("sudo", "kill", "reboot", "systemctl", "docker"))
_SHELL = frozenset(("export", "unset", "source", "ulimit"))
_OPERATORS = frozenset("();<>|&")
_SUBSTITUTES = defer(r"[`\n]|\$\(")
_PIP = ("-m", "pip")
_CHANGES = frozenset(("install", "uninstall"))
# ${NAME:+:$NAME}, which remedies put behind a folder: the old value, if set.
_APPENDED = defer(r"\$\{(\w+):\+:\$\1\}")
_NAMED = defer(r"\$(?:(\w+)|\{(\w+)\})")


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a remedy; ``argv`` is empty if only a shell can read it."""

    text: str
    kind: Kind
    argv: tuple[str, ...] = ()


class RepairStep(msgspec.Struct, frozen=True, kw_only=True):
    """The remedy of one finding. ``actions`` is empty if it is prose."""

    number: int
    check: str
    level: str
    title: str
    summary: str
    actions: tuple[Action, ...] = ()

    @property
    def applicable(self) -> bool:
        """Whether all that changes something can be done here."""
        kinds = {action.kind for action in self.actions} - {"look"}
        return bool(kinds) and kinds <= {"packages", "shell"}


def steps(findings: Iterable[Finding], *, python: str) -> tuple[RepairStep, ...]:
    """The remedies in the order of findings, each line once; ``python`` is the examined one."""
    rows: list[RepairStep] = []
    known: set[tuple[str, ...]] = set()
    for finding in findings:
        remedy = finding.remedy
        if remedy is None or (remedy.commands and remedy.commands in known):
            continue
        known.add(remedy.commands)
        rows.append(
            RepairStep(
                number=len(rows) + 1,
                check=finding.check,
                level=finding.level.value,
                title=finding.title,
                summary=remedy.summary,
                actions=tuple(classify(line, python=python) for line in remedy.commands),
            )
        )
    return tuple(rows)


def classify(line: str, *, python: str) -> Action:
    """The effect of a remedy's line; unknown lines are by hand."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    first = words[0] if words else ""
    if first in _ROOT or "sudo" in words:
        return Action(text=line, kind="root")
    if first in _LOOKS or (first == "ascend-doctor" and words[1:2] and words[1] in _OWN_LOOKS):
        return Action(text=line, kind="look")
    if _has_operators(line):
        return Action(text=line, kind="hand")
    if first in _SHELL:
        return Action(text=line, kind="shell", argv=tuple(words))
    pip = tuple(words[1:3]) == _PIP and words[3:4] and words[3] in _CHANGES
    # Only packages of the examined interpreter count.
    if python and first == python and pip and "$" not in line:
        return Action(text=line, kind="packages", argv=tuple(words))
    return Action(text=line, kind="hand")


def _has_operators(line: str) -> bool:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return bool(_SUBSTITUTES.search(line)) or any(_OPERATORS.issuperset(word) for word in lexer)
    except ValueError:
        return True


def change(env: Mapping[str, str], action: Action) -> dict[str, str] | None:
    """The variables after a shell line; None if only a shell can determine them."""
    first, *words = action.argv
    after = dict(env)
    if first == "unset" and all(word.isidentifier() for word in words):
        for word in words:
            after.pop(word, None)
        return after
    # In single quotes a shell takes $ literally; shlex has removed the quotes.
    if first != "export" or not words or ("'" in action.text and "$" in action.text):
        return None
    for word in words:
        name, equals, value = word.partition("=")
        value = _APPENDED.sub(lambda m: f":{env[m[1]]}" if env.get(m[1]) else "", value)
        value = _NAMED.sub(lambda match: env.get(match[1] or match[2], ""), value)
        if not (equals and name.isidentifier()) or "$" in value:
            return None
        after[name] = value
    return after
