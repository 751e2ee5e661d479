"""What a line prints without stating that it happened: possible causes, settings, caught imports.

Such parts are not evidence of a failure that has the same words. A list of possible causes may
continue below its heading.
"""

from collections.abc import Callable, Sequence

from ascend_doctor.patterns import compile_beside

_MAX_ROWS = 12
_IS = compile_beside(__file__)


def mask(text: str, rows_before: Callable[[], Sequence[str]], *, whole: str) -> str:
    """A line without what it does not state; ``whole`` has its prefixes.

    ``rows_before`` gives the lines before it.
    """
    if _IS["item"].match(text) and _is_listed(rows_before()):
        return ""
    if match := _IS["list"].search(text):
        text = text[: match.start(1)]
    if _IS["caught"].search(whole):
        text = _IS["import"].sub("", text)
    return _IS["alternatives"].sub("", text)


def mask_settings(text: str) -> str:
    """Without the settings of a printed configuration, of which no word is an error."""
    return _IS["setting"].sub("", text) if "':" in text or '":' in text else text


def _is_listed(rows: Sequence[str]) -> bool:
    for row in reversed(rows[-_MAX_ROWS:]):
        if _IS["opens"].search(row) or _IS["list"].search(row):
            return True
        if not _IS["item"].match(row) and not row[:1].isspace():
            return False
    return False
