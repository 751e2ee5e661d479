"""What the readers of samples share: how the answer of a parser becomes named facts."""

from collections.abc import Callable
from typing import Any

import msgspec

from ascend_doctor.collect.npu_table import parse_info
from ascend_doctor.collect.vendor_text import parse_pairs
from ascend_doctor.collect.vendor_tool import parse_error

Facts = dict[str, Any]
# Sample names (patterns) and their reader; the first match counts.
Readers = tuple[tuple[str, Callable[[str], Facts]], ...]


def pairs(text: str) -> Facts:
    return dict(reversed(parse_pairs(text)))


def plain(parse: Callable[..., Any], *arguments: Any) -> Callable[[str], Facts]:
    def facts(text: str) -> Facts:
        return dict(msgspec.structs.asdict(parse(text, *arguments)))

    return facts


def value(parse: Callable[[str], Any]) -> Callable[[str], Facts]:
    return lambda text: {"value": parse(text)}


def read_error(text: str) -> Facts:
    """The error's kind, and that no device comes of it."""
    error = parse_error(text)
    return {"kind": error and error.kind, "devices": parse_info(text).devices}
