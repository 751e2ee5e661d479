"""The place of every rank in a layout."""

from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.ranking import RankedLayout

TITLES = {
    "tp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "dp": "data",
    "ep": "expert",
    "etp": "expert tensor",
    "edp": "expert data",
}


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
