"""The patterns of all known failures as one automaton."""

from __future__ import annotations

from collections.abc import Iterable

from ascend_doctor.diagnosis.automata import Automaton, compile_patterns
from ascend_doctor.diagnosis.signs import COMMON, SIGNS, Sign
from ascend_doctor.matrix.schema import KnownFailure


class Patterns:
    """What a text shows of the given failures. Raises DataError for a pattern that is none."""

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
        self._others: dict[frozenset[Sign], Automaton] = {}
        self._block = compile_patterns(self._texts, self._names, block=True)
        for failure in failures:
            if failure.unless:
                self._names.append(("unless", failure.id))
                texts.append(failure.unless)
        self._line = compile_patterns(texts, self._names, block=False)

    def places(self, block: bytes) -> tuple[set[int], set[int]]:
        """Offsets in lines that may show something: something of its own, or a common sign."""
        own: set[int] = set()
        common: set[int] = set()
        for number, end in self._block.scan(block):
            (common if number in self._common else own).add(end)
        return own, common

    def places_without(self, signs: frozenset[Sign], block: bytes) -> set[int]:
        """Offsets of everything but these signs; for logs that are full of them."""
        if signs not in self._others:
            left = [
                (text, name)
                for text, name in zip(self._texts, self._names, strict=False)
                if name not in {("sign", sign) for sign in signs}
            ]
            self._others[signs] = compile_patterns(
                [text for text, _ in left], [name for _, name in left], block=True
            )
        return {end for _, end in self._others[signs].scan(block)}

    def judge(self, line: bytes) -> tuple[set[str], set[str]]:
        """Ids of the failures that a line shows, and its signs."""
        kinds: dict[str, set[str]] = {"match": set(), "unless": set(), "sign": set()}
        for number, _ in self._line.scan(line):
            kind, name = self._names[number]
            kinds[kind].add(name)
        return kinds["match"] - kinds["unless"], kinds["sign"]
