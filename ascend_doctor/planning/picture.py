"""A layout as lines of text: nodes, pipeline stages, and who holds what."""

from collections.abc import Callable, Iterator

from ascend_doctor.planning.layout import Groups, Layout
from ascend_doctor.planning.ranking import RankedLayout
from ascend_doctor.planning.rules import LayoutQuery
from ascend_doctor.planning.weights import stages

# A terminal holds this many ranks in a row, and a reader this many rows.
_ROW = 8
_NAME, _LABEL, _CELL = 11, 9, 9
_MOST_RANKS = 64
_MOST_GROUPS = 8
_TITLE = 14
NAMES = RANK, EXPERTS = ("rank", "experts")
TITLES = {
    "tp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "dp": "data",
    "ep": "expert",
    "etp": "expert tensor",
    "edp": "expert data",
}


def picture(
    asked: LayoutQuery,
    choice: RankedLayout,
    per_node: int,
    width: int = 100,
    label: Callable[[str, int], str] = str.ljust,
) -> Iterator[str]:
    """Every rank with its coordinates: TP, CP, DP and, with experts, EP and which experts.

    ``label`` writes the name of a row in so many columns.
    """
    in_row = next(size for size in (_ROW, 4, 2, 1) if _NAME + size * _CELL <= width or size == 1)
    layout = choice.layout
    dense, expert = coordinates(layout, expert=False), coordinates(layout, expert=True)
    for stage, layers in enumerate(stages(asked.model, layout)):
        ranks = [rank for rank in range(layout.npus) if dense[rank]["pp"] == stage]
        yield f"stage {stage}: layers {layers[0]} to {layers[-1]}"
        shown = ranks[:_MOST_RANKS]
        for start in range(0, len(shown), in_row):
            row = shown[start : start + in_row]
            if per_node and row[0] % per_node == 0:
                yield f"  node {row[0] // per_node}"
            yield _line(label(RANK, _LABEL), [str(rank) for rank in row])
            yield _line(
                label("TP/CP/DP", _LABEL), [_cell(dense[rank], "tp", "cp", "dp") for rank in row]
            )
            if asked.model.experts:
                yield _line(
                    label("EP/EDP", _LABEL), [_cell(expert[rank], "ep", "edp") for rank in row]
                )
                yield _line(
                    label(EXPERTS, _LABEL), [experts_of(choice, expert[rank]["ep"]) for rank in row]
                )
        if len(ranks) > len(shown):
            yield "  " + f"and {len(ranks) - len(shown)} more ranks of this stage"


def _line(name: str, cells: list[str]) -> str:
    return f"  {name}" + "".join(f"{cell:>9}" for cell in cells)


def _cell(position: dict[str, int], *names: str) -> str:
    return "/".join(str(position[name]) for name in names)


def experts_of(choice: RankedLayout, position: int) -> str:
    """The experts of the ranks at this place of their expert parallel group."""
    return f"{position * choice.experts}-{(position + 1) * choice.experts - 1}"


def coordinates(layout: Layout, *, expert: bool) -> list[dict[str, int]]:
    """The place of every rank along each dimension, of all layers or of the experts."""
    sizes = layout.sizes(expert=expert)
    positions = []
    for rank in range(layout.npus):
        rest, position = rank, {}
        for name, size in sizes.items():
            position[name] = rest % size
            rest //= size
        positions.append(position)
    return positions


def groups(
    layout: Layout, *, experts: bool, every: bool, label: Callable[[str, int], str] = str.ljust
) -> Iterator[str]:
    """The rank groups with more than one rank, a kind a line; ``every`` shows all of them."""
    for name, title in TITLES.items():
        if name in {"ep", "etp", "edp"} and not experts:
            continue
        rank_groups = layout.groups(name)
        if len(rank_groups[0]) > 1:
            yield f"  {label(title, _TITLE)} {_texts(rank_groups, every=every)}"


def _texts(rank_groups: Groups, *, every: bool) -> str:
    shown = rank_groups if every else rank_groups[:_MOST_GROUPS]
    texts = [_ranks(group, every=every) for group in shown]
    rest = f" and {len(rank_groups) - len(shown)} more" if len(rank_groups) > len(shown) else ""
    return " ".join(texts) + rest


def _ranks(group: tuple[int, ...], *, every: bool) -> str:
    if len(group) > _ROW and not every:
        return f"[{group[0]} {group[1]} … {group[-1]}; {len(group)} ranks]"
    return "[" + " ".join(str(rank) for rank in group) + "]"
