"""Layouts of a model as one self-contained page: the ranking, and of each its picture."""

from collections.abc import Sequence
from typing import NamedTuple

from ascend_doctor.planning.flags import FRAMEWORKS
from ascend_doctor.planning.memory import GIB, NEARNESS
from ascend_doctor.planning.picture import coordinates, experts_of
from ascend_doctor.planning.ranking import RankBudget, RankedLayout
from ascend_doctor.planning.rules import RULES, LayoutQuery
from ascend_doctor.planning.step_time import STEP_NEARNESS
from ascend_doctor.planning.weights import stages
from ascend_doctor.render.formats.html import page, parts
from ascend_doctor.render.layouts import MOST_RANKS, LayoutCell, LayoutRow, Picture, hue, picture


class Shown(NamedTuple):
    """``memory`` are (what, GiB, per cent of the largest sum); ``flags`` are (framework, lines)."""

    choice: RankedLayout
    total: float
    memory: list[tuple[str, float, float]]
    picture: Picture
    flags: list[tuple[str, tuple[str, ...]]]


def render(
    asked: LayoutQuery,
    where: RankBudget,
    choices: Sequence[RankedLayout],
    *,
    legal: int,
    frameworks: Sequence[str],
) -> str:
    """The layouts that were chosen of the ``legal`` ones, the best first."""
    largest = max((choice.memory.total for choice in choices), default=1.0)
    return page("plan.html").render(
        asked=asked,
        room=where.memory / GIB,
        nodes=bool(where.per_node),
        legal=legal,
        nearness=(NEARNESS, STEP_NEARNESS),
        shown=[_show_layout(asked, where, choice, largest, frameworks) for choice in choices],
        rules=RULES,
        **parts(),
    )


def _show_layout(
    asked: LayoutQuery,
    where: RankBudget,
    choice: RankedLayout,
    largest: float,
    frameworks: Sequence[str],
) -> Shown:
    return Shown(
        choice=choice,
        total=choice.memory.total / GIB,
        memory=[
            (what, size / GIB, 100 * size / largest) for what, size in choice.memory.parts.items()
        ],
        picture=picture(choice.layout, per_node=where.per_node, further=_rank_rows(asked, choice)),
        flags=[(name, tuple(FRAMEWORKS[name](asked, choice))) for name in frameworks],
    )


def _rank_rows(asked: LayoutQuery, choice: RankedLayout) -> list[LayoutRow]:
    """Which layers and which experts every rank holds."""
    layout = choice.layout
    ranks = range(min(layout.npus, MOST_RANKS))
    dense, expert = coordinates(layout, expert=False), coordinates(layout, expert=True)
    layers = [f"{layers_of[0]}-{layers_of[-1]}" for layers_of in stages(asked.model, layout)]
    rows = []
    if layout.pp > 1:
        stage = [dense[rank]["pp"] for rank in ranks]
        rows.append(LayoutRow("layers", [LayoutCell(layers[at], hue(at)) for at in stage]))
    if asked.model.experts:
        places = [expert[rank]["ep"] for rank in ranks]
        rows.append(
            LayoutRow("experts", [LayoutCell(experts_of(choice, at), hue(at)) for at in places])
        )
    return rows
