"""The patterns of all known failures as one automaton."""

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.automata import CODES, Automaton, Mode
from ascend_doctor.diagnosis.signs import COMMON, SIGNS, Sign
from ascend_doctor.matrix.schema import CODE_AFTER, REPORTED, KnownFailure, find_code

# Once a pattern is familiar, pieces of this size with nothing else are not searched further.
_PIECE = 1 << 16
_LONGEST_CODE = 20
_CODE_AT_END = re.compile(rf"(\b{REPORTED}|\d+)(?:{CODE_AFTER})?\Z".encode())


@dataclass
class BlockMatches:
    """Offsets in lines that may show something, each with the pattern that ends there.

    First own ones, then common signs; and ends of familiar patterns that explain their line.
    """

    own: dict[int, int] = field(default_factory=dict)
    common: dict[int, int] = field(default_factory=dict)
    explained: list[int] = field(default_factory=list)


class Patterns:
    """What a text shows of the given failures.

    Methods raise DataError for an invalid pattern: automata are made, or read, with the first
    log, which a folder of recorders' dumps does not have.
    """

    def __init__(self, failures: Iterable[KnownFailure]) -> None:
        self._names: list[tuple[str, str]] = []
        texts: list[str] = []
        for failure in failures:
            for kind, name, of in (("match", failure.id, failure.matches),
                                   ("sign", "links", failure.reads.values())):  # fmt: skip
                self._names += [(kind, name)] * len(of)
                texts += of
        for sign, text in SIGNS.items():
            self._names.append(("sign", sign))
            texts.append(text)
        # Two for all codes: each alone would repeat the words before, most of an automaton.
        coded = [failure for failure in failures if failure.codes]
        numbers = [failure.codes for failure in coded if not failure.codes[0].isalpha()]
        codes = [find_code("|".join((*numbers, REPORTED))), rf"\b{REPORTED}(?:{CODE_AFTER})"]
        self._codes = range(len(texts), len(texts) + (len(codes) if coded else 0))
        self._names += [(CODES, "")] * len(self._codes)
        texts += codes[: len(self._codes)]
        # Hyperscan's anchors do not know carriage returns: blocks leave them out, the line decides.
        self._texts = [text.removeprefix("^") for text in texts]
        self._common = self._of_signs(COMMON)
        self._others: dict[tuple[frozenset[Sign], Mode], tuple[Sequence[int], Automaton]] = {}
        with_exceptions = {failure.id for failure in failures if failure.unless}
        self._settling = {
            number
            for number, (kind, name) in enumerate(self._names)
            if kind == "match" and name not in with_exceptions
        }
        self._line_texts = texts
        for failure in failures:
            if failure.unless:
                self._names.append(("unless", failure.id))
                texts.append(failure.unless)
        self._coded = [
            (len(texts) + index, re.compile(failure.codes.encode()))
            for index, failure in enumerate(coded)
        ]
        self._names += [("match", failure.id) for failure in coded]
        self._settling.update(
            number for number, _ in self._coded if self.name(number) not in with_exceptions
        )
        self._by_code: dict[bytes, tuple[int, ...]] = {}
        self._documented = {failure.id for failure in coded if failure.is_of_code}
        self._wrappers = {failure.id for failure in failures if failure.secondary}

    @functools.cached_property
    def _line(self) -> Automaton:
        names = self._names[: len(self._line_texts)]
        return Automaton(self._line_texts, names, mode="line")

    def places(
        self, block: bytes, *, without: frozenset[Sign] = frozenset(), familiar: Collection[int]
    ) -> BlockMatches:
        """Where a block may show something; not signs ``without`` or patterns ``familiar``."""
        numbers, automaton = self._without(without, "block")
        places = BlockMatches()
        for start, piece in self._new_pieces(block, without, familiar):
            for number, end in self._scan(automaton, piece, numbers):
                if number in self._common:
                    places.common[start + end] = number
                elif number not in familiar:
                    places.own[start + end] = number
                elif number in self._settling:
                    places.explained.append(start + end)
        return places

    def _new_pieces(
        self, block: bytes, without: frozenset[Sign], familiar: Collection[int]
    ) -> Iterator[tuple[int, bytes]]:
        if not familiar:
            yield 0, block
            return
        numbers, automaton = self._without(without, "kinds")
        for start, piece in _pieces(block):
            matches = self._scan(automaton, piece, numbers)
            if any(number not in familiar for number, _ in matches):
                yield start, piece

    def _scan(
        self, automaton: Automaton, text: bytes, numbers: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        for index, end in automaton.scan(text):
            if (number := numbers[index]) not in self._codes:
                yield number, end
                continue
            code = _CODE_AT_END.search(text, max(end - _LONGEST_CODE, 0), end)
            for coded in self._of_code(code[1]) if code else ():
                yield coded, end

    def _of_code(self, code: bytes) -> tuple[int, ...]:
        if code not in self._by_code:
            self._by_code[code] = tuple(
                number for number, codes in self._coded if codes.fullmatch(code)
            )
        return self._by_code[code]

    def _of_signs(self, signs: Collection[Sign]) -> set[int]:
        return {self._names.index(("sign", sign)) for sign in signs}

    def explain(self, numbers: Iterable[int]) -> bool:
        return not self._settling.isdisjoint(numbers)

    def name(self, number: int) -> str:
        return self._names[number][1]

    def _without(self, signs: frozenset[Sign], mode: Mode) -> tuple[Sequence[int], Automaton]:
        if (signs, mode) not in self._others:
            out = {("sign", sign) for sign in signs}
            names = self._names[: len(self._texts)]
            numbers = [number for number, name in enumerate(names) if name not in out]
            automaton = Automaton(
                [self._texts[number] for number in numbers],
                [names[number] for number in numbers],
                mode=mode,
            )
            self._others[signs, mode] = numbers, automaton
        return self._others[signs, mode]

    def judge(self, line: bytes) -> tuple[set[str], set[str]]:
        """Ids of the failures that a line shows, and its signs."""
        kinds: dict[str, set[str]] = {"match": set(), "unless": set(), "sign": set()}
        for number, _ in self._scan(self._line, line, range(len(self._line_texts))):
            kind, name = self._names[number]
            kinds[kind].add(name)
        shown = kinds["match"] - kinds["unless"]
        others = shown - self._documented
        return others if others - self._wrappers else shown, kinds["sign"]


def _pieces(block: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(block):
        stop = block.find(b"\n", start + _PIECE) + 1 or len(block)
        yield start, block[start:stop]
        start = stop
