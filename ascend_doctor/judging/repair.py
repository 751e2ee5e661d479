"""What of a remedy can be applied here, what belongs into the user's shell, what is by hand."""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from ascend_doctor.findings import Finding

# "packages" can be run here; "shell" changes the calling shell; the rest is for a person:
# "look" tells more, "root" needs rights or ends what others run, "hand" is anything else.
Kind = Literal["packages", "shell", "look", "root", "hand"]

# What only tells something; the remedy above it says what to do then.
_LOOKS = frozenset(
    ("npu-smi", "lspci", "lsmod", "ls", "df", "du", "ps", "ss", "ip", "id", "cat", "ldconfig")
)
# Commands of ours that read, and change nothing.
_OWN_LOOKS = frozenset(("check", "list", "explain", "matrix", "diagnose"))
_ROOT = frozenset(("sudo", "kill", "reboot", "systemctl", "docker"))
_SHELL = frozenset(("export", "unset", "source", "ulimit"))
# What makes more than one command of a line.
_OPERATORS = frozenset("();<>|&")
_SUBSTITUTES = re.compile(r"[`\n]|\$\(")
_PIP = ("-m", "pip")
_CHANGES = frozenset(("install", "uninstall"))
# ${NAME:+:$NAME}, which remedies put behind a folder: the old value, where there is one.
_APPENDED = re.compile(r"\$\{(\w+):\+:\$\1\}")
_NAMED = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a remedy; ``argv`` is empty where only a shell can read it."""

    text: str
    kind: Kind
    argv: tuple[str, ...] = ()


class RepairStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one finding asks for. ``actions`` is empty where its remedy is prose."""

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
    """The remedies in the order of the findings, each line once; ``python`` is the examined one."""
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
    """What a line of a remedy does; what is not known is by hand."""
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
    # Packages of another interpreter than the examined one are nobody's wish.
    if python and first == python and pip and "$" not in line:
        return Action(text=line, kind="packages", argv=tuple(words))
    return Action(text=line, kind="hand")


def _has_operators(line: str) -> bool:
    """Whether a line is more than one command with its words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return bool(_SUBSTITUTES.search(line)) or any(_OPERATORS.issuperset(word) for word in lexer)
    except ValueError:
        return True


def change(env: Mapping[str, str], action: Action) -> dict[str, str] | None:
    """The variables behind a line for the shell; None where only a shell can tell them."""
    first, *words = action.argv
    after = dict(env)
    if first == "unset" and all(word.isidentifier() for word in words):
        for word in words:
            after.pop(word, None)
        return after
    # In single quotes a shell takes $ as it is; shlex has taken the quotes away.
    if first != "export" or not words or ("'" in action.text and "$" in action.text):
        return None
    for word in words:
        name, equals, value = word.partition("=")
        value = _APPENDED.sub(lambda match: _append(env, match[1]), value)
        value = _NAMED.sub(lambda match: env.get(match[1] or match[2], ""), value)
        if not (equals and name.isidentifier()) or "$" in value:
            return None
        after[name] = value
    return after


def _append(env: Mapping[str, str], name: str) -> str:
    return f":{env[name]}" if env.get(name) else ""
