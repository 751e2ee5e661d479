"""Structs, mappings and lists, cleaned throughout: keys of mappings as their values."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ascend_doctor.patterns import defer
from ascend_doctor.redact.shapes import BETWEEN
from ascend_doctor.redact.values import is_telling
from ascend_doctor.redact.vocabulary import is_strange

# Names that say what an unclear value is.
_TELLS = defer("cred|ip|mac|version|firm|gateway|detect|inet|log")
_LETTERS = defer(r"[^\W\d_]+")
_LONGEST = 4096  # of a value whose name says what it is


class RedactedTree:
    """``clean`` redacts a text; ``known`` are earlier results."""

    def __init__(
        self, clean: Callable[[str], str], known: dict[tuple[str, str], str] | None = None
    ) -> None:
        self._clean = clean
        self._known = {} if known is None else known

    def cleaned(self, value: Any, name: str = "") -> Any:
        """A struct or JSON value; ``name`` is what it is called."""
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            new = [self.cleaned(word, name) for word in self._words(value)]
            same = all(cleaned_word is two for cleaned_word, two in zip(new, value, strict=True))
            return value if same else tuple(new) if isinstance(value, tuple) else new
        return value

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        fields = {field: getattr(value, field) for field in value.__struct_fields__}
        changed = {
            field: cleaned
            for field, each in fields.items()
            if each and (cleaned := self.cleaned(each, _telling(field, each))) is not each
        }
        return type(value)(**{**fields, **changed}) if changed else value

    def _words(self, value: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
        """A command's words are judged together: one may decide on the next."""
        if len(value) <= 1 or not all(isinstance(item, str) for item in value):
            return value
        joined = BETWEEN.join(value)
        cleaned = self._clean(joined)
        words = cleaned.split(BETWEEN)
        return words if cleaned != joined and len(words) == len(value) else value

    def _mapping(self, value: dict[Any, Any]) -> dict[Any, Any]:
        cleaned: dict[Any, Any] = {}
        # As in manifests: {"name": NAME, "value": VALUE}.
        paired = value.get("name", value.get("key"))
        for key, item in value.items():
            first = text = self.cleaned(key)
            number = 2
            while text in cleaned:  # two keys became one
                text, number = f"{first} #{number}", number + 1
            cleaned[text] = self.cleaned(item, _name_of(key, paired))
        return cleaned

    def _text(self, text: str, name: str) -> str:
        cleaned = self._known.get((name, text))
        if cleaned is None:
            cleaned = self._clean(text)
            lowered = name.lower()
            tells = _TELLS.search(lowered) or any(map(is_telling, _LETTERS.findall(lowered)))
            if tells and cleaned == text and len(text) < _LONGEST:
                cleaned = self._clean_by_name(text, name)
            cleaned = text if cleaned == text else cleaned
            self._known[name, text] = cleaned
        return cleaned

    def _clean_by_name(self, text: str, name: str) -> str:
        # Shapes find secrets and addresses by a name before them, as in assignments.
        head = f'{name}="'
        whole = self._clean(f'{head}{text}"')
        return whole[len(head) : -1] if whole.startswith(head) and whole.endswith('"') else text


def _telling(field: str, value: Any) -> str:
    """A field's name, unless its value is a word of software: no field is a password."""
    return "" if isinstance(value, str) and value.isalpha() and not is_strange(value) else field


def _name_of(key: object, paired: object) -> str:
    name = paired if key == "value" else key
    return name if isinstance(name, str) else ""


def texts_of(value: Any) -> Iterator[str]:
    """Every text in a value, and its name, in no order."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            for key, item in each.items():
                yield f'{_name_of(key, each.get("name", each.get("key")))}="'
                left += (key, item)
        elif isinstance(each, list | tuple):
            if each and all(isinstance(item, str) for item in each):
                yield BETWEEN.join(each)
            left += each
        elif isinstance(each, msgspec.Struct):
            for name in each.__struct_fields__:
                if field := getattr(each, name):
                    yield f'{name}="'
                    left.append(field)
