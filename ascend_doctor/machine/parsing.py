"""YAML, JSON and Python that anybody may have written: within limits, and never run."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.syntax import describe_json, describe_yaml, locate

if TYPE_CHECKING:
    from yaml.events import Event

T = TypeVar("T")

YAML_BYTES = 32 << 20
JSON_BYTES = 256 << 20
_DEPTH = 100
_NODES = 1_000_000  # with aliases written out
# Python takes quadratic time for long numbers; newer ones refuse more than 4300 digits.
_NUMBER = 100
_DIGITS = frozenset("0123456789_:.+-")


def read_yaml(path: Path) -> Any:
    """The plain values of a YAML file. Raises DataError that names it."""
    return yaml_of(read_bytes(path, YAML_BYTES), str(path))


def yaml_of(data: bytes | str, name: str) -> Any:
    """The plain values of a YAML text. Raises DataError that names it ``name``."""
    import yaml

    text = _text(data, name)
    check_yaml(text, name)
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{name}: {describe_yaml(error, text)}") from error


def _text(data: bytes | str, name: str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: no UTF-8 text (byte {error.start})") from error


def check_yaml(text: str, name: str) -> None:
    """Raises DataError for a text that would crash or stall a builder of its values.

    The parser's events come one by one at any depth. Building values recurses in C without a
    limit, and copies what aliases and merge keys name.
    """
    import yaml

    count = _Count(name)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            count.add(event)
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{name}: {describe_yaml(error, text)}") from error


class _Count:
    """A document's depth, and its size with its aliases written out."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[tuple[str | None, int]] = []  # anchor and nodes so far
        self._sizes: dict[str, int] = {}
        self._size = 0

    def add(self, event: Event) -> None:
        from yaml import events

        anchor = getattr(event, "anchor", None)
        if isinstance(event, events.AliasEvent):
            if any(anchor == name for name, _ in self._open):
                self._reject(event, f"*{anchor} contains itself")
            self._count(event, self._sizes.get(anchor or "", 1))
        elif isinstance(event, events.CollectionStartEvent):
            self._open.append((anchor, self._size))
            self._count(event, 1)
            if len(self._open) > _DEPTH:
                self._reject(event, f"nested more than {_DEPTH} deep")
        elif isinstance(event, events.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor:
                self._sizes[anchor] = self._size - before
        elif isinstance(event, events.ScalarEvent):
            if len(event.value) > _NUMBER and not event.style and _DIGITS.issuperset(event.value):
                self._reject(event, f"a number of {len(event.value)} characters")
            self._count(event, 1)
            if anchor:
                self._sizes[anchor] = 1

    def _count(self, event: Event, nodes: int) -> None:
        self._size += nodes
        if self._size > _NODES:
            self._reject(event, f"more than {_NODES} values, aliases written out")

    def _reject(self, event: Event, what: str) -> None:
        mark = event.start_mark
        where = locate(what, mark.line + 1, mark.column + 1) if mark else what
        raise DataError(f"{self._name}: {where}")


def read_json(path: str | Path, *, limit: int = JSON_BYTES) -> Any:
    """The plain values of a JSON file. Raises DataError that names it."""
    data = read_bytes(path, limit)
    if not data.strip():
        raise DataError(f"{path}: nothing is in it")
    return json_of(data, str(path))


def json_of(data: bytes | str, name: str, shape: type[T] | Any = Any) -> Any:
    """The values of a JSON text, as a ``shape``. Raises DataError that names it ``name``."""
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as error:
        raise DataError(f"{name}: {error}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise DataError(f"{name}: damaged or cut short ({describe_json(error, data)})") from error
    except RecursionError as error:
        raise DataError(f"{name}: nested too deep") from error


def python_of(text: str) -> ast.Module | None:
    """The syntax tree of a Python file; None if it is not Python."""
    try:
        with warnings.catch_warnings():
            # About escapes and comparisons in others' code.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
