"""shellcheck on a copy of a script: which of its rules speak at which places."""

import json
import os
import re
import sysconfig
from collections.abc import Sequence
from typing import Any

from ascend_doctor.checks.launch.shell import TEXTS
from ascend_doctor.errors import Unknown
from ascend_doctor.facts import ShellMark
from ascend_doctor.findings import Place
from ascend_doctor.machine.live import LiveMachine, ProgramMissing
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.patterns import patterns_of

DEADLINE = 20.0
_EMPTIED, _OF_BASH, _NAME, _INNER = patterns_of(__file__)
_MOST_BYTES = 1 << 19
_MOST_MARKS = 500
# Rules up to here are about syntax: https://www.shellcheck.net/wiki/
_SYNTAX = range(1000, 2000)
# Three repeat other rules; bad first lines #! (1008, 1071, 1084, 1104, 1113 to 1115, 1128)
# matter to who starts a script by its name alone; $10 (1037) and $NAME[0] (1087) are read as $1
# then 0 and $NAME then [0].
_LEFT_OUT = frozenset(
    {1009, 1072, 1079, 1008, 1071, 1084, 1104, 1113, 1114, 1115, 1128, 1037, 1087}
)


def run_shellcheck(content: bytes, file: str) -> tuple[ShellMark, ...]:
    """The marks of a script, with columns as characters.

    It gets no configuration, and follows no file. Raises Unknown if it cannot run, takes
    too long, or does not answer with its JSON.
    """
    if len(content) > _MOST_BYTES:
        raise Unknown(f"the script is larger than {_MOST_BYTES >> 10} KiB")
    with temporary() as folder:
        copy = os.path.join(folder, "script.sh")
        with open(copy, "wb") as script:
            # A backslash at the very end is harmless.
            script.write(content + b"\n")
        answer = _answer(copy)
    lines = content.decode("utf-8", "replace").split("\n")
    marks = parse_shellcheck(answer, file, lines)
    return tuple(mark for mark in marks if not _is_meant(mark, lines))


def _is_meant(mark: ShellMark, lines: list[str]) -> bool:
    """Whether it is an idiom.

    `CDPATH= cd` and `IFS= read` empty a variable for one command, and the first item of
    BASH_SOURCE is the script itself. A former array may get a text: its first item.
    """
    line = lines[mark.location.line - 1] if mark.location.line <= len(lines) else ""
    if mark.rule == "SC2128":
        before = "\n".join(lines[: mark.location.line - 1])
        here = line[mark.location.column - 1 :]
        return _OF_BASH.match(here) is not None or _is_text_by_then(here, before)
    return mark.rule == "SC1007" and _EMPTIED.search(line) is not None


def _is_text_by_then(use: str, before: str) -> bool:
    name = _NAME.match(use)
    if name is None:
        return False
    assigned = re.findall(rf"^[ \t]*{name.group(1)}=(.?)", before, re.MULTILINE)
    return bool(assigned) and assigned[-1] != "("


def _answer(copy: str) -> str:
    beside = os.path.join(sysconfig.get_path("scripts"), "shellcheck")
    program = beside if os.access(beside, os.X_OK) else "shellcheck"
    machine = LiveMachine()
    # The user's options would change the findings.
    env = {name: value for name, value in machine.env.items() if name != "SHELLCHECK_OPTS"}
    argv = [program, "--norc", "--shell=bash", "--format=json1", "--", copy]
    try:
        done = machine.run(argv, deadline=DEADLINE, env={**env, "LC_ALL": "C.UTF-8"})
    except ProgramMissing:
        raise Unknown("shellcheck is not installed") from None
    if done.timed_out:
        raise Unknown(f"shellcheck did not end within {DEADLINE:.0f} seconds")
    # 1 means comments (shellcheck(1), RETURN VALUES).
    if done.exit_code not in {0, 1} or done.truncated:
        raise Unknown(f"shellcheck ended with {done.exit_code}")
    return done.stdout


def parse_shellcheck(answer: str, file: str, lines: Sequence[str] = ()) -> tuple[ShellMark, ...]:
    """Marks that ``shellcheck --format=json1`` prints. Raises Unknown for anything else."""
    try:
        comments = json.loads(answer)["comments"]
        marks = [_mark(comment, file, lines) for comment in comments]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unknown("the answer of shellcheck is not its JSON") from None
    return tuple([mark for mark in marks if mark is not None][:_MOST_MARKS])


def _mark(comment: dict[str, Any], file: str, lines: Sequence[str]) -> ShellMark | None:
    code, severity = int(comment["code"]), comment["level"]
    rule = f"SC{code}"
    if rule not in TEXTS.rows:
        if code not in _SYNTAX or severity != "error" or code in _LEFT_OUT:
            return None
        rule = "syntax"
    line, column = int(comment["line"]), int(comment["column"])
    if rule == "SC2089":
        line, column = _inner_quote(lines, line, column, int(comment["endLine"]))
    where = Place(file=file, line=line, column=column)
    # Its words are shown where the doctor has none.
    near = str(comment["message"]).removesuffix(" Fix to allow more checks.").rstrip(". ")[:200]
    return ShellMark(rule=rule, near=near, location=where)


def _inner_quote(lines: Sequence[str], line: int, column: int, last: int) -> tuple[int, int]:
    for number, text in enumerate(lines[line - 1 : last], line):
        quote = _INNER.search(text, column - 1 if number == line else 0)
        if quote:
            return number, quote.start() + 1
    return line, column
