"""Reads Python's tracebacks: the exception of a process, its whole message, and its frames."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, dropwhile, takewhile

from ascend_doctor.diagnosis.mixed_rows import is_mixed, take_own
from ascend_doctor.diagnosis.working import counts_on
from ascend_doctor.patterns import compile_beside

MAX_ROWS, _MAX_MESSAGE_ROWS = 400, 12
OTHER = "python-exception"

# Names with - are answers by type.
IS = compile_beside(__file__)
_HEAD = "Traceback (most recent call last)"
_DIRECT, _DURING = "The above exception was the direct", "During handling of the above"


@dataclass(frozen=True, kw_only=True)
class TracebackFrame:
    """``location`` is its file and line."""

    file: str
    location: str = ""
    function: str = ""
    source: str = ""

    @property
    def origin(self) -> str:
        return f", from {self.location}" if self.file else ""

    @property
    def package(self) -> str:
        """Below site-packages; else ""."""
        match = IS["site"].match(self.file)
        return match["package"].removesuffix(".py") if match else ""

    @property
    def is_standard(self) -> bool:
        return IS["packages"].match(self.file) is not None and not self.package

    @property
    def passes_on(self) -> bool:
        """Of the standard library, of no file, or a lookup."""
        looked_up = self.file.startswith("<") or IS["lookups"].fullmatch(self.function)
        return self.is_standard or bool(looked_up)


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An exception, or one ``replaced``; ``callers`` are the frames of those that it caused."""

    type: str
    message: str
    frames: tuple[TracebackFrame, ...] = ()
    replaced: bool = False
    wraps: str = ""
    outer: str = ""
    callers: tuple[TracebackFrame, ...] = ()

    @property
    def name(self) -> str:
        return self.type.rpartition(".")[2]

    @property
    def own(self) -> list[TracebackFrame]:
        return [frame for frame in self.frames if not frame.passes_on]

    @property
    def body(self) -> TracebackFrame | None:
        """The innermost line that a package ran at its import."""
        own = [frame for frame in self.frames if not frame.file.startswith("<frozen importlib")]
        entered = [frame.file.endswith("__init__.py") for frame in own[:1]]
        entered += [caller.function != "_run_code" for caller in own]
        ran = [row for row in compress(own, entered) if row.package and row.function == "<module>"]
        return ran[-1] if ran else None

    @property
    def escaped(self) -> bool:
        """Whether its frames begin where a program does."""
        return any(IS["starts"].fullmatch(frame.function) for frame in self.frames[:1])

    @property
    def python(self) -> str:
        """The interpreter, by where packages lie."""
        framed = (frame.file for frame in (*self.frames, *self.callers))
        for file in (*framed, *IS["file"].findall(self.message)):
            match = IS["packages"].match(file)
            if match and IS["site"].match(file) and not match["prefix"].endswith("/.local"):
                name = match["python"] if match["prefix"] == "/usr" else "python"
                return f"{match['prefix']}/bin/{name}"
        return "python"


def strip_margin(row: str) -> str:
    return IS["margin"].sub("", row, count=1) if IS["margin"].match(row) else row


def ends_traceback(text: str, before: str) -> bool:
    rows = before.rstrip("\r\n").rsplit("\n", 3)[-2:]
    framed = any('File "' in row or IS["marks"].search(row) for row in rows)
    return (
        framed
        and IS["last"].fullmatch(text) is not None
        and text[:5] != "File "
        and text[-1] != ")"
    )


def parse(last: str, before: Sequence[str], after: Sequence[str]) -> Raised:
    """The exception that begins with ``last``, among lines of its process."""
    if crash := IS["crash"].match(last):
        return _parse_crash(crash, after)
    match = IS["last"].match(last)
    if match is None:
        return Raised(type=last, message="")
    above, rest = ([strip_margin(row) for row in rows] for rows in (before, after))
    # What a rank prints before an error, others print behind it.
    printed = {*takewhile(lambda row: _HEAD not in row, above)}
    if is_mixed(above):
        above, rest = take_own(above, last, rest)
    rows, wraps, around = _own_rows(above, last)
    frames, name = tuple(_frames(rows)), match["type"].rpartition(".")[2]
    more = list(_continue(rest, printed)) if match["message"] is not None else []
    rest = rest[len(more) :]
    # pytest's innermost frame is behind the exception.
    behind = [frame for frame in _frames(rest[:30]) if frame.function == name][:1]
    rest = rest if not behind else [*dropwhile(lambda row: not _links(row), rest[:30]), *rest[30:]]
    link = next(filter(str.strip, rest), "")
    return Raised(
        type=match["type"],
        message="\n".join([match["message"] or "", *more]).strip(),
        frames=(*frames, *behind),
        # A worker's traceback is in the message. Python ignores what __del__ raises.
        replaced=(link.startswith(_DURING) and _is_probe(match["type"], frames, link))
        or link.find(_HEAD) > 0
        or any(", in __del__" in row for row in rows[:1]),
        wraps=wraps,
        outer=next(filter(_is_last, rest), "") if _links(link) else "",
        callers=(*chain(*[*_outer_frames(rest)][::-1]), *_frames(around)),
    )


def _outer_frames(rest: Sequence[str]) -> Iterator[list[TracebackFrame]]:
    """Of each exception that follows in a chain."""
    while _links(next(filter(str.strip, rest), "")):
        rows = [*takewhile(lambda row: not _is_last(row), rest)]
        yield [*_frames(rows)]
        rest = rest[len(rows) + 1 :]
        rest = rest[len([*_continue(rest)]) :]


def _parse_crash(crash: re.Match[str], after: Sequence[str]) -> Raised:
    """What ended native code, with faulthandler's frames."""
    what = next((row for row in after[:3] if "what():" in row), "").partition("what():")[2].strip()
    rows = dropwhile(lambda row: "(most recent call first)" not in row, after)
    rows = dropwhile(lambda row: not IS["frame"].match(row), rows)
    frames = (*reversed([*_frames([*takewhile(IS["frame"].match, rows)])]),)
    message = what if crash["type"] else crash[crash.lastindex or 0] if frames else ""
    return Raised(type=crash["type"] or "Fatal Python error", message=message, frames=frames)


def _own_rows(before: Sequence[str], last: str) -> tuple[Sequence[str], str, Sequence[str]]:
    """The rows of the last traceback, what caused it, and the rows that it is quoted in."""
    heads = [number for number, row in enumerate(before) if _HEAD in row or IS["test"].match(row)]
    if not heads:
        # A SyntaxError of the started file has none, and a progress bar may be before one.
        indented = sum(1 for _ in takewhile(lambda row: row[:1].isspace(), reversed(before)))
        return before[-max(indented, 6) :], "", ()
    head = heads[-1]
    links = (number for number in range(len(before) - 1, -1, -1) if _links(before[number]))
    link = next(links, -1)
    begin = max([above for above in heads if above < max(head, link)], default=-1)
    if link < 0 or any(row.strip() for row in before[link + 1 : head]):
        quoted = head > 0 and _is_last(before[head - 1])
        return before[head + 1 :], "", before[begin + 1 : head] if quoted else ()
    inner = before[begin + 1 : link]
    above = next(filter(_is_last, reversed(inner)), "")
    looked_up = _is_probe(above.partition(":")[0], tuple(_frames(inner)), before[link])
    return before[max(head, link) + 1 :], "" if looked_up and above != last else above, ()


def _is_probe(name: str, frames: Sequence[TracebackFrame], link: str) -> bool:
    """Whether who handles it had looked something up itself."""
    own = [frame for frame in frames if not frame.passes_on]
    probe = IS["probes"].fullmatch(name.rpartition(".")[2]) and len(own) <= 1
    # Of imports, the first says more if both failed.
    return bool(probe) and (link.startswith(_DURING) or not name.endswith(("tError", "dError")))


def _links(row: str) -> bool:
    return row.startswith((_DIRECT, _DURING))


def _is_last(row: str) -> bool:
    return row[:1].isalpha() and IS["last"].match(row) is not None and not IS["frame"].match(row)


def _continue(after: Sequence[str], printed: Collection[str] = ()) -> Iterator[str]:
    for row in after[:_MAX_MESSAGE_ROWS]:
        ends = not row.strip() or _HEAD in row or _links(row) or row in printed
        if (
            ends
            or IS["record"].match(row.lstrip())
            or IS["frame"].match(row)
            or counts_on([(0, row)])
        ):
            return
        yield row.rstrip()


def _frames(rows: Sequence[str]) -> Iterator[TracebackFrame]:
    for number, row in enumerate(rows):
        match = IS["frame"].match(row)
        if match is None:
            continue
        below = rows[number + 1] if number + 1 < len(rows) else ""
        source = below.strip()
        if match["test"] and not below.startswith(" "):
            # pytest marks the source above
            marked = [above for above in rows[:number] if above.startswith(">")]
            source = marked[-1][1:].strip() if marked else source
        file = match["file"] or match["test"]
        yield TracebackFrame(
            file=file,
            location=f"{file}:{match['line'] or match['row']}",
            function=match["function"] or match["called"] or "",
            source="" if IS["frame"].match(source) or IS["marks"].match(source) else source,
        )
