"""Tokens that no name announces: drawn letters and digits, alone or behind an issuer's prefix."""

import functools
import re
from collections.abc import Iterator

from ascend_doctor.patterns import defer
from ascend_doctor.redact.meanings import Cell, families
from ascend_doctor.redact.vocabulary import is_drawn, is_hex, is_known, is_strange

_RUN = defer("[A-Za-z0-9]{14,}")
_LEFT, _RIGHT = defer(r"[\w.~+-]*\Z"), defer(r"[\w~=+-]*(?:[./][\w~=+-]+)*")
# Mangled names, checksums, numbers, files.
_TAME = defer(r"_{0,2}Z\w|(?i:sha\d|md5)|0x[\da-fA-F]+$|.*\.[a-z]{1,12}$|(?:[A-Z]{1,4}\d{2,4}){4}")
_CHECKED = defer(
    r"(?:sha\d*|md5|hash|digest|integrity|base64)[\"']*[=:,-]\s*[\"']?[\w+/-]*$", re.IGNORECASE
)
_NEAR, _LONGEST = 120, 4096
_ISSUED, _ALONE, _ONE_CASE, _HEX = 14, 20, 26, 19


def find_tokens(text: str) -> Iterator[Cell]:
    """Tokens, in the order of the text."""
    done = 0
    for run in _RUN.finditer(text):
        if run.start() < done or run[0].isalpha() or run[0].isdigit():
            continue
        before = _LEFT.search(text[max(done, run.start() - _NEAR) : run.start()])
        start = run.start() - (len(before[0]) if before else 0)
        after = _RIGHT.match(text, run.end(), run.end() + _LONGEST)
        end = after.end() if after else run.end()
        tame = _CHECKED.search(text[max(0, start - _NEAR) : start]) or _TAME.match(text[start:end])
        first, *others = text[start:end].split("/")
        done = end = end if tame else start + len(first)
        if not tame and is_token(first):
            for piece in others:  # of base64
                if not is_drawn(piece, 6) and not (re.search(r"\d", piece) and is_strange(piece)):
                    break
                end += 1 + len(piece)
            yield Cell("token", start, end)
            done = end


@functools.lru_cache(1 << 12)
def is_token(text: str) -> bool:
    """Whether a word without blanks has a drawn part that its other parts do not explain."""
    if _TAME.match(text):
        return False
    matches = [run for run in _RUN.finditer(text) if not (run[0].isalpha() or run[0].isdigit())]
    prefix, runs = text[: matches[0].start()] if matches else "", [run[0] for run in matches]
    issued = bool(prefix) and _is_issuer(prefix)
    both = sum(is_hex(run) or is_drawn(run, _ISSUED) for run in runs) > 1
    return (both and (bool(prefix) or is_drawn(text, _ISSUED))) or any(
        (issued and len(run) >= _ISSUED and is_drawn(run, _ISSUED))
        or (issued and len(run) >= _HEX and is_hex(run))
        or (len(run) >= (_ALONE if run.lower() != run else _ONE_CASE) and is_drawn(run))
        for run in runs
    )


def _is_issuer(prefix: str) -> bool:
    """No word of software, or one of credentials; dots are of module names."""
    words = [word for word in re.split(r"[\W_\d]+", prefix) if word]
    short = len(words) == 1 and len(words[0]) < 3  # noqa: PLR2004
    credential = re.search("[PSKTDQp]", families(prefix.strip("._~-")))
    mixed = re.search(r"[a-z]\d[a-z]", prefix)
    named = short or mixed or credential or is_strange(prefix)
    return bool(named) or any(not is_known(word.lower()) for word in words)
