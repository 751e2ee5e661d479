"""Help and usage in the chosen language, and the option that chooses it.

click reads the texts of commands once, in English; here they are put into the language while a page
is written.
"""

from collections.abc import Iterable
from typing import Any

import click

from ascend_doctor import language
from ascend_doctor.language import say
from ascend_doctor.render import columns

_NOTE = "  ["
DEFAULT = "default: "
_GAP = 2
# As click has it; on a narrow page a third of it.
_TERM_LONGEST = 30
_TERM_SHORTEST = 13
# click's page is at most 80 wide; below 30 no help is readable.
_WIDEST, _NARROWEST = 80, 30
_CODES = "Exit codes"


class _HelpPage(click.HelpFormatter):
    def __init__(
        self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None
    ) -> None:
        room = columns.terminal_width(otherwise=80)
        if width is None and room < _WIDEST:  # click takes more room than a narrow one has
            width = max(room - _GAP, _NARROWEST)
        super().__init__(indent_increment, width, max_width)

    def write_heading(self, heading: str) -> None:
        super().write_heading(say(heading))

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or f"{say('Usage')}: ")

    def write_text(self, text: str) -> None:
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write_paragraph()
            codes = paragraph.removeprefix("\b\n").startswith(_CODES)
            verbatim = paragraph.startswith("\b") and not codes
            verbatim_text = paragraph.removeprefix("\b\n")
            translation = say(verbatim_text if verbatim else " ".join(paragraph.split()))
            if codes:
                # The codes are a list in one paragraph; Chinese joins lines without a blank.
                blank = " " if language.current() == "en" else ""
                translation = say(verbatim_text).replace("\n", blank)
            if language.current() == "en":
                super().write_text(translation if codes else paragraph)
                continue
            for row in (
                translation.split("\n")
                if verbatim
                else columns.wrap(translation, self.width - self.current_indent)
            ):
                self.write(" " * self.current_indent + row + "\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = _TERM_LONGEST, col_spacing: int = _GAP
    ) -> None:
        rows = list(rows)
        col_max = min(col_max, max(self.width // 3, _TERM_SHORTEST))
        if language.current() == "en":
            super().write_dl(rows, col_max, col_spacing)
            return
        first = min(max((columns.width(term) for term, _ in rows), default=0), col_max) + _GAP
        for term, text in rows:
            head = " " * self.current_indent + term
            lines = columns.wrap(_say_option(text), self.width - first - self.current_indent)
            if columns.width(term) > first - _GAP:
                self.write(head + "\n")
                head = ""
            for line in lines or [""]:
                self.write(columns.pad(head, first + self.current_indent) + line + "\n")
                head = ""


def _say_option(text: str) -> str:
    words, *notes = text.split(_NOTE)
    return _NOTE.join([say(words), *map(_say_note, notes)])


def _say_note(text: str) -> str:
    value = text.rstrip("]").removeprefix(DEFAULT)
    if value == text.rstrip("]"):
        return text
    return f"{say('default')}: {say(value)}]"


class _SpeakingContext(click.Context):
    formatter_class = _HelpPage


def _choose(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value:
        language.choose(value)


def speak(command: click.Command) -> click.Command:
    """The command with the option of the language, and help in it."""
    command.context_class = _SpeakingContext
    if not any(parameter.name == "lang" for parameter in command.params):
        command.params.append(_option())
    return command


def _option() -> Any:
    return click.Option(
        ["--lang"],
        type=click.Choice(language.LANGUAGES),
        expose_value=False,
        is_eager=True,
        callback=_choose,
        help="Language of what people read.  [default: that of the locale]",
    )
