import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import allowed_range
from ascend_doctor.matrix.schema import Component, Need, Obtain, Release, Source, Stack
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.provision.conflict import refusal
from ascend_doctor.provision.solve import Solution, SolveQuery, solve
from tests.provision.asked import wishes

CATALOG = Catalog()
A2 = {"arch": "x86_64", "soc": "ascend910b"}
SOURCES = (Source(url="a test", date="2026-11-21"),)
NAMES = ("a", "b", "c")
OPEN = "d"


class Universe(Catalog):
    def __init__(self, *components: Component) -> None:
        super().__init__()
        self._made = {component.id: component for component in components}
        self.component_ids = tuple(self._made)

    def component(self, identity: str) -> Component:  # type: ignore[override]
        return self._made[identity]

    @property
    def stacks(self) -> tuple[Stack, ...]:
        return ()


def component(name: str, *releases: Release) -> Component:
    return Component(
        schema=1,
        id=name,
        title=name,
        scheme="pep440",
        obtain=Obtain(kind="pip"),
        releases=releases,
        sources=SOURCES,
    )


VERSIONS = st.sampled_from(["1", "2", "3"])
RANGES = st.one_of(
    st.just(""),
    st.builds("{}{}".format, st.sampled_from(["==", ">=", "<=", "!=", "<", ">"]), VERSIONS),
    st.builds("=={} || =={}".format, VERSIONS, VERSIONS),
)


@st.composite
def needs(draw: st.DrawFn, name: str) -> tuple[Need, ...]:
    others = [candidate for candidate in (*NAMES, OPEN) if candidate != name]
    return tuple(
        draw(
            st.lists(
                st.builds(
                    Need,
                    component=st.sampled_from(others),
                    versions=RANGES,
                    also=st.just("") | RANGES,
                    hard=st.booleans(),
                    optional=st.booleans(),
                ),
                max_size=2,
            )
        )
    )


@st.composite
def universes(draw: st.DrawFn) -> Universe:
    made = []
    for name in NAMES:
        versions = draw(st.lists(VERSIONS, min_size=1, max_size=3, unique=True))
        rows = []
        for version in versions:
            other = draw(st.sampled_from([candidate for candidate in NAMES if candidate != name]))
            rows.append(
                Release(
                    version=version,
                    requires=draw(needs(name)),
                    conflicts=draw(needs(name)) if draw(st.booleans()) else (),
                    provides={other: draw(VERSIONS)} if draw(st.integers(0, 2)) == 0 else {},
                    sources=SOURCES,
                )
            )
        made.append(component(name, *rows))
    return Universe(*made, component(OPEN))


QUESTIONS = st.builds(
    SolveQuery,
    wishes=st.dictionaries(st.sampled_from(NAMES), RANGES, min_size=1, max_size=3),
    machine=st.dictionaries(st.sampled_from(NAMES), VERSIONS, max_size=2),
)
ABSENT = ""
POOL = (ABSENT, "0", "1", "1.5", "2", "2.5", "3", "3.5")


def holds(universe: Universe, question: SolveQuery, pins: dict[str, str]) -> bool:
    """Whether pins satisfy every rule, without the solver."""

    if not all(within(pins, name, bounds) for name, bounds in question.wishes.items()):
        return False
    if not all(pins[name] == version for name, version in question.machine.items()):
        return False
    provided = {
        name
        for wish in question.wishes
        for row in universe.component(wish).releases
        for name in row.provides
    }
    return all(
        row_holds(universe, row, pins, with_needs=name not in provided)
        for name, version in pins.items()
        if version != ABSENT and (row := universe.component(name).release(version))
    )


def within(pins: dict[str, str], name: str, bounds: str) -> bool:
    return pins[name] != ABSENT and satisfies("pep440", pins[name], bounds)


def row_holds(universe: Universe, row: Release, pins: dict[str, str], *, with_needs: bool) -> bool:
    needs = list(row.requires) if with_needs else []
    for part, number in row.provides.items():
        if not within(pins, part, f"=={number}"):
            return False
        inner = universe.component(part).release(number)
        own = {need.component for need in row.requires}
        if inner and with_needs:
            needs += [need for need in inner.requires if need.component not in own]
    return not any(within(pins, need.component, need.versions) for need in row.conflicts) and all(
        (need.optional and pins[need.component] == ABSENT)
        or within(pins, need.component, allowed_range(need))
        for need in needs
    )


def answers(universe: Universe, question: SolveQuery) -> Iterator[dict[str, str]]:
    """All combinations that satisfy the rules, by brute force."""
    choices = [
        [question.machine[name]]
        if name in question.machine
        else [ABSENT, *(row.version for row in universe.component(name).releases)]
        for name in NAMES
    ]
    for versions in itertools.product(*choices, POOL):
        pins = dict(zip((*NAMES, OPEN), versions, strict=True))
        if holds(universe, question, pins):
            yield pins


def pins_of(solution: Solution) -> Iterator[dict[str, str]]:
    """A solution as pins; an open component is any version within all of its ranges."""
    pins = dict.fromkeys(NAMES, ABSENT) | solution.versions
    if OPEN not in solution.ranges:
        yield pins | {OPEN: ABSENT}
        return
    for version in POOL[1:]:
        if all(satisfies("pep440", version, bounds) for bounds in solution.ranges[OPEN]):
            yield pins | {OPEN: version}


@pytest.mark.slow
@settings(max_examples=200)
@given(universes(), QUESTIONS)
def test_a_solution_satisfies_every_rule_and_a_refusal_is_true(
    universe: Universe, question: SolveQuery
) -> None:
    solution = solve(universe, question)
    if solution is None:
        assert next(answers(universe, question), None) is None
    else:
        assert any(holds(universe, question, pins) for pins in pins_of(solution))


@pytest.mark.slow
@settings(max_examples=200)
@given(universes(), QUESTIONS)
def test_a_refusal_is_sufficient_and_minimal(universe: Universe, question: SolveQuery) -> None:
    if solve(universe, question) is not None:
        return
    refused = refusal(universe, question)
    kept_wishes = {name: question.wishes[name] for name in refused.wishes}
    kept_machine = {name: question.machine[name] for name in refused.machine}
    assert (
        next(answers(universe, SolveQuery(wishes=kept_wishes, machine=kept_machine)), None) is None
    )
    for name in kept_wishes:
        fewer = {wish: bounds for wish, bounds in kept_wishes.items() if wish != name}
        assert next(answers(universe, SolveQuery(wishes=fewer, machine=kept_machine)), None)
    for name in kept_machine:
        rest = {part: version for part, version in kept_machine.items() if part != name}
        assert next(answers(universe, SolveQuery(wishes=kept_wishes, machine=rest)), None)


@pytest.mark.slow
@settings(max_examples=100)
@given(universes(), QUESTIONS)
def test_with_doubts_only_soft_needs_are_broken(universe: Universe, question: SolveQuery) -> None:
    lenient = SolveQuery(wishes=question.wishes, machine=question.machine, doubts=True)
    strict, solution = solve(universe, question), solve(universe, lenient)
    if strict is not None:
        assert solution is not None
    if solution is not None:
        assert not any(doubt.need.hard and not doubt.named for doubt in solution.doubts)


def test_what_a_checkout_needs_stands_for_what_it_brings() -> None:
    """A Megatron-LM tree brings a megatron-core whose own metadata pip never sees."""

    def row(version: str, *needs: Need, brings: str = "") -> Release:
        provides = {brings: "1"} if brings else {}
        return Release(version=version, requires=needs, provides=provides, sources=SOURCES)

    tree = row("1", Need(component="c", versions="==1"), brings="b")
    brought = row("1", Need(component="c", versions=">=2"))
    parts = component("b", brought), component("c", row("1"), row("2"))
    solution = solve(Universe(component("a", tree), *parts), SolveQuery(wishes={"a": ""}))
    assert solution is not None
    assert solution.versions == {"a": "1", "b": "1", "c": "1"}
    silent = row("1", brings="b")
    solution = solve(Universe(component("a", silent), *parts), SolveQuery(wishes={"a": ""}))
    assert solution is not None
    assert solution.versions["c"] == "2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("megatron", "framework", "machine", "expected"),
    [
        ("0.15.3", None, {}, {"mindspeed": "core_r0.15.3", "torch-npu": "2.7.1.post4"}),
        ("0.15.3", "ms-swift", {}, {"ms-swift": "4.2.3", "cann": "9.0.0", "torch": "2.7.1+cpu"}),
        ("0.12.1", None, {}, {"mindspeed": "26.1.0_core_r0.12.1", "cann": "9.1.0"}),
        ("0.12.1", None, {"cann": "8.5.0"}, {"megatron-lm": "core_v0.12.1"}),
        ("0.16.0", "ms-swift", {}, {"mindspeed": "core_r0.16.0"}),
        ("0.16.0", "verl", {}, {"mindspeed": "core_r0.16.0", "megatron-lm": "core_v0.16.0"}),
        ("0.17.1", None, {}, {"python": "3.12", "megatron-adaptor": "core_r0.17.0"}),
        ("0.12.1", "mindspeed-llm", {"cann": "9.0.0"}, {"mindspeed-llm": "26.0.0"}),
        ("v0.15.3", None, {"arch": "aarch64"}, {"megatron-lm": "core_v0.15.3", "torch": "2.7.1"}),
    ],
)
def test_stacks_of_the_shipped_matrix(
    megatron: str, framework: str | None, machine: dict[str, str], expected: dict[str, str]
) -> None:
    question = SolveQuery(wishes=wishes(CATALOG, megatron, framework), machine=A2 | machine)
    solution = solve(CATALOG, question)
    assert solution is not None
    assert expected.items() <= solution.versions.items()
    assert all(doubt.named for doubt in solution.doubts)


@pytest.mark.slow
def test_the_refusal_says_what_excludes_what_and_what_to_change() -> None:
    question = SolveQuery(wishes=wishes(CATALOG, "0.15.3"), machine=A2 | {"cann": "8.2.RC1"})
    assert solve(CATALOG, question) is None
    refused = refusal(CATALOG, question)
    assert set(refused.wishes) == {"megatron-lm", "mindspeed"}
    assert refused.machine == ("cann",)
    assert any(
        "mindspeed core_r0.15.3 is documented with cann 9.0.0" in reason
        for reason in refused.reasons
    )
    assert "CANN 9.0.0 instead of 8.2.RC1" in refused.changes
    assert any(
        change.startswith("Megatron-LM core_v0.12.1, MindSpeed ") for change in refused.changes
    )


@pytest.mark.slow
def test_twinkle_and_mindspeed_cannot_share_an_environment() -> None:
    question = SolveQuery(wishes=wishes(CATALOG, "0.15.3", "twinkle"), machine=A2)
    refused = refusal(CATALOG, question)
    assert set(refused.wishes) == {"megatron-lm", "twinkle"}
    assert any("numpy" in reason for reason in refused.reasons)
    assert "leave out Twinkle" in refused.changes


@pytest.mark.parametrize(
    ("megatron", "message"),
    [
        ("v0.16.0", "use core_v0.16.0"),
        ("core_r0.17.1", "use core_v0.17.1"),
        ("9.9", "is not known"),
        ("spam", "is not known"),
    ],
)
def test_wishes_that_name_no_release(megatron: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        wishes(CATALOG, megatron)


def test_wishes() -> None:
    assert wishes(CATALOG, "0.15.3")["megatron-lm"] == "==core_v0.15.3"
    assert "==core_v0.15.1" in wishes(CATALOG, "0.15")["megatron-lm"]
    assert wishes(CATALOG, "core_r0.16.0")["megatron-lm"] == "==core_r0.16.0"
    assert wishes(CATALOG, "0.15.3", "ms-swift==4.2.1")["ms-swift"] == "==4.2.1"
    with pytest.raises(DataError, match="no such framework"):
        wishes(CATALOG, "0.15.3", "nemo")
