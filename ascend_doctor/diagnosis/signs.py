"""What any failed run may print, known or not: the lines that read like an error."""

import re
from pathlib import Path
from typing import Literal, get_args

from ascend_doctor.diagnosis.wording import COARSE
from ascend_doctor.matrix.schema import CALL_BEFORE, CODE_BEFORE
from ascend_doctor.patterns import read_patterns

_Ends = Literal["exception", "code", "result", "died", "uncaught", "agent", "elastic"]
Sign = Literal[_Ends, "logged", "peers", "links", "waited", "world", "bytes", "worded"]

_TABLE = read_patterns(Path(__file__).with_name("signs.txt"))

_WRITTEN = {
    "code": rf"\bE[A-Z0-9]\d{{4}}(:|\)|\[PID)|{CODE_BEFORE}E[A-Z0-9]\d{{4}}\b",
    "result": r"(error ?[cC]ode( is|:| =)|runtime result =|failed ?:) ?\d|"
    rf"({CODE_BEFORE}|{CALL_BEFORE})([12]07|50[07])\d{{3}}\b",
    "worded": COARSE,
}
SIGNS: dict[Sign, str] = {
    name: _WRITTEN.get(name) or "|".join(_TABLE[name]) for name in get_args(Sign) if name != "links"
}
_LEVEL, _NONE, _NCCL = (re.compile(_TABLE[name][0]) for name in ("level", "none", "nccl"))
# A run may have these in every line; only a log's first ones are looked at.
COMMON: frozenset[Sign] = frozenset({"logged", "worded"})
WORDED: frozenset[Sign] = frozenset({"worded"})


def harmless(line: str) -> bool:
    """Whether a line with the common sign excludes an error by its own words."""
    if _NCCL.search(line):
        return False
    level = _LEVEL.search(line)
    return bool(level and any(level.groups())) or _NONE.search(line) is not None


def continues_harmless(line: str, before: str) -> bool:
    """Whether an indented line continues a record whose level is below error."""
    if not line[:1].isspace():
        return False
    rows = before.rstrip("\r\n").split("\n")
    head = next((row for row in reversed(rows) if row and not row[0].isspace()), "")
    level = _LEVEL.search(head)
    return bool(level and any(level.groups()))
