import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.diagnosis import wording

COARSE = re.compile(wording.COARSE)
LISTS = ("_VERBS", "_PROSE", "_MESSAGES", "_CODES", "_CHINESE")


def alternatives(pattern: str) -> Iterator[str]:
    """Those outside groups."""
    text, depth = "", 0
    for piece in re.findall(r"\\.|\[(?:\\.|[^\]])+\]|.", pattern):
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and not depth:
            yield text
            text = ""
        else:
            text += piece
    yield text


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_every_word_is_a_candidate(name: str) -> None:
    """What decides is asked of nothing that the coarse pattern leaves out."""
    for alternative in alternatives(getattr(wording, name)):
        words = st.from_regex(re.compile(alternative, re.ASCII), fullmatch=True)

        @settings(max_examples=200, deadline=None, derandomize=True)
        @given(words.filter(lambda text: "\n" not in text))
        def is_candidate(text: str) -> None:
            assert COARSE.search(text)

        is_candidate()
