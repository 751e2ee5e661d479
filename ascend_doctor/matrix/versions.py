"""Versions and ranges in the schemes of an Ascend stack: one way to parse, order and test each.

``pep440``: Python packages, pre-releases always count. ``ascend``: CANN, drivers, firmware and
TorchNPU trains (8.2.RC1.alpha001, 24.1.rc1.b030, 9.0.0-beta.2). ``unordered``: Ascend numbers that
count per product and must not be compared, as the drivers of Ascend 950. ``ref``: git refs.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from packaging.version import InvalidVersion, Version

from ascend_doctor.patterns import defer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.specifiers import SpecifierSet

Scheme = Literal["pep440", "ascend", "unordered", "ref"]

_LONGEST = 200
# alpha < beta < rc < final. No source orders T builds and 0day releases; first, they meet no floor.
_STAGES = {"t": 0, "0day": 1, "alpha": 2, "beta": 3, "rc": 4}
# 8.5.0.1 and builds of 8.5.0 follow 8.5.0.
_FINAL, _PATCH, _BUILD = 5, 6, 7
_NAMES = {rank: name for name, rank in _STAGES.items()} | {_BUILD: "b"}
_RELEASE = defer(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")
# What may follow the numbers: RC1, alpha001, T5, B120, SPC1, .0day, or another number.
_TOKEN = defer(
    r"[.-](?P<day>0day)|[.-]?(?P<stage>alpha|beta|rc|t|b|spc)(?:\.?(?P<count>[0-9]{1,9}))?"
    r"|\.(?P<patch>[0-9]{1,9})"
)
_BOUND = defer(r"(>=|<=|==|!=|>|<)\s*(\S+)")
_PLAIN = defer(
    r"\s*(~=(?=\s*\d+\.\d)|>=|<=|==|!=|>|<)\s*([0-9]{1,9}(?:\.[0-9]{1,9})*(?:\.dev0)?)(\.\*)?\s*"
)
_BRACKET = defer(r"\[([^\[\],]+)(?:,([^\[\],]+))?\]\s*(?:,\s*)?")


class VersionError(ValueError):
    """Not a version, or not a range, of its scheme; the message says which and why."""


class Ascend(msgspec.Struct, frozen=True):
    """``release`` are the leading numbers, ``suffix`` pairs of a stage's rank and its number."""

    release: tuple[int, ...]
    suffix: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        numbers = self.release
        # 8.5 equals 8.5.0.
        while len(numbers) > 1 and numbers[-1] == 0:
            numbers = numbers[:-1]
        return numbers, (*self.suffix, (_FINAL, 0))

    def without_build(self) -> Ascend:
        return Ascend(self.release, tuple(part for part in self.suffix if part[0] != _BUILD))

    def within(self, line: Ascend) -> bool:
        """Whether this is ``line`` or a part: 25.2.rc1 and 25.2.0.1 are within 25.2."""
        size = len(line.release)
        if line.suffix:
            same = self.key[0] == line.key[0]
            return same and self.suffix[: len(line.suffix)] == line.suffix
        return (self.release + (0,) * size)[:size] == line.release

    def __str__(self) -> str:
        text = ".".join(map(str, self.release))
        for rank, number in self.suffix:
            text += f".{number}" if rank == _PATCH else f"-{_NAMES[rank]}"
            text += "" if rank == _PATCH or _NAMES[rank] == "0day" else str(number)
        return text


class _Bound(NamedTuple):
    operator: str
    version: Ascend
    line: bool


def parse(scheme: Scheme, text: str) -> Version | Ascend | str:
    """Raises VersionError."""
    if scheme == "pep440":
        return _pep440(text)
    if scheme == "ref":
        return _ref(text)
    return _ascend(text)


def key(scheme: Scheme, text: str) -> tuple[object, ...]:
    """A sort key. Raises VersionError for an invalid version or a scheme without order."""
    if scheme == "pep440":
        return (_pep440(text),)
    if scheme == "ascend":
        return _ascend(text).key
    raise VersionError(f"{text}: versions of the scheme {scheme} have no order")


def numbers(scheme: Scheme, text: str, count: int) -> tuple[int, ...]:
    """The first ``count`` numbers, filled with zeros: (2, 7, 1) of 2.7.1.post4 and of 2.7.1+cpu."""
    parsed = parse(scheme, text)
    if isinstance(parsed, str):
        raise VersionError(f"{text}: a git ref has no numbers")
    return (*parsed.release, *(0,) * count)[:count]


def satisfies(scheme: Scheme, version: str, version_range: str) -> bool:
    """Whether ``version`` lies in ``version_range``. Raises VersionError.

    A range is comparisons joined by ``,`` (and) and ``||`` (or); "" is any version. Ascend
    ranges know lines (``==25.2.X``, ``>=25.2.X``), and intervals as in version.info
    (``[7.0.0,7.2.99]``, ``[23.0.rc3,23.0.rc3.]``, ends included). Builds (.B120) count only if
    the range names one. Order is plain order: 8.5.0.alpha002 is below 8.5.0.
    """
    return _satisfies(scheme, version, version_range)


@functools.lru_cache(maxsize=1 << 16)  # the solver asks the same thing thousands of times
def _satisfies(scheme: Scheme, version: str, version_range: str) -> bool:
    parsed = parse(scheme, version)
    # Try all: a bad range is an error for every version.
    hits = [_one_alternative(scheme, parsed, word) for word in version_range.split("||")]
    return any(hits)


def narrow(ranges: Iterable[str]) -> str:
    """All of these ranges of Python versions as one, without bounds that others imply."""
    whole = {text for text in ranges if "||" in text}
    parts = {part.strip() for text in {*ranges} - whole for part in text.split(",")} - {""}
    for sign, tightest in ((">", max), ("<", min)):
        bounds = {part: _pep440(part.lstrip("<>= ")) for part in parts if part[0] == sign}
        end = tightest(bounds.values(), default=None)
        ends = sorted(part for part, version in bounds.items() if version == end)
        # A bound without its end is the tighter one.
        parts -= bounds.keys() - {min(ends, key=lambda part: "=" in part, default="")}
    return ",".join(sorted(parts | whole, reverse=True))


def check_range(scheme: Scheme, version_range: str) -> None:
    """Raises VersionError for an invalid range."""
    satisfies(scheme, "0", version_range)


def _one_alternative(scheme: Scheme, version: Version | Ascend | str, version_range: str) -> bool:
    if isinstance(version, Version):
        plain = _is_within(version, version_range)
        return _contains(version, version_range) if plain is None else plain
    if isinstance(version, str):
        return _ref_matches(version, version_range)
    if version_range.lstrip().startswith("["):
        return _in_brackets(scheme, version, version_range)
    return all(_holds(version, bound) for bound in _bounds(scheme, version_range))


def _is_within(version: Version, version_range: str) -> bool | None:
    """What plain order says of a final release; None where PEP 440 knows more than order."""
    if version.epoch or version.pre or version.post is not None or version.dev is not None:
        return None
    held = True
    for text in version_range.split(",") if version_range.strip() else ():
        match = _PLAIN.fullmatch(text)
        if match is None or (match[3] and match[1] not in {"==", "!="}):
            return None
        bound, final = _pep440(match[2]), _pep440(version.public)
        line = bound.release[: -1 if match[1] == "~=" else None]
        in_line = (*final.release, *(0,) * len(line))[: len(line)] == line
        if match[1] == "~=":
            held = held and in_line and final >= bound
        elif match[3]:
            held = held and in_line is (match[1] == "==")
        else:
            held = held and _meets(match[1], final == bound, final > bound)
    return held


def _contains(version: Version, version_range: str) -> bool:
    try:
        return _specifiers(version_range).contains(version, prereleases=True)
    except ValueError as error:  # InvalidSpecifier is one
        raise VersionError(
            f"{version_range[:_LONGEST]!r} is no range of Python versions"
        ) from error


@functools.lru_cache(maxsize=1 << 12)  # as above
def _specifiers(version_range: str) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet  # slow to import

    return SpecifierSet(version_range)


@functools.lru_cache(maxsize=1 << 14)  # as above
def _pep440(text: str) -> Version:
    try:
        # int() refuses longer numbers.
        return Version(text if len(text) <= _LONGEST else "too long")
    except InvalidVersion as error:
        raise VersionError(f"{text[:_LONGEST]!r} is no Python version (PEP 440)") from error


def _ref(text: str) -> str:
    if not text or len(text) > _LONGEST or not text.isprintable() or re.search(r"[\s,|]", text):
        raise VersionError(f"{text[:_LONGEST]!r} is no git ref")
    return text


@functools.lru_cache(maxsize=1 << 14)  # as above
def _ascend(text: str) -> Ascend:
    lowered = text.strip().lower()
    start = _RELEASE.match(lowered) if len(lowered) <= _LONGEST else None
    if start is None:
        raise VersionError(f"{text[:_LONGEST]!r} is no Ascend version")
    suffix: list[tuple[int, int]] = []
    at = start.end()
    while at < len(lowered):
        token = _TOKEN.match(lowered, at)
        if token is None:
            raise VersionError(f"{text!r} is no Ascend version: {lowered[at:]!r} is not understood")
        suffix.append(_rank(token))
        at = token.end()
    return Ascend(tuple(int(word) for word in start.group().split(".")), tuple(suffix))


def _rank(token: re.Match[str]) -> tuple[int, int]:
    if token["day"]:
        return _STAGES["0day"], 0
    if token["patch"]:
        return _PATCH, int(token["patch"])
    return _STAGES.get(token["stage"], _BUILD), int(token["count"] or 0)


def _bounds(scheme: Scheme, version_range: str) -> list[_Bound]:
    bounds = []
    for part in version_range.split(",") if version_range.strip() else ():
        match = _BOUND.fullmatch(part.strip())
        if match is None:
            raise VersionError(f"{part[:_LONGEST]!r} is no comparison (as >=8.5.0 or ==25.2.X)")
        operator, text = match.groups()
        if scheme == "unordered" and operator not in ("==", "!="):
            raise VersionError(f"{part!r}: these versions have no order, only == and != are meant")
        line = text.lower().endswith((".x", ".*"))
        bounds.append(_Bound(operator, _ascend(text[:-2] if line else text), line))
    return bounds


def _holds(version: Ascend, bound: _Bound) -> bool:
    ascend = bound.version
    if not any(rank == _BUILD for rank, _ in ascend.suffix):
        version = version.without_build()
    inside = version.within(ascend) if bound.line else version.key == ascend.key
    return _meets(bound.operator, inside, not inside and version.key > ascend.key)


def _meets(operator: str, inside: bool, above: bool) -> bool:
    return {
        "==": inside,
        "!=": not inside,
        ">=": inside or above,
        "<=": not above,
        ">": above,
        "<": not inside and not above,
    }[operator]


def _in_brackets(scheme: Scheme, version: Ascend, version_range: str) -> bool:
    at, hits = 0, []
    text = version_range.strip()
    while at < len(text):
        match = _BRACKET.match(text, at)
        if match is None:
            raise VersionError(f"{version_range[:_LONGEST]!r} is no list of intervals")
        low, high = match[1].strip(), (match[2] or "").strip()
        # An upper end such as "23.0.rc3." covers everything that begins so.
        upper = f"<={high}X" if high.endswith(".") else f"<={high}"
        bounds = _bounds(scheme, f">={low},{upper}" if high else f"=={low}")
        hits.append(all(_holds(version, bound) for bound in bounds))
        at = match.end()
    return any(hits)


def _ref_matches(ref: str, pattern: str) -> bool:
    results = []
    for part in pattern.split(",") if pattern.strip() else ():
        match = _BOUND.fullmatch(part.strip())
        if match is None or match[1] not in ("==", "!="):
            raise VersionError(f"{part[:_LONGEST]!r} is no choice of git refs (as ==core_r0.16.0)")
        results.append((ref == _ref(match[2])) == (match[1] == "=="))
    return all(results)


def normalised(name: str) -> str:
    """A name as PEP 503 compares it; packaging.utils is slow to import."""
    return re.sub(r"[-_.]+", "-", name).lower()
