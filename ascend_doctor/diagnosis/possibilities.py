"""What a line prints without stating that it happened: possible causes, settings, caught imports.

Such parts are not evidence of a failure that has the same words. A list of possible causes may
continue below its heading.
"""

import re
from collections.abc import Callable, Sequence

_MAX_ROWS = 12
_HEADING = (
    r"(?:(?:common|possible|potential|likely|probable)(?: root)? (?:causes?|reasons?)|"
    r"(?:可能|常见)的?(?:原因|因素))"
)
# "some common causes include: (1) ...", "There are some potential root causes. (1) ...".
_LIST = re.compile(
    rf"{_HEADING}(?: (?:include|are|is|may be|can be))?\s{{0,4}}[:.\uff1a]?\s{{0,4}}"
    r"(\(?[1-9a-c][).]\s?(?!\d).*)",
    re.IGNORECASE,
)
_OPENS = re.compile(rf"{_HEADING}[\w ]{{0,40}}[:.\uff1a]?[\s\"']*$", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:\(raylet\)\s+)?(?:\(\d{1,2}\)|\d{1,2}[.)]\s|[-*\u2022]\s)")
_ALTERNATIVES = re.compile(
    r"\b(?:complete[ds]?|finish(?:ed|es)|succeed(?:s|ed)|passed|done|stopped) or "
    r"(?:has |was )?(?:fail(?:s|ed)|interrupted|aborted|cancell?ed|killed|terminated)\b",
    re.IGNORECASE,
)
# "WARNING: no fused kernels: No module named 'apex'": an import that a program can do without.
_IMPORT = re.compile(
    r"(?:\b(?:ModuleNotFound|Import)Error\b[(:\"' ]{0,4})?"
    r"\b(?:No module named|cannot import name)\b.*"
)
_CAUGHT = re.compile(r"[Ff]ailed to import|[Ww]arning|WARN|\bINFO\b|not available")
# "'truncation': 'error'": a setting's value is one word; a name with error or state is a statement.
_SETTING = re.compile(
    r"(?<![\w\\])(['\"])(?!\w{0,40}(?:error|err|exception|status|state|phase|result|reason|"
    r"message|msg|severity|type|code|cause|detail|level)s?\1)[\w.-]{1,80}\1: ?"
    r"(?:(['\"])[\w./-]{0,80}\2|True|False|None|true|false|null|-?\d[\d.e+-]{0,30}|\[\]|\{\})"
    r"(?=\s*[,}\]]|\s*$)"
)


def mask(text: str, rows_before: Callable[[], Sequence[str]], *, whole: str) -> str:
    """A line without what it does not state; ``whole`` has its prefixes.

    ``rows_before`` gives the lines before it.
    """
    if _ITEM.match(text) and _is_listed(rows_before()):
        return ""
    if match := _LIST.search(text):
        text = text[: match.start(1)]
    if _CAUGHT.search(whole):
        text = _IMPORT.sub("", text)
    return _ALTERNATIVES.sub("", text)


def mask_settings(text: str) -> str:
    """Without the settings of a printed configuration, of which no word is an error."""
    return _SETTING.sub("", text) if "':" in text or '":' in text else text


def _is_listed(rows: Sequence[str]) -> bool:
    for row in reversed(rows[-_MAX_ROWS:]):
        if _OPENS.search(row) or _LIST.search(row):
            return True
        if not _ITEM.match(row) and not row[:1].isspace():
            return False
    return False
