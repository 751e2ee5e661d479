"""Reads Python's tracebacks: the exception of a process, its whole message, and its frames."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ascend_doctor.diagnosis.working import counts_on

MAX_ROWS, _MAX_MESSAGE_ROWS = 400, 12
OTHER = "python-exception"

_FRAME = re.compile(
    r'\s{0,8}File "(?P<file>[^"]{1,512})", line (?P<line>\d{1,7})(?:, in (?P<function>.{1,200}))?'
    r"|(?P<test>[\w./-]{1,512}\.py):(?P<row>\d{1,7}): (?:in )?(?P<raised>\S{1,200})$"
)
# In front of a line of an exception group, and of pytest's exceptions.
_MARGIN = re.compile(r"(?:\s*\|\s)+|E\s{3,}")
_HEAD = "Traceback (most recent call last)"
_DIRECT, _DURING = "The above exception was the direct", "During handling of the above"
# A compiler's lines have marks, too.
_LAST = re.compile(
    r"(?!\S{1,512}:\d+:\d+: )(?P<type>[A-Za-z_][\w.]{0,160})(?:\(\w+\))?(?:: ?(?P<message>.*)|:?$)"
)
_RECORD = re.compile(r"\[?\d{4}-\d\d-\d\d|[IWEF]\d{4} |\[(?:INFO|WARN|ERROR|DEBUG)|={5}|-{5}|\+-")
_MARKS = re.compile(r"\s*[~^]+\s*$")
# What is only looked up: the exception raised in its stead says more; of imports if both failed.
_PROBES = ("KeyError", "AttributeError", "StopIteration", "IndexError", "Empty", "ImportError",
           "ModuleNotFoundError")  # fmt: skip
_PACKAGES = re.compile(r"(?P<prefix>[\w./+-]*?)/lib(?:64)?/(?P<python>python3(?:\.\d+)?)/")
_SITE = re.compile(
    r"(?:^.*(?:site|dist)-packages/|(?=\w.*\.p(?:yx|xi)$))(?P<package>\w[\w.-]*)(?:/|$)"
)
_FILE = re.compile(r"/[\w./+-]+")
_LOOKUPS = frozenset({"__getattr__", "__getattribute__"})
# Where a program, a process or a thread begins.
_STARTS = frozenset({"<module>", "_bootstrap", "_bootstrap_inner", "_run_module_as_main", "_wrap"})


@dataclass(frozen=True, kw_only=True)
class TracebackFrame:
    """``location`` is its file and line."""

    file: str
    location: str
    function: str
    source: str

    @property
    def package(self) -> str:
        """The folder or module below site-packages; "" elsewhere."""
        match = _SITE.match(self.file)
        return match["package"].removesuffix(".py") if match else ""

    @property
    def passes_on(self) -> bool:
        """Of the standard library, of no file, or a lookup on behalf of the caller."""
        inside = _PACKAGES.match(self.file) is not None and not self.package
        return inside or self.file.startswith("<") or self.function in _LOOKUPS


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An exception; ``replaced`` by one that says more, with the lines inside and outside.

    ``callers``: the frames of the one that it caused.
    """

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
    def escaped(self) -> bool:
        """Whether its frames begin where a program does."""
        return bool(self.frames) and self.frames[0].function in _STARTS

    @property
    def python(self) -> str:
        """The interpreter, by where packages lie; the standard library may be of another one."""
        framed = (frame.file for frame in (*self.frames, *self.callers))
        for file in (*framed, *_FILE.findall(self.message)):
            match = _PACKAGES.match(file)
            if match and _SITE.match(file) and not match["prefix"].endswith("/.local"):
                name = match["python"] if match["prefix"] == "/usr" else "python"
                return f"{match['prefix']}/bin/{name}"
        return "python"


def strip_margin(row: str) -> str:
    return _MARGIN.sub("", row, count=1) if _MARGIN.match(row) else row


def ends_traceback(text: str, before: str) -> bool:
    rows = before.rstrip("\r\n").rsplit("\n", 3)[-2:]
    framed = any('File "' in row or _MARKS.search(row) for row in rows)
    return framed and _LAST.fullmatch(text) is not None and not text.startswith("File ")


def parse(last: str, before: Sequence[str], after: Sequence[str]) -> Raised:
    """The exception of which ``last`` is the first line, among other lines of its process."""
    match = _LAST.match(last)
    if match is None:
        return Raised(type=last, message="")
    rows, wraps = _own_rows([strip_margin(row) for row in before])
    rest = [strip_margin(row) for row in after]
    more = list(_continue(rest)) if match["message"] is not None else []
    rest = rest[len(more) :]
    link = next(filter(str.strip, rest), "")
    chained = link.startswith((_DIRECT, _DURING))
    # pytest prints the innermost frame behind the exception.
    behind = [row for row in rest[:30] if row[:1] != " "]
    return Raised(
        type=match["type"],
        message="\n".join([match["message"] or "", *more]).strip(),
        frames=tuple(_frames(rows)) or tuple(_frames(behind))[:1],
        # A worker's traceback is a part of the message. Python ignores what __del__ raises.
        replaced=(match["type"].rpartition(".")[2] in _PROBES and link.startswith(_DURING))
        or link.find(_HEAD) > 0
        or any(", in __del__" in row for row in rows[:1]),
        wraps=wraps,
        outer=next(filter(_is_last, rest), "") if chained else "",
        callers=tuple(_frames([*takewhile(_goes_on, rest)])) if chained else (),
    )


def _own_rows(before: Sequence[str]) -> tuple[Sequence[str], str]:
    heads = (number for number in range(len(before) - 1, -1, -1) if _HEAD in before[number])
    if (head := next(heads, None)) is None:
        # A SyntaxError has none where Python was started with the file.
        return before[-6:], ""
    link = next((row for row in reversed(before[:head]) if row.strip()), "")
    if not link.startswith((_DIRECT, _DURING)):
        return before[head + 1 :], ""
    above = next(filter(_is_last, reversed(before[:head])), "")
    probes = _PROBES if link.startswith(_DURING) else _PROBES[:-2]
    name = above.partition(":")[0].rpartition(".")[2]
    return before[head + 1 :], "" if name in probes else above


def _is_last(row: str) -> bool:
    return row[:1].isalpha() and _LAST.match(row) is not None


def _goes_on(row: str) -> bool:
    return not _is_last(row)


def _continue(after: Sequence[str]) -> Iterator[str]:
    for row in after[:_MAX_MESSAGE_ROWS]:
        ends = not row.strip() or _HEAD in row or row.startswith((_DIRECT, _DURING))
        if ends or _RECORD.match(row) or _FRAME.match(row) or counts_on([(0, row)]):
            return
        yield row.rstrip()


def _frames(rows: Sequence[str]) -> Iterator[TracebackFrame]:
    for number, row in enumerate(rows):
        match = _FRAME.match(row)
        if match is None:
            continue
        source = rows[number + 1].strip() if number + 1 < len(rows) else ""
        if match["test"]:  # pytest shows the source above, behind a mark
            marked = [above for above in rows[:number] if above.startswith(">")]
            source = marked[-1][1:].strip() if marked else source
        file = match["file"] or match["test"]
        yield TracebackFrame(
            file=file,
            location=f"{file}:{match['line'] or match['row']}",
            function=match["function"] or "",
            source="" if _FRAME.match(source) or _MARKS.match(source) else source,
        )
