"""The language of what people read.

Code and what programs read are English; ``say`` gives a text for people in the chosen language. The
catalogue, one .po file a language, has ``{0}``, ``{1}`` for slots of an f-string. A text that is
not in it stays English.
"""

import functools
import operator
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ascend_doctor.patterns import defer

LANGUAGES = ("en", "zh")
_CATALOGUES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "locale")
_SLOT = defer(r"\{(\d+)\}")
_SEPARATORS = (("\n", "\n"), ("; ", "\uff1b"), (", ", "\uff0c"))
_SPECIFIC = 20
_SEVERAL = defer(r"[:;] |\n")
_COUNT = defer(
    r"\{0\} (?:of \{1\} )?(?!.*\b(?:is|are|was|were|came|did|does|do|has|have|may|not|cannot|be)\b)"
    r"(?:[a-z -]+|[A-Z]{2,}s?)"
)
_NUMBERED = defer(r"(?:devices?|ranks?|node) \{0\}")
_WORDS = defer(r"[A-Za-z]{2}")
# The same in both languages: sizes of layouts, identifiers, versions.
_SAME = defer(r"(?:bfloat16 )?[A-Z]+\d+(?: [A-Z]+\d+)*|[\w.]*[_\d][\w.]*")
_FILE = defer(r"[\w/~+-]*[./][\w./~+-]*(?::\d+)?")
_FILES = defer(rf"; (?={_FILE.pattern}: )")
_LONGEST = 2_000


class Template(NamedTuple):
    """A text with slots, the longest part between them, and the translation."""

    text: str
    part: str
    translation: str

    def match(self, text: str) -> re.Match[str] | None:
        return _pattern(self.text).fullmatch(text) if self.part in text else None

    def stretches(self, match: re.Match[str]) -> bool:
        if _SEVERAL.search(self.text) or len(_SLOT.sub("", self.text)) > _SPECIFIC:
            return False
        return any(_SEVERAL.search(value) for value in match.groups())


class Match(NamedTuple):
    template: Template
    slots: re.Match[str]


class Dictionary(NamedTuple):
    """A catalogue in use; the first matching template is the most exact."""

    exact: Mapping[str, str]
    templates: tuple[Template, ...]

    def say(self, text: str) -> str:
        """The text, or its statements about several files, translated if known."""
        about = [text] if text in self.exact else _FILES.split(text)
        translations = [self._say(part) for part in about]
        return text if translations == about else "\uff1b".join(translations)

    def form(self, text: str) -> str:
        translations = (known.translation for known in self.templates if known.text == text)
        return next(translations, text)

    def _say(self, text: str) -> str:
        if len(text) > _LONGEST or not _WORDS.search(text):
            return self.exact.get(text, text)
        if known := self._sentences(text):
            return known
        for colon in reversed([match.start() for match in re.finditer(": ", text)]):
            if (head := text[:colon]) in self.exact:
                return f"{self.exact[head]}\uff1a{self.say(text[colon + 2 :])}"
        for stop in re.finditer(r"\. ", text):
            head, tail = text[: stop.start()], self._sentences(text[stop.end() :])
            if tail and (translation := self.say(head)) != head:
                return f"{translation}\u3002{tail}"
        last: Match | None = None
        for template in self.templates:
            if match := template.match(text):
                if not template.stretches(match):
                    return self._fill(Match(template, match))
                last = last or Match(template, match)
        parts = self._parts(text)
        return parts if parts != text or last is None else self._fill(last)

    def _sentences(self, text: str) -> str:
        if text in self.exact:
            return self.exact[text]
        for stop in re.finditer(r"\. ", text):
            head, tail = text[: stop.start() + 1], text[stop.end() :]
            if head in self.exact and (translation := self._sentences(tail)):
                return self.exact[head] + translation
        return ""

    def _fill(self, match: Match) -> str:
        values = {name: self._value(value) for name, value in match.slots.groupdict().items()}
        return _SLOT.sub(lambda slot: values[f"_{slot[1]}"], match.template.translation)

    def _parts(self, text: str) -> str:
        for colon in reversed([match.start() for match in re.finditer(": ", text)]):
            head, tail = text[:colon], text[colon + 2 :]
            # A colon inside of parentheses parts nothing.
            if head.count("(") > head.count(")"):
                continue
            if (title := self.say(head)) != head or tail in self.exact:
                return f"{title}\uff1a{self.say(tail)}"
            if _FILE.fullmatch(head) and (why := self.say(tail)) != tail:
                return f"{head}\uff1a{why}"
        for separator, join in _SEPARATORS:
            parts = self._split(text, separator)
            if len(parts) > 1:
                translation = [self.say(part) for part in parts]
                changed = [new != old for new, old in zip(translation, parts, strict=True)]
                enough = any(changed)
                # Half of a list in another language reads worse than none of it.
                if separator == ", ":
                    known = [part in self.exact or bool(_SAME.fullmatch(part)) for part in parts]
                    enough &= all(map(operator.or_, changed, known))
                return join.join(translation) if enough else text
        return text

    def _split(self, text: str, separator: str) -> list[str]:
        items: list[str] = []
        for part in text.split(separator):
            joined = f"{items[-1]}{separator}{part}" if items else ""
            if joined in self.exact:
                items[-1] = joined
            else:
                items.append(part)
        return items

    def _value(self, text: str) -> str:
        title = text[:1].upper() + text[1:]
        return self.say(text if text in self.exact or title not in self.exact else title)


_chosen: list[str] = ["en"]


def choose(language: str) -> None:
    _chosen[0] = language if language in LANGUAGES else "en"


def current() -> str:
    return _chosen[0]


def of_locale(env: Mapping[str, str]) -> str:
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next((env[name] for name in names if env.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"


def say(text: str) -> str:
    return text if _chosen[0] == "en" else dictionary(_chosen[0]).say(text)


def form(text: str) -> str:
    """A text of the catalogue with its slots, for a page's script to fill."""
    return text if _chosen[0] == "en" else dictionary(_chosen[0]).form(text)


@functools.cache
def dictionary(language: str) -> Dictionary:
    with open(os.path.join(_CATALOGUES, f"{language}.po"), encoding="utf-8") as file:
        return make_dictionary(dict(read_catalogue(file.read())))


def make_dictionary(messages: Mapping[str, str]) -> Dictionary:
    exact = {
        text: translation
        for text, translation in messages.items()
        if translation and not _SLOT.search(text)
    }
    slotted = [
        row for row in messages.items() if row[1] not in {"", row[0]} and _SLOT.search(row[0])
    ]
    # The most letters first: the more exact of two matching forms.
    slotted.sort(key=lambda row: -len(_SLOT.sub("", row[0])))
    templates = (
        Template(text, max(_SLOT.split(text)[::2], key=len), translation)
        for text, translation in slotted
    )
    return Dictionary(exact, tuple(templates))


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    literals = _SLOT.split(text)[::2]
    parts, seen = [re.escape(literals[0])], set()
    for number, literal in zip(_SLOT.findall(text), literals[1:], strict=True):
        kind = r"\d[\d,]*(?: or more)?" if _COUNT.fullmatch(text) else ".*?"
        kind = r"\d[\d, -]*" if _NUMBERED.fullmatch(text) else kind
        slot = f"(?P=_{number})" if number in seen else f"(?P<_{number}>{kind})"
        seen.add(number)
        parts += [slot, re.escape(literal)]
    return re.compile("".join(parts), re.DOTALL)


def read_catalogue(text: str) -> Iterator[tuple[str, str]]:
    """The messages of a .po file with their translations, without fuzzy ones."""
    for block in text.split("\n\n"):
        if "\n#, fuzzy" in f"\n{block}":
            continue
        parts: dict[str, list[str]] = {}
        rows: list[str] = []
        for line in block.split("\n"):
            keyword, quote, rest = line.partition('"')
            if not quote or line.startswith("#"):
                continue
            if keyword:
                rows = parts.setdefault(keyword.strip(), [])
            # Few lines have escapes, and a slice is much faster.
            rows.append(_unescape(quote + rest) if "\\" in rest else rest[:-1])
        if message := "".join(parts.get("msgid", ())):
            yield message, "".join(parts.get("msgstr", ()))


def _unescape(quoted: str) -> str:
    import json

    text: str = json.loads(quoted)
    return text
