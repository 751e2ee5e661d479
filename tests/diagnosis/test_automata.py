"""Hyperscan and what stands in for it find the same."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_doctor.diagnosis import automata
from ascend_doctor.diagnosis.automata import SLOWER, compile_patterns
from ascend_doctor.diagnosis.pattern_words import find_words, split_alternatives
from ascend_doctor.diagnosis.patterns import Patterns
from ascend_doctor.diagnosis.searches import Searches
from ascend_doctor.diagnosis.signs import SIGNS
from ascend_doctor.errors import DataError
from tests.diagnosis import logs

FAILURES = logs.catalog().failures
TEXTS = sorted(
    {text for failure in FAILURES.values() for text in failure.patterns}
    | {failure.unless for failure in FAILURES.values() if failure.unless}
    | {*SIGNS.values()}
)


@pytest.fixture(params=["hyperscan", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(automata, "hyperscan", None)
    return str(request.param)


@pytest.fixture(scope="module")
def slower() -> Patterns:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automata, "hyperscan", None)
        return Patterns(FAILURES.values())


def alike(path: Path, slower: Patterns, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = msgspec.to_builtins(logs.of_paths(path))
    monkeypatch.setattr(logs, "patterns", lambda: slower)
    assert msgspec.to_builtins(logs.of_paths(path)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILURES)
def test_both_diagnose_an_example_alike(
    name: str, slower: Patterns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.log"
    path.write_text(f"{FAILURES[name].example}\n{{'loss': 0.1}}\n", "utf-8")
    alike(path, slower, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("rank", range(8))
def test_both_diagnose_a_log_of_many_failures_alike(
    rank: int, slower: Patterns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.log"
    examples = [failure.example for failure in FAILURES.values()][rank::8]
    lines = "\n".join(examples).splitlines()
    path.write_text("".join(f"[rank{n % 4}]: {line}\n" for n, line in enumerate(lines)), "utf-8")
    alike(path, slower, monkeypatch)


def test_each_is_chosen_by_itself(engine: str) -> None:
    chosen = compile_patterns(["one"], [("match", "own")], mode="block")
    assert isinstance(chosen, Searches) is (engine == "python")


@pytest.mark.usefixtures("engine")
def test_lines_of_a_block_and_their_ends() -> None:
    scan = partial(_scan, ["two+ (three|four)$", "five", "no such"])
    assert scan(b"one\ntwoo four\n five five\n") >= {(0, 13), (1, 19), (1, 24)}
    assert not scan(b"two fourth\nfiv\ne")


@pytest.mark.usefixtures("engine")
def test_a_word_far_into_a_long_line() -> None:
    text = b"x" * 20_000 + b" five " + b"y" * 20_000 + b" five"
    assert _scan(["five", r"\d"], text) == {(0, 20_005), (0, 40_011)}


def _scan(texts: list[str], text: bytes) -> set[tuple[int, int]]:
    return {*compile_patterns(texts, [("match", "own")] * len(texts), mode="block").scan(text)}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("pattern", ["a*", "(?=x)y", r"(a)\1", "(a"])
def test_both_refuse_the_same(pattern: str) -> None:
    with pytest.raises(DataError, match=r"failure own: the pattern .* cannot be used: "):
        compile_patterns([pattern], [("match", "own")], mode="line")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\bEI0004\b", {"ei0004"}),
        (r"colou?r of [a-z] paint", {" paint"}),
        (r"(open|close)d? the (window){2}", {"window"}),
        (r"(?:Failed|Error)?: cannot+ load", {": cannot"}),
        (r"left|(?:r{0,3}ight)|", set()),
        (r"left|(?P<other>right)", {"left", "right"}),
        (r"a\(b\)\.c{2}d", {"a(b).c"}),
        (r"[^]x]y(?!zebra)abc", {"abc"}),
        (r"(?i:Word) or", {"word"}),
        (r"(?i)Word", {"word"}),
        (r"\d+ .* \w", set()),
    ],
)
def test_words_of_a_pattern(pattern: str, words: set[str]) -> None:
    assert find_words(pattern) == words


@pytest.mark.slow
@pytest.mark.parametrize("pattern", TEXTS)
def test_whatever_matches_has_a_word_of_its_pattern(pattern: str) -> None:
    words = find_words(pattern)

    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.from_regex(re.compile(pattern, re.ASCII)))
    def check(text: str) -> None:
        assert not words or any(word in text.lower() for word in words)

    check()


@pytest.mark.parametrize(
    ("pattern", "alternatives"),
    [
        (r"a|(b|c)[|]\||d", ["a", r"(b|c)[|]\|", "d"]),
        (r"(?i)a|b", [r"(?i)a|b"]),
        (r"(?i:a|b(c|d))|e", ["(?i:a)", "(?i:b(c|d))", "e"]),
        (r"(?:a|b)(?:c|d)", [r"(?:a|b)(?:c|d)"]),
        ("", [""]),
    ],
)
def test_alternatives_of_a_pattern(pattern: str, alternatives: list[str]) -> None:
    assert split_alternatives(pattern) == alternatives


@pytest.mark.slow
def test_it_is_said_and_changes_no_finding(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("RuntimeError: EI0004: bad rank table\n", "utf-8")
    command = "from ascend_doctor.entry import main; main()"
    ended = [
        subprocess.run(
            [sys.executable, "-c", f"import sys\n{block}{command}", "diagnose", "train.log"],
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        for block in ("", "sys.modules['hyperscan'] = None\n")
    ]
    seen = [re.sub(r"\d+\.\d+ s", "", process.stdout) for process in ended]
    assert seen[0] == seen[1]
    assert "EI0004" in seen[0]
    assert [SLOWER in process.stderr for process in ended] == [False, True]
    assert ended[0].returncode == ended[1].returncode
