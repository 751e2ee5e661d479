"""Lines for a person at a terminal: width, colour, marks and fields of every text page."""

from typing import Any

from click import style

from ascend_doctor import language
from ascend_doctor.findings import Level
from ascend_doctor.render import columns
from ascend_doctor.render.manual import link, page_of
from ascend_doctor.render.plain import lines, one_line, without_command

# Symbols differ in shape and colour; the second is for terminals without Unicode.
MARKS: dict[Level, tuple[str, str, dict[str, Any]]] = {
    Level.ERROR: ("✗", "x", {"fg": "red", "bold": True}),
    Level.UNKNOWN: ("?", "?", {"fg": "magenta", "bold": True}),
    Level.WARNING: ("!", "!", {"fg": "yellow", "bold": True}),
    Level.OK: ("✓", "+", {"fg": "green"}),
    Level.SKIPPED: ("·", "-", {"dim": True}),
}
# Lines overflow on a narrower terminal, which reads better than a word a line.
_NARROWEST = 40
# The least room beside a deep indentation.
_ROOM = 20


class Page:
    """Rows of one text. ``width`` is in columns; ``label`` is the room of a field's name.

    Texts of a row go through ``wrap`` or ``plain.one_line``.
    """

    def __init__(self, *, color: bool, width: int, ascii_only: bool, label: int) -> None:
        self.rows: list[str] = []
        self.separator = " - " if ascii_only else " · "
        self._color = color
        self.width = max(width, _NARROWEST)
        self.ascii_only = ascii_only
        self._label = label

    @property
    def text(self) -> str:
        """All rows; with only ASCII the rest as escapes."""
        text = "\n".join(without_command(row.rstrip()) for row in self.rows) + "\n"
        return text.encode("ascii", "backslashreplace").decode() if self.ascii_only else text

    def styled(self, text: str, **how: Any) -> str:
        return style(text, **how) if self._color else text

    def say(self, text: str) -> str:
        """The text in the chosen language, if its letters are available."""
        return text if self.ascii_only else language.say(text)

    def say_items(self, text: str) -> str:
        """A list in the chosen language; items that it lacks stay."""
        return ", ".join(map(self.say, text.split(", ")))

    def mark(self, level: Level) -> str:
        fancy, simple, _ = MARKS[level]
        return self.leveled(level, simple if self.ascii_only else fancy)

    def leveled(self, level: Level, text: str) -> str:
        return self.styled(text, **MARKS[level][2])

    def wrap(self, text: str, indent: int) -> list[str]:
        """A text's lines in the remaining width; the first is not indented."""
        room = max(self.width - indent, _ROOM)
        parts = [part for line in lines(text) for part in columns.wrap(line, room) or [""]]
        return [parts[0], *(" " * indent + part for part in parts[1:])]

    def title(self, level: Level, text: str, check: str, *, indent: int = 0) -> None:
        """A title, and at the right edge, or below without room, the check's id."""
        blank = " " * indent
        first, *more = self.wrap(one_line(self.say(text)), indent + 2)
        weight = self.styled(first, bold=True) if indent == 0 else first
        self.rows += [f"{blank}{self.mark(level)} {weight}", *more]
        last = (more or [f"{blank}  {first}"])[-1]
        room = self.width - columns.width(last) - columns.width(check)
        if room > 1:
            address = page_of(check) if self._color else ""
            self.rows[-1] += " " * room + link(self.styled(check, dim=True), address)
        else:
            self.dim(f"{blank}  " + f"\n{blank}  ".join(self.wrap(check, indent + 2)))

    def field(self, label: str, text: str) -> None:
        self.quote(label, self.say(text))

    def quote(self, label: str, text: str) -> None:
        """A name and a text of others, unchanged."""
        name = f"  {columns.pad(self.say(label), self._label)}"
        first, *rest = self.wrap(text, columns.width(name))
        self.rows += [self.styled(name, dim=True) + first, *rest]

    def dim(self, text: str, indent: int = 0) -> None:
        self.rows += [self.styled(row, dim=True) for row in self.wrap(text, indent)]

    def pseudonyms(self, what: str = "Names and addresses") -> None:
        self.dim(self.say(f"{what} are pseudonyms; --no-redact shows them."))
