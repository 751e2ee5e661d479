import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from ascend_doctor.matrix.versions import (
    Scheme,
    VersionError,
    check_range,
    key,
    narrow,
    normalised,
    numbers,
    parse,
    satisfies,
)

SCHEMES: tuple[Scheme, ...] = ("pep440", "ascend", "unordered", "ref")

# Texts seen on machines and in documents, in order.
CANN = [
    "7.0.T10",
    "8.0.RC1",
    "8.0.RC2",
    "8.0.RC3",
    "8.0.0",
    "8.1.RC1",
    "8.2.RC1.alpha001",
    "8.2.RC1",
    "8.3.RC1",
    "8.3.RC2",
    "8.5.0.alpha002",
    "8.5.0",
    "8.5.0.B120",
    "8.5.1",
    "9.0.0-beta.2",
    "9.0.0",
    "9.1.0-beta.3",
    "9.1.0",
    "9.2.1",
]
DRIVERS = [
    "23.0.rc2",
    "23.0.rc2.3",
    "23.0.rc3",
    "23.0.0",
    "23.0.7",
    "24.1.rc1",
    "24.1.rc1.b030",
    "24.1.0",
    "24.1.0.1",
    "25.0.rc1.1",
    "25.2.0",
    "25.3.rc1",
    "25.5.1",
    "25.7.rc1.6",
    "26.0.rc1",
]
TRAINS = ["6.0.rc1", "6.0.0", "7.3.0", "26.0.0", "26.1.0", "26.2.0-0day", "26.2.0-beta.1"]

NUMBER = st.integers(0, 999_999_999)
STAGE = st.sampled_from(["alpha", "beta", "rc", "t", "b", "SPC", "RC"])
ASCEND = st.builds(
    lambda release, suffix: ".".join(map(str, release)) + "".join(suffix),
    st.lists(NUMBER, min_size=1, max_size=4),
    st.lists(
        st.builds("{}{}{}".format, st.sampled_from([".", "-"]), STAGE, NUMBER)
        | st.builds(".{}".format, NUMBER),
        max_size=3,
    ),
)
RANGE = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from([">=", "<=", "==", "!=", ">", "<"]),
        ASCEND,
        st.sampled_from(["", ".X", ".*"]),
    ),
    min_size=1,
    max_size=3,
).map(",".join)


@pytest.mark.parametrize("texts", [CANN, DRIVERS, TRAINS])
def test_ascend_versions_are_in_order(texts: list[str]) -> None:
    shuffled = texts[::-1]
    shuffled.sort(key=lambda text: key("ascend", text))
    assert shuffled == texts


@pytest.mark.parametrize(
    ("version", "bounds", "holds"),
    [
        ("25.2.rc1", ">=25.2.X", True),
        ("25.2.rc1", ">=25.2.0", False),
        ("25.0.rc1.1", ">=25.2.X", False),
        ("25.0.rc1.1", "==25.0.X", True),
        ("25.2.0.1", "==25.2.X", True),
        ("25.20.0", "==25.2.X", False),
        ("26.0.rc1.3", "==26.0.RC1.X", True),
        ("26.0.0", "==26.0.RC1.X", False),
        ("26.0.rc1", "<26.0.X", False),
        ("25.5.2", "<26.0.X", True),
        ("26.0.rc1", "<=26.0.X", True),
        ("26.0.0", ">26.0.RC1.X", True),
        ("8.5.0.B120", "==8.5.0", True),
        ("8.5.0.B120", "==8.5.0.B120", True),
        ("8.5.0", "==8.5.0.B120", False),
        ("8.1.RC1", "==8.1.rc1", True),
        ("8.5", "==8.5.0", True),
        ("8.5.0.alpha002", ">=8.5.0", False),
        ("9.0.0-beta.2", "<9.0.0", True),
        ("8.5.1", "==8.3.RC1 || ==8.5.X", True),
        ("8.4.0", "==8.3.RC1 || ==8.5.X", False),
        ("8.5.1", ">=8.5.0,!=8.5.1", False),
        ("8.5.1", "", True),
        ("7.1.0.11.220", "[7.0.0,7.1.99]", True),
        ("7.2.0", "[7.0.0,7.1.99]", False),
        ("23.0.rc3.5", "[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]", True),
        ("23.0.0.4", "[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]", True),
        ("23.0.1", "[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]", False),
        ("24.1.0", "[24.1.0]", True),
    ],
)
def test_ascend_ranges(version: str, bounds: str, holds: bool) -> None:
    assert satisfies("ascend", version, bounds) is holds


_BOUND = r"(~=|[<>=!]=|[<>]|===) ?[0-3](\.[0-3]){0,3}(\.\*|\.dev0|rc1|\+cpu)?"


@given(
    st.from_regex(r"[0-3](\.[0-3]){0,3}(\+cpu|rc1|\.post3|\.dev2)?", fullmatch=True),
    st.lists(st.from_regex(_BOUND, fullmatch=True)).map(",".join),
)
def test_python_ranges_are_those_of_packaging(version: str, bounds: str) -> None:
    try:
        held = SpecifierSet(bounds).contains(version, prereleases=True)
    except InvalidSpecifier:
        with pytest.raises(VersionError):
            satisfies("pep440", version, bounds)
    else:
        assert satisfies("pep440", version, f"==9.9 || {bounds}") is held


def test_refs_are_equal_or_not() -> None:
    assert satisfies("ref", "core_r0.16.0", "==core_v0.16.0 || ==core_r0.16.0")
    assert not satisfies("ref", "core_r0.16.0", "==core_r0.16")
    assert satisfies("ref", "main", "!=master,!=dev")
    with pytest.raises(VersionError):
        satisfies("ref", "main", ">=core_r0.16.0")
    with pytest.raises(VersionError):
        key("ref", "main")


def test_numbers_of_950_drivers_have_no_order() -> None:
    assert satisfies("unordered", "25.7.rc1.6", "==25.7.RC1.X")
    with pytest.raises(VersionError, match="no order"):
        satisfies("unordered", "25.7.RC1", ">=25.2.X")
    with pytest.raises(VersionError, match="no order"):
        key("unordered", "25.7.RC1")


def test_numbers() -> None:
    assert numbers("pep440", "2.7.1.post4", 3) == numbers("pep440", "2.7.1+cpu", 3) == (2, 7, 1)
    assert numbers("ascend", "8.1.RC1", 3) == (8, 1, 0)
    assert numbers("ascend", "8.5.0.1", 2) == (8, 5)


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("ascend", ""),
        ("ascend", "V100R001C21SPC001B238"),
        ("ascend", "8.1."),
        ("ascend", "8.1.gamma1"),
        ("ascend", "\u0668.1.0"),
        ("ascend", "9" * 5000),
        ("pep440", "9" * 5000),
        ("pep440", "not a version"),
        ("ref", "two words"),
        ("ref", ""),
    ],
)
def test_no_version(scheme: Scheme, text: str) -> None:
    with pytest.raises(VersionError):
        parse(scheme, text)


@pytest.mark.parametrize(
    ("scheme", "bounds"),
    [
        ("ascend", "8.5.0"),
        ("ascend", ">=8.5.0 <9"),
        ("ascend", ">="),
        ("ascend", "[8.0.0,9.0.0"),
        ("ascend", "[8.0.0] ==8.0.0"),
        ("ascend", "==8.5.0 || ==x"),
        ("pep440", "2.7.1"),
        ("pep440", "==2.7.1 || >>3"),
        ("ref", "core_r0.16.0"),
    ],
)
def test_no_range(scheme: Scheme, bounds: str) -> None:
    with pytest.raises(VersionError):
        check_range(scheme, bounds)


@given(ASCEND)
def test_ascend_versions_round_trip(text: str) -> None:
    parsed = parse("ascend", text)
    assert parse("ascend", str(parsed)) == parsed


@given(ASCEND, ASCEND, ASCEND)
def test_ascend_order_is_total(old: str, recent: str, new: str) -> None:
    first, second, third = (key("ascend", text) for text in (old, recent, new))
    assert [first < second, first == second, first > second].count(True) == 1
    if first <= second <= third:
        assert first <= third


@pytest.mark.slow
@given(ASCEND, RANGE, RANGE)
def test_a_range_and_its_alternatives(version: str, bounds: str, other: str) -> None:
    either = satisfies("ascend", version, f"{bounds} || {other}")
    assert either == (satisfies("ascend", version, bounds) or satisfies("ascend", version, other))
    both = satisfies("ascend", version, f"{bounds},{other}")
    assert both == (satisfies("ascend", version, bounds) and satisfies("ascend", version, other))


@given(ASCEND, ASCEND, st.sampled_from(["", ".X"]))
def test_opposite_comparisons(version: str, bound: str, line: str) -> None:
    for comparison, other in ((">=", "<"), ("<=", ">"), ("==", "!=")):
        holds = satisfies("ascend", version, f"{comparison}{bound}{line}")
        assert holds != satisfies("ascend", version, f"{other}{bound}{line}")


HOSTILE = st.text() | st.text(alphabet=string.digits + ".,|=<>![]-_+rcRCXb* ", max_size=250)


@given(st.sampled_from(SCHEMES), HOSTILE, HOSTILE)
def test_any_text_is_a_version_or_a_version_error(scheme: Scheme, text: str, bounds: str) -> None:
    for step in (
        lambda: parse(scheme, text),
        lambda: key(scheme, text),
        lambda: numbers(scheme, text, 3),
        lambda: satisfies(scheme, text, bounds),
        lambda: check_range(scheme, bounds),
    ):
        with contextlib.suppress(VersionError):
            step()


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", fullmatch=True))
def test_names_are_normalised_as_packaging_does(name: str) -> None:
    assert normalised(name) == canonicalize_name(name)


def test_ranges_are_one_without_what_others_imply() -> None:
    assert narrow((">=2.7", "<2.9,>2.6", "<=2.9", "!=2.8")) == ">=2.7,<2.9,!=2.8"
