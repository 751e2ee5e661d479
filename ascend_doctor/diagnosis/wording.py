"""Lines that say in plain words that something is wrong, whoever writes them and in which form.

Such words stand in healthy logs as well: in options, counts, advice, and in what a model answers.
A coarse pattern finds the candidates; ``complains`` decides.
"""

import re
from pathlib import Path

from ascend_doctor.patterns import read_patterns

# The order is the table's.
(_VERBS, _PROSE, _CODES, _MESSAGES, _STATUS, _CHINESE, _FRAMES, _TABLES, _NAMES, *_MORE) = (
    pattern for (pattern,) in read_patterns(Path(__file__).with_name("wording.txt")).values()
)
_POD, _ANY_POD, _EXCUSING, _SPEAKER = _MORE
# The texts in bytes: GB 18030 has others for the Chinese words.
_GB = "|".join(
    "".join(rf"\x{byte:02x}" for byte in word.encode("gb18030")) for word in _CHINESE.split("|")
)

# Candidates: the same shapes without a look at what is around them. A carriage return may begin
# a line, which an anchor does not know.
_ANCHOR = re.compile(r"(?<![\[\\])\^")
COARSE = (
    f"(?i:{_VERBS}|{_PROSE}|{_MESSAGES}|{_CODES})|{_NAMES}|{_STATUS}|{_CHINESE}|{_GB}|"
    f"{_ANCHOR.sub('', f'{_FRAMES}|{_TABLES}')}|{_ANY_POD}"
)

_FREE = r"(?<![\w./=-])(?:{})(?![\w/-]|\.\w|=\S)"
# Chinese has no spaces: a letter of another script is no part of a word.
_PLAIN = re.IGNORECASE | re.ASCII
_SAYS = re.compile(_FREE.format(f"{_VERBS}|{_MESSAGES}"), _PLAIN)
_SAYS_IN_PROSE = re.compile(_FREE.format(_PROSE), _PLAIN)
_SHOWS = re.compile(f"{_STATUS}|{_FRAMES}|{_TABLES}|{_POD}")
_CODE = re.compile(rf"(?<![\w./-])(?:{_CODES})", _PLAIN)
_NAMED = re.compile(_NAMES, re.ASCII)
_SAYS_IN_CHINESE = re.compile(
    rf"(?<![无未零])(?<!没有)(?<!发现)(?<!0个)(?:{_CHINESE})(?!率|检测|处理|重试|\s*[:=\uff1a]?\s*0)"
)

_EXCUSES = re.compile(_EXCUSING, _PLAIN)
_PROSE_MARKS = re.compile(_SPEAKER)


def shows(line: str) -> bool:
    """Whether a line has a form that only failures print: frames, states, tables."""
    return _SHOWS.search(line) is not None


def excuses(line: str) -> bool:
    """Takes back what the line says, or gives advice."""
    return _EXCUSES.search(line) is not None


def complains(line: str) -> bool:
    """Whether a line without a level says in words that something is wrong."""
    if excuses(line):
        return False
    if _SAYS.search(line) or _CODE.search(line) or _NAMED.search(line):
        return True
    if _SAYS_IN_CHINESE.search(line):
        return True
    return bool(_SAYS_IN_PROSE.search(line)) and not _PROSE_MARKS.search(line)
