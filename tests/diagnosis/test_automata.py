"""All patterns of a text at once, by Hyperscan."""

import pytest

from ascend_doctor.diagnosis import automata
from ascend_doctor.diagnosis.automata import Automaton
from ascend_doctor.errors import DataError


def scan(texts: list[str], text: bytes) -> set[tuple[int, int]]:
    return {*Automaton(texts, [("match", "own")] * len(texts), mode="block").scan(text)}


def test_lines_of_a_block_and_their_ends() -> None:
    patterns = ["two+ (three|four)$", "five", "no such"]
    assert scan(patterns, b"one\ntwoo four\n five five\n") >= {(0, 13), (1, 19), (1, 24)}
    assert not scan(patterns, b"two fourth\nfiv\ne")


def test_a_word_far_into_a_long_line() -> None:
    text = b"x" * 20_000 + b" five " + b"y" * 20_000 + b" five"
    assert scan(["five", r"\d"], text) == {(0, 20_005), (0, 40_011)}


@pytest.mark.parametrize("pattern", ["a*", "(?=x)y", r"(a)\1", "(a"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(DataError, match=r"failure own: the pattern .* cannot be used: "):
        Automaton([pattern], [("match", "own")], mode="line")


def test_without_hyperscan_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(automata, "hyperscan", None)
    with pytest.raises(DataError, match="-m pip install --force-reinstall hyperscan"):
        scan(["a"], b"a")
