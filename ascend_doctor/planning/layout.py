"""Parallel sizes, and which ranks share a group of Megatron under them.

Ranks count up along tensor, context, data and pipeline parallelism, in this order; for the experts
along expert tensor, expert, expert data and pipeline parallelism
(NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/parallel_state.py, order "tp-cp-ep-dp-pp"; the lists
are the same from 0.12.1 to 0.19.0).
"""

import math
import re
from collections.abc import Iterable, Mapping

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.judging.layout_rules import splits_ranks
from ascend_doctor.patterns import defer

Groups = tuple[tuple[int, ...], ...]

# Coordinates by which the ranks of a group differ: of all layers, and of the experts.
DENSE: Mapping[str, tuple[str, ...]] = {
    "tp": ("tp",),
    "cp": ("cp",),
    "dp": ("dp",),
    "pp": ("pp",),
    "dp-cp": ("cp", "dp"),
    "tp-cp": ("tp", "cp"),
    "tp-dp": ("tp", "dp"),
    "tp-pp": ("tp", "pp"),
    "tp-dp-cp": ("tp", "cp", "dp"),
}
EXPERT: Mapping[str, tuple[str, ...]] = {
    "ep": ("ep",),
    "etp": ("etp",),
    "edp": ("edp",),
    "etp-ep": ("etp", "ep"),
    "etp-ep-pp": ("etp", "ep", "pp"),
}
TITLES = {
    "tp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "dp": "data",
    "ep": "expert",
    "etp": "expert tensor",
    "edp": "expert data",
}
# etp before tp, its suffix.
_PART = defer(r"(etp|tp|pp|ep|cp)\s*[=:]?\s*([0-9]{1,5})", re.IGNORECASE)


class Layout(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Parallel sizes of ``npus`` ranks. ``etp`` 0 leaves expert tensor parallelism to Megatron."""

    npus: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 0

    @property
    def expert_tensor(self) -> int:
        """Megatron's value for ``etp``: if unset, the tensor parallel size."""
        return self.etp or self.tp

    @property
    def dp(self) -> int:
        return self.npus // (self.tp * self.pp * self.cp)

    @property
    def edp(self) -> int:
        return self.npus // (self.expert_tensor * self.ep * self.pp)

    @property
    def divides(self) -> bool:
        """Whether both products divide the number of ranks, as Megatron demands."""
        return splits_ranks(self.npus, self.tp, self.pp, self.cp) and splits_ranks(
            self.npus, self.expert_tensor, self.ep, self.pp
        )

    @property
    def name(self) -> str:
        """Such as TP2·EP4·ETP1; omits sizes of 1."""
        sizes = {"TP": self.tp, "PP": self.pp, "CP": self.cp, "EP": self.ep}
        parts = [f"{key}{size}" for key, size in sizes.items() if size > 1]
        if self.etp and self.etp != self.tp:
            parts.append(f"ETP{self.etp}")
        return "·".join(parts) or f"DP{self.npus}"

    def sizes(self, *, expert: bool) -> dict[str, int]:
        """Size of each coordinate, the fastest first."""
        if expert:
            rest = {"etp": self.expert_tensor, "ep": self.ep, "edp": self.edp}
        else:
            rest = {"tp": self.tp, "cp": self.cp, "dp": self.dp}
        return {**rest, "pp": self.pp}

    def groups(self, name: str) -> Groups:
        """The ranks of every group of one kind, each sorted. Raises KeyError for another kind."""
        expert = name in EXPERT
        along = EXPERT[name] if expert else DENSE[name]
        return _lists(self.sizes(expert=expert), along)


def parse(text: str, npus: int) -> Layout:
    """A layout such as TP2·EP4 or tp=2,ep=4,etp=1. Raises DataError."""
    sizes = {name.lower(): int(size) for name, size in _PART.findall(text)}
    rest = re.sub(r"[\s,·x*-]+", "", _PART.sub("", text))
    if not sizes or rest or 0 in sizes.values():
        raise DataError(f"{text!r} is no layout; write it like TP2·EP4 or tp=2,ep=4,etp=1")
    layout = Layout(npus=npus, **sizes)
    if not layout.divides:
        raise DataError(
            f"{layout.name}: TP·PP·CP and ETP·EP·PP (ETP is TP unless it is given) must divide "
            f"the {npus} NPUs; `ascend-doctor plan` without --layout lists those that do"
        )
    return layout


def _lists(sizes: Mapping[str, int], along: Iterable[str]) -> Groups:
    inside, starts, stride = [0], [0], 1
    for name, size in sizes.items():
        steps = range(0, stride * size, stride)
        if name in along:
            inside = [step + offset for step in steps for offset in inside]
        else:
            starts = [step + offset for step in steps for offset in starts]
        stride *= size
    return tuple(tuple(start + offset for offset in inside) for start in starts)


def crossing(layout: Layout, per_node: int) -> tuple[str, ...]:
    """Kinds of groups with ranks on several nodes of ``per_node`` ranks, each size above 1."""
    names = ("tp", "cp", "pp", "dp", "ep", "etp", "edp")
    return tuple(
        name
        for name in names
        if any(group[0] // per_node != group[-1] // per_node for group in layout.groups(name))
    )


def communicators(layout: Layout) -> int:
    """The most communicators with several ranks that a rank has, including the world's."""
    kinds = sum(
        math.prod(layout.sizes(expert=expert)[dimension] for dimension in along) > 1
        for expert, table in ((False, DENSE), (True, EXPERT))
        for along in table.values()
    )
    # The first and the last stage share one for the embedding (parallel_state.py).
    embedding = layout.pp > 1
    return kinds + embedding + (layout.npus > 1)
