"""Reads Python's tracebacks: the exception of a process, its whole message, and its frames."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_ROWS = 400
_MAX_MESSAGE_ROWS = 12

# Python's, pytest's and rich's frames.
_FRAME = re.compile(
    r'\s{0,8}File "(?P<file>[^"]{1,512})", line (?P<line>\d{1,7})(?:, in (?P<function>.{1,200}))?'
    r"|[│|]\s(?P<rich>/\S{1,512}\.py):(?P<at>\d{1,7}) in (?P<named>\S{1,200})"
    r"|(?P<test>[\w./-]{1,512}\.py):(?P<row>\d{1,7}): (?:in )?(?P<raised>\S{1,200})$"
)
# In front of a line of an exception group, and of what pytest prints of an exception.
_MARGIN = re.compile(r"(?:\s*\|\s)+|E\s{3,}")
_HEAD = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\)|╭─.{0,80}Traceback")
_DIRECT, _DURING = "The above exception was the direct", "During handling of the above"
# The last line of a traceback, whatever its exception is called.
_LAST = re.compile(
    r"(?P<type>[A-Za-z_][\w.]{0,160})(?:\(\w+\))?(?:: ?(?P<message>.*)|:?$)", re.DOTALL
)
_RECORD = re.compile(
    r"\[?\d{4}-\d\d-\d\d|[IWEF]\d{4} |\[(?:INFO|WARN|ERROR|DEBUG)|={5}|-{5}|\+-|[└╰]"
)
_MARKS = re.compile(r"\s*[~^]+\s*$")
# What is looked up before something else is tried: the exception raised in its stead says more.
# Of imports this holds only where both were tried.
_PROBES = ("KeyError", "AttributeError", "StopIteration", "IndexError", "Empty", "ImportError",
           "ModuleNotFoundError")  # fmt: skip
_PACKAGES = re.compile(r"(?P<prefix>.*?)/lib(?:64)?/(?P<python>python3(?:\.\d+)?)/(?P<rest>.*)")
_SITE = re.compile(r"(?:site|dist)-packages/(?P<package>[^/]+)")


@dataclass(frozen=True, kw_only=True)
class Frame:
    file: str
    line: int
    function: str
    source: str = ""

    @property
    def package(self) -> str:
        """The folder or module below site-packages; "" elsewhere."""
        match = _SITE.search(self.file)
        return match["package"].removesuffix(".py") if match else ""

    @property
    def of_python(self) -> bool:
        """Of the standard library, or of no file."""
        within = _PACKAGES.match(self.file)
        inside = within is not None and not _SITE.search(self.file)
        return inside or self.file.startswith("<")

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An exception; ``replaced`` by one that says more, ``wraps`` the one in front of it."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    replaced: bool = False
    wraps: bool = False

    @property
    def name(self) -> str:
        return self.type.rpartition(".")[2]

    @property
    def escaped(self) -> bool:
        """Whether its frames begin where a program does."""
        return bool(self.frames) and self.frames[0].function in {
            "<module>", "_bootstrap", "_bootstrap_inner", "_run_module_as_main", "_wrap", "",
        }  # fmt: skip

    @property
    def python(self) -> str:
        """The interpreter, by where its packages lie; the standard library may be of another one."""
        for frame in self.frames:
            match = _PACKAGES.match(frame.file)
            if match and _SITE.match(match["rest"]) and not match["prefix"].endswith("/.local"):
                name = match["python"] if match["prefix"] == "/usr" else "python"
                return f"{match['prefix']}/bin/{name}"
        started = next((frame.file for frame in self.frames if "/bin/" in frame.file), "")
        return os.path.join(os.path.dirname(started), "python") if started else "python"


def strip_margin(row: str) -> str:
    match = _MARGIN.match(row)
    return row[match.end() :] if match else row


def ends_traceback(text: str, before: str) -> bool:
    """Whether a line stands where a traceback has its exception."""
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
    message = "\n".join([match["message"] or "", *more]).strip()
    frames = (
        tuple(_frames(rows)) or tuple(_frames([row for row in rest[:30] if row[:1] != " "]))[:1]
    )
    name = match["type"].rpartition(".")[2]
    link = next((row for row in rest[len(more) :] if row.strip()), "")
    return Raised(
        type=match["type"],
        message=message,
        frames=frames,
        replaced=name in _PROBES and link.startswith(_DURING),
        wraps=wraps,
    )


def _own_rows(before: Sequence[str]) -> tuple[list[str], bool]:
    """The rows of the traceback itself, and whether it wraps the exception in front of it."""
    for number in range(len(before) - 1, -1, -1):
        if _HEAD.search(before[number]):
            link = next((row for row in reversed(before[:number]) if row.strip()), "")
            rows = list(before[number + 1 :])
            if not link.startswith((_DIRECT, _DURING)):
                return rows, False
            probes = _PROBES[: None if link.startswith(_DURING) else -2]
            return rows, _name_before(before[:number]) not in probes
    # A SyntaxError has no head where Python was started with the file.
    return list(before[-6:]), False


def _name_before(before: Sequence[str]) -> str:
    """The last exception above a traceback."""
    raised = (
        match["type"]
        for row in reversed(before)
        if row[:1].isalpha()
        and not row.startswith((_DIRECT, _DURING))
        and (match := _LAST.match(row))
    )
    return next(raised, "").rpartition(".")[2]


def _continue(after: Sequence[str]) -> Iterator[str]:
    """The further lines of a message."""
    for row in after[:_MAX_MESSAGE_ROWS]:
        if (
            not row.strip()
            or _HEAD.search(row)
            or _RECORD.match(row)
            or _FRAME.match(row)
            or row.startswith((_DIRECT, _DURING))
        ):
            return
        yield row.rstrip()


def _frames(rows: Sequence[str]) -> Iterator[Frame]:
    for number, row in enumerate(rows):
        match = _FRAME.match(row)
        if match is None:
            continue
        source = rows[number + 1].strip() if number + 1 < len(rows) else ""
        if match["test"]:  # pytest shows the source above, behind a mark
            marked = [above for above in rows[:number] if above.startswith(">")]
            source = marked[-1][1:].strip() if marked else source
        yield Frame(
            file=match["file"] or match["rich"] or match["test"],
            line=int(match["line"] or match["at"] or match["row"]),
            function=match["function"] or match["named"] or "",
            source="" if _FRAME.match(source) or _MARKS.match(source) else source,
        )
