"""Structs, mappings and lists, cleaned throughout: keys of mappings as their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ascend_doctor.redact.shapes import BETWEEN

# Names that say what a value is, where the value itself does not.
_TELLS = re.compile(
    "pass|pwd|secret|token|key|cred|auth|cookie|addr|ip|host|node|user|serial|guid|mac|version"
    "|firmware|gateway|server|detect|inet|login|ak$|sk$|sig",
    re.IGNORECASE,
)
_LONGEST = 4096  # of a value whose name says what it is


class RedactedTree:
    """``clean`` makes a text harmless; ``known`` are texts that it was asked for already."""

    def __init__(
        self, clean: Callable[[str], str], known: dict[tuple[str, str], str] | None = None
    ) -> None:
        self._clean = clean
        self._known = {} if known is None else known

    def cleaned(self, value: Any, name: str = "") -> Any:
        """A struct or what JSON may hold; ``name`` is what the value is called."""
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, msgspec.Struct):
            fields = {one: getattr(value, one) for one in value.__struct_fields__}
            told = {one: self.cleaned(each, one) for one, each in fields.items()}
            same = all(told[one] is each for one, each in fields.items())
            return value if same else type(value)(**told)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            new = [self.cleaned(one, name) for one in self._words(value)]
            same = all(one is two for one, two in zip(new, value, strict=True))
            return value if same else tuple(new) if isinstance(value, tuple) else new
        return value

    def _words(self, value: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
        """The words of a command are judged together: what hides one may be the one before it."""
        if len(value) < 2 or not all(isinstance(one, str) for one in value):  # noqa: PLR2004
            return value
        joined = BETWEEN.join(value)
        told = self._clean(joined)
        words = told.split(BETWEEN)
        return words if told != joined and len(words) == len(value) else value

    def _mapping(self, value: dict[Any, Any]) -> dict[Any, Any]:
        told: dict[Any, Any] = {}
        for key, one in value.items():
            first = text = self.cleaned(key)
            number = 2
            while text in told:  # two keys became one
                text, number = f"{first} #{number}", number + 1
            told[text] = self.cleaned(one, key if isinstance(key, str) else "")
        return told

    def _text(self, text: str, name: str) -> str:
        """A text as what its name says that it is: a password, a version, an address."""
        told = self._known.get((name, text))
        if told is None:
            told = self._clean(text)
            if told == text and len(text) < _LONGEST and _TELLS.search(name):
                told = self._called(text, name)
            told = text if told == text else told
            self._known[name, text] = told
        return told

    def _called(self, text: str, name: str) -> str:
        head = f'{name}="'
        whole = self._clean(f'{head}{text}"')
        return whole[len(head) : -1] if whole.startswith(head) and whole.endswith('"') else text


def texts_of(value: Any) -> Iterator[str]:
    """Every text in a value, and what it is called."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for one in value.__struct_fields__:
            yield f'{one}="'
            yield from texts_of(getattr(value, one))
    elif isinstance(value, dict):
        for key, one in value.items():
            if isinstance(key, str):
                yield f'{key}="'
            yield from texts_of(key)
            yield from texts_of(one)
    elif isinstance(value, list | tuple):
        if value and all(isinstance(one, str) for one in value):
            yield BETWEEN.join(value)
        for one in value:
            yield from texts_of(one)
