"""What a gate expects of a machine: ``npus=8``, ``cann>=8.5.0``, ``links=up``."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.versions import Scheme, VersionError, check_range, normalised
from ascend_doctor.patterns import defer

# Checks of expectations; users cannot leave out or acknowledge them.
NPUS, SOC, LINKS, VERSIONS = "expected-npus", "expected-soc", "expected-links", "expected-versions"
CHECKS = (NPUS, SOC, LINKS, VERSIONS)


class Key(NamedTuple):
    """``component`` is a row of the matrix, "" if none."""

    check: str
    component: str = ""
    scheme: Scheme = "pep440"


KEYS: dict[str, Key] = {
    "npus": Key(NPUS),
    "soc": Key(SOC),
    "links": Key(LINKS),
    "driver": Key(VERSIONS, "driver", "ascend"),
    "firmware": Key(VERSIONS, "firmware", "ascend"),
    "cann": Key(VERSIONS, "cann", "ascend"),
    "nnal": Key(VERSIONS, "nnal", "ascend"),
    "python": Key(VERSIONS, "python"),
    "megatron": Key(VERSIONS, "megatron-core"),
    "mindspeed": Key(VERSIONS, "mindspeed", "ref"),
    **{
        name: Key(VERSIONS, name)
        for name in (
            *("torch", "torch-npu", "mcore-bridge", "ms-swift", "verl", "twinkle", "transformers"),
            *("peft", "numpy", "triton-ascend", "vllm", "vllm-ascend", "glibc"),
        )
    },
}
_ALIASES = {"megatron-core": "megatron", "megatron-lm": "megatron", "npu": "npus", "link": "links"}
_PARTS = defer(r"\s*([A-Za-z][\w.-]*)\s*(==|!=|>=|<=|=|>|<)\s*([^\s<>=!](?:.*\S)?)\s*")
_EQUALITY = ("=", "!=")
# Messages repeat it.
_LONGEST = 100


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """``operator`` is =, !=, >=, <=, > or <; ``value`` a number, a version, a chip, or up."""

    key: str
    operator: str
    value: str

    @property
    def text(self) -> str:
        return f"{self.key}{self.operator}{self.value}"

    @property
    def check(self) -> str:
        return KEYS[self.key].check

    @property
    def versions(self) -> str:
        """The range of versions, as ``versions.satisfies`` takes it."""
        return f"{'==' if self.operator == '=' else self.operator}{self.value}"


def parse(text: str) -> Expectation:
    """Raises DataError with the fault and the keys."""
    shown = text[:_LONGEST]
    match = _PARTS.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        quoted = f"; in a shell quote it: '{shown}>=…'" if normalised(text) in KEYS else ""
        raise DataError(
            f"{shown!r}: wanted KEY=VALUE or KEY>=VALUE, such as npus=8{quoted}; {_keys()}"
        )
    key = normalised(match[1])
    expectation = Expectation(
        key=_ALIASES.get(key, key), operator="=" if match[2] == "==" else match[2], value=match[3]
    )
    if expectation.key not in KEYS:
        raise DataError(f"{shown!r}: no such key; {_keys()}")
    _check_value(expectation)
    return expectation


def _keys() -> str:
    return f"the keys are {', '.join(KEYS)}"


def _check_value(expectation: Expectation) -> None:
    if expectation.check == NPUS and not re.fullmatch(r"[0-9]{1,5}", expectation.value):
        raise DataError(f"{expectation.text!r}: npus takes a number, as npus=8")
    if expectation.check == LINKS and (expectation.operator, expectation.value) != ("=", "up"):
        raise DataError(f"{expectation.text!r}: links=up is all that can be expected of links")
    if expectation.check == SOC and expectation.operator not in _EQUALITY:
        raise DataError(f"{expectation.text!r}: chips have no order; soc takes = and !=")
    if expectation.check == VERSIONS:
        try:
            check_range(KEYS[expectation.key].scheme, expectation.versions)
        except VersionError as error:
            raise DataError(f"{expectation.text!r}: {error}") from error


def parse_expectations(texts: Iterable[str], where: str) -> tuple[Expectation, ...]:
    """Raises DataError that names ``where`` the bad one is."""
    return tuple(
        _parse_expectation(text, where.format(number)) for number, text in enumerate(texts)
    )


def _parse_expectation(text: str, where: str) -> Expectation:
    try:
        return parse(text)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def over(*sources: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """The effective expectations of several sources: for each key, the last source's."""
    by_key: dict[str, tuple[Expectation, ...]] = {}
    for source in sources:
        for key in {expectation.key for expectation in source}:
            by_key[key] = tuple(expectation for expectation in source if expectation.key == key)
    return tuple(expectation for key in KEYS for expectation in by_key.get(key, ()))
