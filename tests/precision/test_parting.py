"""Where two runs part, decided on values; nothing of torch is needed."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.precision.parting import (
    Parting,
    PartingCause,
    distance,
    find_parting,
    find_partings,
)
from ascend_doctor.precision.records import TensorKind, TensorRecord
from ascend_doctor.precision.tolerances import DEFAULTS, parse_tolerances
from ascend_doctor.precision.wording import describe, direction, explain, lines
from tests.precision.judging import PAGE, with_table
from tests.present import present

NAMES = ("the CPU", "the NPU")
LAYERS = ("Model.embed", "Model.layer.up", "Model.layer.down", "Model.layer", "Model")


def row(
    kind: TensorKind, name: str, values: tuple[float, ...] = (1.0, 2.0), **fields: Any
) -> TensorRecord:
    """A tensor's record whose axis projections are its values."""
    record = TensorRecord(
        step=0,
        kind=kind,
        name=name,
        shape=(len(values),),
        dtype="float32",
        norm=sum(value**2 for value in values) ** 0.5,
        projections=tuple(value * len(values) ** 0.5 for value in values),
    )
    return msgspec.structs.replace(record, **fields)


def run() -> list[TensorRecord]:
    """Two layers: forward, backward and an optimizer step."""
    draw = random.Random(1)

    def values() -> tuple[float, ...]:
        return tuple(draw.gauss(0, 1) for _ in range(4))

    rows = [row(TensorKind.WEIGHT, f"{name}.weight", values()) for name in LAYERS[:3]]
    for name in LAYERS:
        rows.append(row(TensorKind.INPUT, name, values(), attached=True))
        rows.append(row(TensorKind.OUTPUT, name, values(), attached=True))
    for name in reversed(LAYERS[:3]):
        gradient = values()
        rows.append(row(TensorKind.OUTPUT_GRADIENT, name, values()))
        rows.append(row(TensorKind.WEIGHT_GRADIENT, f"{name}.weight", values()))
        rows.append(row(TensorKind.INPUT_GRADIENT, name, gradient))
    rows += [row(TensorKind.GRADIENT, f"{name}.weight", values()) for name in LAYERS[:3]]
    rows += [row(TensorKind.UPDATE, f"{name}.weight", values()) for name in LAYERS[:3]]
    return rows


RUN = run()


def change(record: TensorRecord, by: float) -> TensorRecord:
    """Another tensor so far away, relative to its size."""
    assert record.norm is not None
    first, *rest = record.projections
    return msgspec.structs.replace(
        record, projections=(first + by * record.norm * len(record.projections) ** 0.5, *rest)
    )


def test_equal_runs_do_not_part() -> None:
    assert find_parting(RUN, RUN, DEFAULTS) is None
    assert find_parting([], [], DEFAULTS) is None


def test_a_gradient_that_comes_back_twice_is_compared_with_its_like() -> None:
    """As that of a weight that a module is given, of each micro batch."""
    index = LAYERS.index("Model.embed") + 13
    first = RUN[index]
    assert first.kind in {TensorKind.INPUT_GRADIENT, TensorKind.OUTPUT_GRADIENT}
    second = change(first, 0.7)
    run = [*RUN[: index + 1], second, *RUN[index + 1 :]]
    assert find_parting(run, run, DEFAULTS) is None
    parting = present(find_parting(run, [*run[: index + 1], first, *run[index + 2 :]], DEFAULTS))
    assert (parting.record, parting.agreed) == (second, index + 1)
    assert find_parting(run, [*run[: index + 1], *run[index + 2 :]], DEFAULTS) is not None or (
        first.kind is TensorKind.INPUT_GRADIENT
    )


def test_that_a_module_was_not_called_is_the_doing_of_the_one_around() -> None:
    other = [record for record in RUN if record.name != "Model.layer.down"]
    parting = present(find_parting(RUN, other, DEFAULTS))
    assert (parting.module, parting.cause) == ("Model.layer", PartingCause.MISSING)
    outermost = [record for record in RUN if record.name not in LAYERS[1:4]]
    parting = present(find_parting(RUN, outermost, DEFAULTS))
    assert parting.module == "Model"


def scale(record: TensorRecord, factor: float) -> TensorRecord:
    assert record.norm is not None
    return msgspec.structs.replace(
        record,
        norm=record.norm * factor,
        projections=tuple(value * factor for value in record.projections),
    )


def test_what_clipping_does_to_the_other_gradients_is_not_the_first_difference() -> None:
    """Their norm is over all: one wrong gradient scales each."""
    wrong = f"{LAYERS[2]}.weight"
    other = [
        scale(record, 0.0 if record.name == wrong else 1.1)
        if record.kind is TensorKind.GRADIENT
        else record
        for record in RUN
    ]
    parting = present(find_parting(RUN, other, DEFAULTS))
    assert (parting.module, direction(parting)) == (LAYERS[2], "optimizer")
    assert parting.reference is not None
    assert parting.reference in RUN


def test_that_all_gradients_are_scaled_is_the_doing_of_no_module() -> None:
    other = [scale(record, 1.1) if record.kind is TensorKind.GRADIENT else record for record in RUN]
    parting = present(find_parting(RUN, other, DEFAULTS))
    assert (parting.module, direction(parting)) == ("", "optimizer")


ROUTER = "Model.moe.router"


def route(*, other: int, rows: int, gradient: float, dtype: str = "bfloat16") -> list[TensorRecord]:
    """A router of 32 choices, of which some are others; an expert with rows; a gradient."""
    mask = tuple(float(index < 32 - other) for index in range(32))
    mask += tuple(float(index < other) for index in range(32))
    return [
        row(TensorKind.OUTPUT, "Model.attention", dtype=dtype),
        row(TensorKind.OUTPUT, ROUTER, mask, dtype=dtype, slot="0"),
        row(TensorKind.OUTPUT, ROUTER, mask, dtype="bool", slot="1"),
        row(TensorKind.OUTPUT, "Model.moe.expert", tuple(map(float, range(1, rows))), dtype=dtype),
        row(TensorKind.OUTPUT, "Model.moe", (3.0, 4.0), dtype=dtype),
        change(row(TensorKind.WEIGHT_GRADIENT, "Model.moe.expert.weight", dtype=dtype), gradient),
    ]


def parting_of_ranks(
    left: list[TensorRecord], right: list[TensorRecord], rank: str = "rank 0"
) -> Parting | None:
    healthy = route(other=0, rows=9, gradient=0)
    ranks = {"rank 0": (healthy, healthy), "rank 1": (healthy, healthy), rank: (left, right)}
    return find_partings(ranks, DEFAULTS)[rank]


def test_a_token_that_goes_to_another_expert_by_rounding_is_no_difference() -> None:
    healthy = route(other=0, rows=9, gradient=0)
    assert parting_of_ranks(healthy, route(other=1, rows=10, gradient=0.3)) is None
    # Too much for what changed, too many tokens, and no format in which rounding would do that.
    parting = present(parting_of_ranks(healthy, route(other=1, rows=10, gradient=0.9)))
    assert parting.module == "Model.moe.expert"
    parting = present(parting_of_ranks(healthy, route(other=4, rows=10, gradient=0)))
    assert parting.module == ROUTER
    exact = [route(other=number, rows=9, gradient=0, dtype="float32") for number in (0, 1)]
    parting = present(parting_of_ranks(exact[0], exact[1]))
    assert parting.module == ROUTER


def test_a_token_of_another_rank_changes_the_rows_of_experts_here() -> None:
    healthy = route(other=0, rows=9, gradient=0)
    more = route(other=0, rows=10, gradient=0.3)
    ranks = {"rank 0": (healthy, route(other=1, rows=9, gradient=0)), "rank 1": (healthy, more)}
    assert find_partings(ranks, DEFAULTS) == {"rank 0": None, "rank 1": None}
    ranks["rank 0"] = (healthy, healthy)
    parting = present(find_partings(ranks, DEFAULTS)["rank 1"])
    assert (parting.module, parting.cause) == ("Model.moe.expert", PartingCause.SHAPE)


def test_an_average_of_squares_may_be_twice_as_far_apart() -> None:
    for slot, parts in (("exp_avg", True), ("exp_avg_sq", False)):
        state = row(TensorKind.STATE, f"{LAYERS[0]}.weight", slot=slot)
        parting = find_parting([state], [change(state, 1.8e-4)], DEFAULTS)
        assert (parting is not None) == parts


def test_what_one_optimizer_keeps_and_the_other_nowhere_is_no_difference() -> None:
    names = [f"{name}.weight" for name in LAYERS[:3]]
    states = [
        row(TensorKind.STATE, name, slot=slot) for name in names for slot in ("exp_avg", "step")
    ]
    run = [*states, *RUN]
    other = [record for record in run if record.slot != "step"]
    assert find_parting(run, other, DEFAULTS) is None
    assert find_parting(other, run, DEFAULTS) is None
    lost = [record for record in other if (record.name, record.slot) != (names[1], "exp_avg")]
    parting = present(find_parting(run, lost, DEFAULTS))
    assert (parting.module, parting.cause) == (LAYERS[1], PartingCause.MISSING)


def test_a_layer_that_gives_little_is_compared() -> None:
    """With weights as they are drawn, experts' outputs are a three-hundredth of the others."""
    expert = RUN[LAYERS.index("Model.layer.down") * 2 + 4]
    assert (expert.kind, expert.name) == (TensorKind.OUTPUT, "Model.layer.down")
    assert expert.norm is not None
    small = msgspec.structs.replace(
        expert,
        norm=expert.norm / 300,
        projections=tuple(value / 300 for value in expert.projections),
    )
    runs = [
        [msgspec.structs.replace(record, dtype="bfloat16") for record in [*RUN[:8], end, *RUN[9:]]]
        for end in (small, change(small, 1.4))
    ]
    parting = present(find_parting(runs[0], runs[1], DEFAULTS))
    assert (parting.module, direction(parting)) == ("Model.layer.down", "forward")


@given(st.lists(st.integers(0, len(RUN) - 1), min_size=1, max_size=5, unique=True))
def test_the_first_difference_is_named_whatever_follows(indices: list[int]) -> None:
    other = list(RUN)
    for index in indices:
        other[index] = change(other[index], 0.5)
    parting = present(find_parting(RUN, other, DEFAULTS))
    assert parting.agreed == min(indices)
    assert parting.reference == RUN[min(indices)]
    assert parting.cause is PartingCause.VALUES


@given(st.floats(0, 0.9e-4), st.integers(0, len(RUN) - 1))
def test_what_is_within_the_tolerance_is_equal(by: float, index: int) -> None:
    other = [*RUN[:index], change(RUN[index], by), *RUN[index + 1 :]]
    assert find_parting(RUN, other, DEFAULTS) is None


@given(st.permutations(range(len(RUN))))
def test_the_order_of_the_other_run_does_not_matter(order: list[int]) -> None:
    other = [RUN[index] for index in order]
    assert find_parting(RUN, other, DEFAULTS) is None
    other[0] = change(other[0], 0.5)
    parting = present(find_parting(RUN, other, DEFAULTS))
    assert parting.agreed == order[0]


@given(st.integers(0, len(RUN) - 1))
def test_what_only_one_run_has_is_named(index: int) -> None:
    rest = [*RUN[:index], *RUN[index + 1 :]]
    optional = RUN[index].kind in {TensorKind.INPUT, TensorKind.INPUT_GRADIENT, TensorKind.UPDATE}
    for reference, other, cause in (
        (RUN, rest, PartingCause.MISSING),
        (rest, RUN, PartingCause.EXTRA),
    ):
        parting = find_parting(reference, other, DEFAULTS)
        if optional:
            assert parting is None
            continue
        assert parting is not None
        assert parting.cause is cause
        assert parting.agreed == index
        assert parting.record == RUN[index]


@pytest.mark.parametrize(
    ("cause", "fields"),
    [
        (PartingCause.SHAPE, {"shape": (2, 2)}),
        (PartingCause.DTYPE, {"dtype": "bfloat16"}),
        (PartingCause.NOT_FINITE, {"not_finite": 3}),
        (PartingCause.DETACHED, {"attached": False}),
    ],
)
def test_other_differences_have_their_names(cause: PartingCause, fields: dict[str, object]) -> None:
    (index,) = (i for i, r in enumerate(RUN) if (r.kind, r.name) == (TensorKind.OUTPUT, LAYERS[1]))
    other = list(RUN)
    other[index] = msgspec.structs.replace(other[index], **fields)
    parting = present(find_parting(RUN, other, DEFAULTS))
    assert (parting.cause, parting.module) == (cause, LAYERS[1])
    assert explain(parting, NAMES)


@pytest.mark.parametrize(
    ("kind", "name", "module", "where"),
    [
        (TensorKind.WEIGHT, "Model.embed.weight", "Model.embed", "before the first step"),
        (TensorKind.OUTPUT, "Model.layer.up", "Model.layer.up", "forward"),
        (TensorKind.INPUT, "Model.layer.down", "Model.layer", "forward"),
        (TensorKind.INPUT, "Model", "", "forward"),
        (TensorKind.OUTPUT_GRADIENT, "Model.layer.up", "Model.layer", "backward"),
        (TensorKind.INPUT_GRADIENT, "Model.layer.up", "Model.layer.up", "backward"),
        (TensorKind.WEIGHT_GRADIENT, "Model.layer.up.weight", "Model.layer.up", "backward"),
        (TensorKind.GRADIENT, "Model.layer.up.weight", "Model.layer.up", "optimizer"),
        (TensorKind.UPDATE, "Model.layer.up.weight", "Model.layer.up", "optimizer"),
    ],
)
def test_the_module_that_computed_it_is_blamed(
    kind: TensorKind, name: str, module: str, where: str
) -> None:
    (index,) = (i for i, record in enumerate(RUN) if (record.kind, record.name) == (kind, name))
    parting = present(
        find_parting(RUN, [*RUN[:index], change(RUN[index], 0.9), *RUN[index + 1 :]], DEFAULTS)
    )
    assert (parting.module, direction(parting)) == (module, where)
    text = "\n".join(lines({"rank 0": parting, "rank 1": parting, "rank 2": None}, NAMES))
    assert "rank 0, rank 1" in text
    assert "no difference on rank 2" in text
    assert describe(RUN[index]) in text


def test_the_gradient_of_a_tensor_is_made_by_who_took_it() -> None:
    rows = [
        row(TensorKind.OUTPUT, "Model.a"),
        row(TensorKind.OUTPUT, "Model.b"),
        row(TensorKind.OUTPUT_GRADIENT, "Model.a", (3.0, 4.0)),
        row(TensorKind.INPUT_GRADIENT, "Model.b", (3.0, 4.0)),
    ]
    other = [*rows[:2], *(change(record, 1.0) for record in rows[2:])]
    parting = present(find_parting(rows, other, DEFAULTS))
    assert parting.module == "Model.b"


def test_a_coarse_format_bounds_what_follows() -> None:
    rows = [row(TensorKind.OUTPUT, "Model.a", dtype="bfloat16"), row(TensorKind.OUTPUT, "Model.b")]
    near = [rows[0], change(rows[1], 0.03)]
    assert find_parting(rows, near, DEFAULTS) is None
    assert find_parting(rows[1:], near[1:], DEFAULTS) is not None


def test_noise_beside_other_gradients_is_equal() -> None:
    """A bias that a softmax takes out again has a gradient of rounding errors alone."""
    rows = [row(TensorKind.GRADIENT, f"Model.{name}.weight") for name in "abc"]
    noise = row(TensorKind.GRADIENT, "Model.k.bias", (1e-9, -2e-9))
    other = row(TensorKind.GRADIENT, "Model.k.bias", (-3e-9, 1e-9))
    assert find_parting([*rows, noise], [*rows, other], DEFAULTS) is None


def test_integers_are_equal_or_not() -> None:
    tokens = row(TensorKind.INPUT, "Model", (7.0, 9.0), dtype="int64")
    other = row(TensorKind.INPUT, "Model", (7.0, 9.001), dtype="int64")
    parting = present(find_parting([tokens], [other], DEFAULTS))
    assert parting.module == ""


def test_statistics_alone_bound_the_distance() -> None:
    fields: dict[str, Any] = {"projections": (), "mean": 1.0, "least": -1.0, "most": 2.0}
    left, right = row(TensorKind.OUTPUT, "a", **fields), row(TensorKind.OUTPUT, "a", **fields)
    assert distance(left, right) == 0
    right = msgspec.structs.replace(right, most=2.5)
    assert distance(left, right) == 0.5


def test_check_sums_alone_are_equal_or_not() -> None:
    fields: dict[str, Any] = {"projections": (), "norm": None, "digest": "0a"}
    left, right = row(TensorKind.OUTPUT, "a", **fields), row(TensorKind.OUTPUT, "a", **fields)
    assert find_parting([left], [right], DEFAULTS) is None
    right = msgspec.structs.replace(right, digest="0b")
    parting = present(find_parting([left], [right], DEFAULTS))
    assert "check sum" in explain(parting, NAMES)


def test_tolerances_are_typed() -> None:
    tolerances = parse_tolerances(["fp32=1e-3", "bfloat16=0.1"])
    assert tolerances["float32"].relative == 1e-3
    assert tolerances["bfloat16"].relative == 0.1
    assert tolerances["float16"] == DEFAULTS["float16"]


@pytest.mark.parametrize("text", ["fp12=1", "fp32", "fp32=x", "fp32=-1", "fp32=nan", "fp32=2"])
def test_other_tolerances_are_refused(text: str) -> None:
    with pytest.raises(DataError, match="--tolerance"):
        parse_tolerances([text])


def test_the_table_of_what_was_seen_is_in_step() -> None:
    page = PAGE.read_text("utf-8")
    assert with_table(page) == page, "run `python -m tests.precision.judging`"
