"""Reads a log into the ledger: finds the lines that say something, and who wrote them."""

import contextlib
import functools
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ascend_doctor.diagnosis.exception_rules import classify
from ascend_doctor.diagnosis.exceptions import MAX_ROWS, OTHER, ends_traceback, parse, strip_margin
from ascend_doctor.diagnosis.ledger import Gravity, Ledger, LogLine, Sighting
from ascend_doctor.diagnosis.logs import ANSI, Log, Skipped, blocks
from ascend_doctor.diagnosis.origins import Moment, Origin, moment, split_prefixes
from ascend_doctor.diagnosis.outlived import ErrorLines, ends_job
from ascend_doctor.diagnosis.patterns import Patterns
from ascend_doctor.diagnosis.peers import Peers
from ascend_doctor.diagnosis.possibilities import mask, mask_settings
from ascend_doctor.diagnosis.records import record
from ascend_doctor.diagnosis.serials import MARK, parse_serials
from ascend_doctor.diagnosis.signs import COMMON, WORDED, Sign, continues_harmless, harmless
from ascend_doctor.diagnosis.steps import last_steps
from ascend_doctor.diagnosis.wording import complains, excuses, shows
from ascend_doctor.diagnosis.working import find_work
from ascend_doctor.matrix.schema import CALL_BEFORE, CODE_BEFORE, KnownFailure
from ascend_doctor.patterns import compile_beside

_LINE_END = re.compile(rb"[\r\n]+")
# How far a line is read on both sides of a match.
_REACH = 4096
# A line without an end, as of a progress bar or of binary data, is cut here.
_LONG = 1 << 16
# A line without a stamp has that of its neighbours: torch_npu's [ERROR] line follows.
_AFTER, _BEFORE = 3, 30
# The writing processes are looked up at the end of every block and of the log.
_SAMPLE = 1 << 9
_TAIL = 1 << 16
_HEAD = 256
# Lines that only read like an error, by log; then only the others count.
_LOGGED = 1000
# Those with only a word of one, or that familiar failures explain.
_LOOKED = 20_000
# Lines of one pattern; more are not counted. Beyond that of all patterns, each has only its share.
_REPEATED = 5_000
_SHOWN = 20_000
# The limit of each further log once many logs have said enough.
_ENOUGH = 20_000
_FEW = 20
# How much of a traceback is read on each side of its exception, and of how many in a log.
_TRACEBACK, _MESSAGE = 1 << 15, 1 << 14
_TRACEBACKS = 500

_IS = compile_beside(__file__)
# CANN's error manager: "EI0006: ", "Name(EI0006)", "EZ9999[PID: 1]".
_REPORTED = re.compile(
    rf"(?:\b(?=E[A-Z0-9]\d{{4}}(?::|\)|\[PID))|{CODE_BEFORE})(E[A-Z0-9]\d{{4}})\b"
)
# After common words only aclError's values: 107, 207, 500 and 507 thousand and some (acl_base.h).
_RESULT = re.compile(
    r"(?:error ?[cC]ode(?: is|:| =)|runtime result =|failed ?:) ?(\d{1,6})\b|"
    rf"(?:{CODE_BEFORE}|{CALL_BEFORE})((?:[12]07|50[07])\d{{3}})\b"
)
_HANDLER = re.compile(rb", in \w*(?:signal|sig(?:term|int|usr\d)|terminat\w*)\w*|\(sig\w*, frame\)")
_ABOUT_OTHERS = frozenset({"peers", "links", "agent", "elastic", "waited", "world"})
# The host of the process is before a line of torchrun's summary.
_SUMMARY = 200


def read(
    log: Log, patterns: Patterns, failures: dict[str, KnownFailure], ledger: Ledger
) -> list[Skipped]:
    """Read one log to its end; gives what could not be read. Raises DataError."""
    skipped: list[Skipped] = []
    ledger.files += 1
    if log.origin.rank is not None or log.origin.local is not None:
        ledger.origin(log.origin)
        ledger.folders_of_logs.setdefault(log.origin.process_only, set()).add(
            os.path.dirname(log.name)
        )
    reader = _Reader(log, patterns, failures, ledger)
    try:
        for block in blocks(log, skipped):
            reader.block(block)
    finally:
        reader.settle()
    reader.end()
    return skipped


# A diagnosis that `run` or `rehearse` printed: first line to last.
_OWN_ANSWER = re.compile(
    rb"(?m)^ascend-doctor \d\S* \xc2\xb7 \d[^\n]{,30} \xc2\xb7 \d"
    rb"(?:(?!\nascend-doctor )[\s\S]){,20000}?\n\S+ [^\n]* \xc2\xb7 [\d.]+ s$"
)


@dataclass(frozen=True, kw_only=True)
class _Part:
    raw: bytes
    writer: Origin
    text: str
    whole: str


@dataclass
class _Reader:
    log: Log
    patterns: Patterns
    failures: dict[str, KnownFailure]
    ledger: Ledger

    def __post_init__(self) -> None:
        self._line = 1
        self._tail = b""
        self._size = 0
        self._complaints = ErrorLines()
        self._logged = 0
        self._looked = 0
        self._explained = 0
        self._limit = _LOGGED if self.ledger.unexplained < _ENOUGH else _FEW
        self._peers = Peers(self.ledger)
        self._shown = 0
        self._tracebacks = 0
        self._times: Counter[int] = Counter()
        self._familiar: set[int] = set()

    def block(self, raw: bytes) -> None:
        # The look for the byte is what most blocks cost: few logs have colours.
        data = ANSI.sub(b"", raw) if b"\x1b" in raw else raw
        if b"ascend-doctor " in data:
            data = _OWN_ANSWER.sub(lambda answer: b"\n" * answer[0].count(b"\n"), data)
        counted, line = 0, self._line
        if self._line == 1:
            self._span(data[:_SAMPLE].split(b"\n", 1)[:1])
            if not self.log.origin.process and self.log.origin.rank is None:
                self._sample(data[:_TAIL].rpartition(b"\n")[0], cut=False)
        places = self.patterns.places(data, without=self._enough(), familiar=self._familiar)
        own, explained = places.own, sorted(places.explained)
        for start, stop, offsets in _lines(data, sorted({*own, *places.common})):
            shown = [own[offset] for offset in offsets if offset in own]
            numbers = [number for number in shown if number not in self._familiar]
            if not numbers and self._says_nothing_new(places.common, offsets):
                continue
            if not numbers and (
                self.patterns.explain(shown) or _any_within(explained, start, stop)
            ):
                self._looked += 1
                self._explained += 1
                continue
            line += data.count(b"\n", counted, start)
            counted = start
            self._count(numbers, self._hit(data, start, stop, offsets[0], line))
        self._sample(data[-_SAMPLE:], cut=len(data) > _SAMPLE)
        for step, offset in last_steps(data).items():
            row = data[slice(*_bounds(data, offset))][:_HEAD]
            self.ledger.counts(step, self.log.origin.node, moment(_text(row)))
        line += data.count(b"\n", counted)
        self.ledger.lines += line - self._line
        self._line = line
        self.ledger.size += len(raw)
        self._size += len(data)
        self._tail = (self._tail + data)[-_TAIL:]

    def _enough(self) -> frozenset[Sign]:
        if self._logged >= self._limit or self._explained >= _LOOKED:
            return COMMON
        return WORDED if self._looked >= _LOOKED else frozenset()

    def _says_nothing_new(self, common: Mapping[int, int], offsets: Sequence[int]) -> bool:
        enough = self._enough()
        self.ledger.or_more_unexplained |= enough == COMMON
        return all(
            self.patterns.name(common[offset]) in enough for offset in offsets if offset in common
        )

    def _count(self, numbers: Sequence[int], shown: Collection[str]) -> None:
        """Once a pattern has enough lines, the next one says nothing new.

        A line that its failure's ``unless`` takes out does not count.
        """
        if not numbers and any(name in self.failures for name in shown):
            self._looked += 1  # it shows a failure again, and was found by a word of it only
        for pattern in numbers:
            if self.patterns.name(pattern) not in shown:
                continue
            self._shown += 1
            self._times[pattern] += 1
            # More matches, smaller shares: a log full of many failures reads as fast as of one.
            share = _LOGGED * _SHOWN // self._shown if self._shown >= _SHOWN else _REPEATED
            if self._times[pattern] >= share:
                self._familiar.add(pattern)
                if seen := self.ledger.failures.get(self.patterns.name(pattern)):
                    seen.or_more = True
                else:
                    self.ledger.or_more_unexplained = True

    def end(self) -> None:
        if self._tail and not self._tail.endswith((b"\n", b"\r")):
            self.ledger.lines += 1
        reach = _SAMPLE if self.log.origin.process or self.log.origin.rank is not None else _TAIL
        self._sample(self._tail[-reach:], cut=len(self._tail) >= reach)
        if MARK in self._tail and len(self.ledger.serials) < _FEW * _TAIL:
            node = self.log.origin.node
            for device, serial in parse_serials(_text(self._tail)).items():
                self.ledger.serials.setdefault((node, device), serial)

    def settle(self) -> None:
        """The log's work, and its effect on the complaints; in a full log all."""
        works = self._note_work()
        full = bool(self._familiar or self._enough())
        aftermath, gravity = self._complaints.judge(self._tail, self._size, full=full)
        if aftermath == "stands" and gravity:
            self.ledger.stands(gravity)
            return
        self.ledger.survived |= aftermath == "survived"
        rest = self._tail[self._complaints.start_in(self._tail, self._size) :]
        self.ledger.ended_well |= (works or gravity is not None) and ends_job(rest)

    def _note_work(self) -> bool:
        start = find_work(self._tail)
        if start is None:
            return False
        row = _LINE_END.split(self._tail[start : start + _REACH], maxsplit=1)[0]
        line = self._line - self._tail.count(b"\n", start)
        seen = self._row(self._parts(row, row)[-1], line, lambda: None).sighting
        if self.ledger.work is None or self.ledger.work.before(seen):
            self.ledger.work = seen
        return True

    def _sample(self, data: bytes, *, cut: bool) -> None:
        """The first line of a cut text lacks a part of its prefix."""
        rows = [row for row in _LINE_END.split(data)[cut:] if row]
        for row in rows:
            for part in self._parts(row, row[:_HEAD])[:1]:
                self.ledger.origin(part.writer)
        self._span(rows[-1:])

    def _span(self, rows: list[bytes]) -> None:
        for row in rows if self.log.origin.node else ():
            if stamp := moment(_text(row[:_HEAD])):
                self.ledger.clocks.span(self.log.origin.node, stamp.seconds)

    def _parts(self, whole: bytes, row: bytes) -> list[_Part]:
        if b"{" in whole[:_HEAD] and len(whole) <= _LONG:
            writer, text = split_prefixes(_text(whole), self.log.origin)
            entry = record(text.strip(), writer)
            if entry:
                level = f"{entry.level} " if entry.level else ""
                return [
                    _Part(raw=raw, writer=writer, text=text, whole=f"{level}{text}")
                    for raw in (ANSI.sub(b"", line.encode()) for line in entry.lines)
                    for writer, text in (split_prefixes(_text(raw), entry.origin),)
                ]
        shows = _text(row)
        writer, text = split_prefixes(shows, self.log.origin)
        return [_Part(raw=row, writer=writer, text=text, whole=shows)]

    def _state(self, part: _Part, data: bytes, start: int) -> _Part:
        def split_before() -> list[str]:
            rows = _LINE_END.split((self._tail + data[:start])[-_REACH:])
            return [split_prefixes(_text(row), self.log.origin)[1] for row in rows if row]

        stated = mask(part.text, split_before, whole=part.whole)
        if stated == part.text:
            return part
        return replace(part, raw=stated.encode(), whole=part.whole.replace(part.text, stated))

    def _hit(self, data: bytes, start: int, stop: int, offset: int, line: int) -> set[str]:
        row = data[max(start, offset - _REACH) : min(stop, offset + _REACH)]
        shown = self.patterns.judge(row)
        if not any(shown):
            return set()
        before = data[max(start - _SUMMARY, 0) : start]
        every = self._parts(data[start:stop], row)
        stated = [self._state(part, data, start) for part in every]
        if stated != every:
            benign = {name for name in shown[0] if self.failures[name].severity == "benign"}
            every, row = stated, b"\n".join(part.raw for part in stated)
            shown = self.patterns.judge(row)
            shown[0].update(benign)
        judged = [
            (part, shown if part.raw is row else self.patterns.judge(part.raw)) for part in every
        ]
        elsewhere = bool(shown[0]) and not any(identities for _, (identities, _) in judged)
        if elsewhere or not any(any(shows) for _, shows in judged):
            part = every[0]
            if shown[0] or not shown[1] <= COMMON:
                part = replace(part, text=_text(row), whole=_text(row))
            judged = [(part, shown)]
        for part, (identities, signs) in judged:
            if identities or signs:
                seen = self._row(part, line, lambda: _near(data, start, stop))
                origin = part.writer.process_only
                seen.around = functools.partial(self._around, origin, data, start, stop)
                gravity = self._note(identities, signs, seen, before)
                if gravity is not None:
                    self._complaints.add(gravity, seen, self._size + stop)
        return set().union(*(names for _, both in judged for names in both))

    def _around(
        self, origin: Origin, data: bytes, start: int, stop: int
    ) -> tuple[list[str], list[str]]:
        head = data[max(start - _TRACEBACK, 0) : start]
        head = self._tail[-(_TRACEBACK - start) :] + head if start < _TRACEBACK else head
        rows = data[stop + 1 : stop + _MESSAGE].split(b"\n")
        return self._own(head.split(b"\n")[-MAX_ROWS:-1], origin), self._own(rows, origin)

    def _own(self, rows: Sequence[bytes], origin: Origin) -> list[str]:
        split = (split_prefixes(_text(row.rstrip(b"\r")), self.log.origin) for row in rows)
        return [text for writer, text in split if writer.process_only == origin]

    def _note(
        self, identities: set[str], signs: set[str], seen: LogLine, before: bytes
    ) -> Gravity | None:
        self.ledger.origin(seen.writer)
        text = strip_margin(seen.text)
        for identity in identities:
            self.ledger.failure(identity, seen)
            raised = _IS["exception"].match(text) or ends_traceback(text, _text(before))
            raised = raised or text != seen.text or "died" in signs
            if raised and len(self.ledger.raised) < _TRACEBACKS:
                self.ledger.raised[seen.sighting.order] = parse(text, *seen.around())
        if not _ABOUT_OTHERS.isdisjoint(signs):
            self._peers.line(signs, seen, _text(before))
        coded = self._codes(text, signs, seen, known=bool(identities))
        if "uncaught" in signs:
            self._logged += 1
            self.ledger.note(self.ledger.logged, text, seen)
            return Gravity.FATAL
        if any(self.failures[identity].severity == "fatal" for identity in identities):
            return Gravity.LEVEL if harmless(seen.whole) else Gravity.FATAL
        gravity = None if identities else self._unexplained(signs, seen, before)
        return Gravity.FATAL if coded and not identities else gravity

    def _row(self, part: _Part, line: int, when: Callable[[], Moment | None]) -> LogLine:
        text, writer = part.text.strip(), part.writer
        origin = writer.process_only
        file, order = self.log.name, (self.ledger.files, line)

        def look() -> Sighting:
            return Sighting(
                file=file, line=line, text=text, origin=origin, moment=when(), order=order
            )

        return LogLine(origin=origin, writer=writer, text=text, whole=part.whole, look=look)

    def _unexplained(self, signs: Collection[str], row: LogLine, before: bytes) -> Gravity | None:
        text = strip_margin(row.text)
        raised = "exception" in signs and _IS["exception"].match(text) is not None
        raised = raised or ends_traceback(text, _text(before))
        if raised and not _IS["wrapper"].search(text) and self._raise(text, row, before):
            return Gravity.FATAL
        if not raised and "exception" in signs and self._note_quoted(row):
            return Gravity.LEVEL
        if "died" in signs and not _IS["closed"].search(text):
            self.ledger.note(self.ledger.deaths, text, row)
            died = parse(text, *row.around())
            if died.message or died.frames:
                self.ledger.raised[row.sighting.order] = died
            return Gravity.FATAL
        if raised or "died" in signs:
            gravity = Gravity.FATAL
        elif self._complains(signs, row.whole, before):
            in_words = "logged" not in signs and not shows(row.whole)
            gravity = Gravity.WORDS if in_words else Gravity.LEVEL
        else:
            return None
        self._logged += 1
        self.ledger.note(self.ledger.logged, text, row)
        return gravity

    def _raise(self, text: str, row: LogLine, before: bytes) -> bool:
        """Note an exception; False for a wrapper of another, or one that another replaced."""
        self._tracebacks += 1
        if self._tracebacks > _TRACEBACKS:
            self.ledger.exception(text, row)
            return True
        exception = parse(text, *row.around())
        kind = classify(exception)
        wrapped = OTHER if kind == OTHER else classify(parse(exception.wraps, (), ()))
        if exception.replaced or wrapped != OTHER:
            return False
        self.ledger.raises(kind, row, exception)
        if kind == OTHER:
            self.ledger.exception(text, row, signalled=_HANDLER.search(before) is not None)
        return True

    def _note_quoted(self, row: LogLine) -> bool:
        text = row.text
        if text.startswith("No module named "):
            text = f"ModuleNotFoundError: {text}"
        inner = _IS["inner"].search(text)
        if inner is None or harmless(row.whole):
            return False
        exception = parse(inner[0], (), ())
        kind = classify(exception)
        if kind == OTHER or excuses(text[: inner.start()] + inner[0].partition(". ")[0]):
            return False
        self.ledger.raises(kind, row, exception)
        return True

    def _complains(self, signs: Collection[str], line: str, before: bytes) -> bool:
        self._looked += signs == WORDED
        if harmless(line):
            return False
        if "logged" in signs or shows(line):
            return True
        if not _ABOUT_OTHERS.isdisjoint(signs) or not complains(mask_settings(line)):
            return False
        return not continues_harmless(line, _text(before))

    def _codes(self, text: str, signs: Collection[str], row: LogLine, *, known: bool) -> bool:
        noted = "result" in signs and self._result(text, row, known=known)
        for code in _REPORTED.findall(text) if "code" in signs else ():
            self.ledger.code("reported", code, row, known=known)
            noted = True
        return noted

    def _result(self, text: str, row: LogLine, *, known: bool) -> bool:
        noted = False
        for match in _RESULT.finditer(text):
            code = match[1] or match[2]
            small = len(code) <= 2  # noqa: PLR2004 - HcclResult has two digits
            if not small:
                self.ledger.code("acl", code, row, known=known)
            elif _IS["hccl"].search(text):
                self.ledger.code("hccl", code, row, known=known)
            noted |= not small or _IS["hccl"].search(text) is not None
        return noted


def _lines(data: bytes, offsets: Sequence[int]) -> Iterator[tuple[int, int, Sequence[int]]]:
    first = 0
    while first < len(offsets):
        start, stop = _bounds(data, max(offsets[first] - 1, 0))
        last = first + 1
        while last < len(offsets) and offsets[last] - 1 <= stop:
            last += 1
        yield start, stop, offsets[first:last]
        first = last


def _any_within(offsets: Sequence[int], start: int, stop: int) -> bool:
    index = bisect_right(offsets, start)
    return index < len(offsets) and offsets[index] <= stop


def _bounds(data: bytes, offset: int) -> tuple[int, int]:
    """A carriage return ends a line as well."""
    low, high = max(offset - _LONG, 0), min(offset + _LONG, len(data))
    newline = max(data.rfind(b"\n", low, offset), low - 1) + 1
    start = max(data.rfind(b"\r", newline, offset) + 1, newline)
    stop = data.find(b"\n", offset, high)
    stop = high if stop < 0 else stop
    back = data.find(b"\r", offset, stop)
    return start, stop if back < 0 else back


def _near(data: bytes, start: int, stop: int) -> Moment | None:
    if stamp := moment(_text(data[start : min(stop, start + _REACH)])):
        return stamp
    after = data[stop + 1 : stop + 1 + _AFTER * 256].split(b"\n")[:_AFTER]
    before = data[max(start - _BEFORE * 200, 0) : start].split(b"\n")[:0:-1][:_BEFORE]
    for row in (*after, *before):
        if stamp := moment(_text(row)):
            return stamp
    return None


def _text(row: bytes) -> str:
    """In the most likely encoding; many Chinese machines write GB 18030."""
    with contextlib.suppress(UnicodeDecodeError):
        return row.decode("utf-8")
    with contextlib.suppress(UnicodeDecodeError):
        return row.decode("gb18030")
    return row.decode("utf-8", "replace")
