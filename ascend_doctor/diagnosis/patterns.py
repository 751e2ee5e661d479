"""The patterns of all known failures as one automaton."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from ascend_doctor.diagnosis.automata import Automaton, compile_patterns
from ascend_doctor.diagnosis.signs import COMMON, SIGNS, Sign
from ascend_doctor.matrix.schema import KnownFailure

# Signs that are left out, and patterns that are passed over.
NarrowKey = tuple[frozenset[Sign], frozenset[int]]

# Finding so many matches that are passed over costs as much as an automaton without their patterns.
_NARROWS = 3_000_000


class Patterns:
    """What a text shows of the given failures.

    Its methods raise DataError for a pattern that is none: automata are made, or read, when the
    first log is, which a folder of recorders' dumps does not have.
    """

    def __init__(self, failures: Iterable[KnownFailure]) -> None:
        self._names: list[tuple[str, str]] = []
        texts: list[str] = []
        for failure in failures:
            for text in failure.matches:
                self._names.append(("match", failure.id))
                texts.append(text)
        for sign, text in SIGNS.items():
            self._names.append(("sign", sign))
            texts.append(text)
        # A carriage return ends a line as well, which Hyperscan's anchors do not know: in a block
        # they are left out, and the line alone decides.
        self._texts = [text.removeprefix("^") for text in texts]
        self._common = {self._names.index(("sign", sign)) for sign in COMMON}
        self._others: dict[frozenset[Sign], tuple[Sequence[int], Automaton]] = {}
        self._narrowed: dict[NarrowKey, tuple[Sequence[int], Automaton]] = {}
        self._passed: Counter[NarrowKey] = Counter()
        self._line_texts = texts
        for failure in failures:
            if failure.unless:
                self._names.append(("unless", failure.id))
                texts.append(failure.unless)

    @functools.cached_property
    def _line(self) -> Automaton:
        return compile_patterns(self._line_texts, self._names, block=False)

    def places(
        self, block: bytes, *, without: frozenset[Sign] = frozenset(), familiar: Collection[int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Offsets in lines that may show something, each with the pattern that ends there.

        First those of something of its own, then those of a common sign. Signs ``without`` which
        a log that is full of them is read, and ``familiar`` patterns, are left out.
        """
        own: dict[int, int] = {}
        common: dict[int, int] = {}
        key = without, frozenset(familiar)
        numbers, automaton = self._narrowed.get(key) or self._without(without)
        passed = 0
        for index, end in automaton.scan(block):
            number = numbers[index]
            if number in familiar:
                passed += 1
            else:
                (common if number in self._common else own)[end] = number
        self._passed[key] += passed
        if self._passed[key] >= _NARROWS and key not in self._narrowed:
            self._narrowed[key] = self._narrow(numbers, key[1])
        return own, common

    def _narrow(
        self, numbers: Sequence[int], familiar: Collection[int]
    ) -> tuple[Sequence[int], Automaton]:
        """An automaton that does not find what is passed over."""
        left = [number for number in numbers if number not in familiar]
        texts = [self._texts[number] for number in left]
        names = [self._names[number] for number in left]
        return left, compile_patterns(texts, names, block=True, keep=False)

    def name(self, number: int) -> str:
        """The failure, or the sign, that a pattern is of."""
        return self._names[number][1]

    def _without(self, signs: frozenset[Sign]) -> tuple[Sequence[int], Automaton]:
        """The automaton of all patterns but these signs, with their numbers in the whole."""
        if signs not in self._others:
            out = {("sign", sign) for sign in signs}
            names = self._names[: len(self._texts)]
            numbers = [number for number, name in enumerate(names) if name not in out]
            automaton = compile_patterns(
                [self._texts[number] for number in numbers],
                [names[number] for number in numbers],
                block=True,
            )
            self._others[signs] = numbers, automaton
        return self._others[signs]

    def judge(self, line: bytes) -> tuple[set[str], set[str]]:
        """Ids of the failures that a line shows, and its signs."""
        kinds: dict[str, set[str]] = {"match": set(), "unless": set(), "sign": set()}
        for number, _ in self._line.scan(line):
            kind, name = self._names[number]
            kinds[kind].add(name)
        return kinds["match"] - kinds["unless"], kinds["sign"]
