"""Which ranks share a parallel group of Megatron, computed without Megatron. Standard library only.

Ranks count up along tensor, context, data and pipeline parallelism, in this order; for the experts
along expert tensor, expert, expert data and pipeline parallelism
(NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/parallel_state.py, order "tp-cp-ep-dp-pp"). The group
lists are the same from 0.12.1 to 0.19.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

# By which coordinates the ranks of a group differ.
DENSE = {
    "tp": ("tp",),
    "cp": ("cp",),
    "dp": ("dp",),
    "dp_cp": ("cp", "dp"),
    "pp": ("pp",),
    "mp": ("tp", "pp"),
}
EXPERT = {
    "ep": ("ep",),
    "etp": ("etp",),
    "tp_ep": ("etp", "ep"),
    "edp": ("edp",),
}
MOST_LAYOUTS = 6
MOST_EXPERT_RANKS = 8


class ProbeLayout(NamedTuple):
    """Parallel sizes. ``etp`` None leaves the expert tensor parallel size to Megatron: TP."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    cp: int = 1
    etp: int | None = None

    @property
    def name(self) -> str:
        """Such as TP2 EP2 ETP1; what is 1 anyhow is left out."""
        parts = [
            f"{key.upper()}{size}"
            for key, size in self._asdict().items()
            if size is not None and (size > 1 or key == "etp")
        ]
        return " ".join(parts) or "no parallelism but DP"

    @property
    def expert_tensor(self) -> int:
        return self.tp if self.etp is None else self.etp

    def fits(self, world_size: int) -> bool:
        dense = self.tp * self.pp * self.cp
        return not (world_size % dense or world_size % (self.expert_tensor * self.ep * self.pp))

    def sizes(self, world_size: int, *, expert: bool) -> dict[str, int]:
        """Size of each coordinate, the fastest first."""
        if expert:
            sizes = {"etp": self.expert_tensor, "ep": self.ep}
            rest = world_size // (self.expert_tensor * self.ep * self.pp)
            return {**sizes, "edp": rest, "pp": self.pp}
        rest = world_size // (self.tp * self.cp * self.pp)
        return {"tp": self.tp, "cp": self.cp, "dp": rest, "pp": self.pp}


def layouts(world_size: int) -> tuple[ProbeLayout, ...]:
    """The layouts to try with this many ranks: what people train with, as far as it fits."""
    experts = min(max(world_size // 2, 1), MOST_EXPERT_RANKS)
    candidates = (
        ProbeLayout(tp=2),
        ProbeLayout(tp=2, pp=2),
        ProbeLayout(tp=2, ep=experts),
        ProbeLayout(tp=2, ep=experts, etp=1),
        ProbeLayout(tp=2, pp=2, ep=2, etp=1),
        ProbeLayout(tp=8),
        ProbeLayout(pp=2),
        ProbeLayout(ep=2),
        ProbeLayout(cp=2),
        ProbeLayout(tp=world_size),
    )
    fitting: list[ProbeLayout] = []
    for candidate in candidates:
        # Where one of two says 1 and the other nothing, they are the same layout without experts.
        plain = candidate._replace(etp=None) if candidate.ep == 1 else candidate
        if plain.fits(world_size) and plain not in fitting:
            fitting.append(plain)
    return tuple(fitting[:MOST_LAYOUTS])


def layout_of(sizes: Mapping[str, int], world_size: int) -> ProbeLayout:
    """The layout of these sizes. Raises ValueError where it does not fit the ranks."""
    layout = ProbeLayout(**sizes)
    if not layout.fits(world_size):
        raise ValueError(f"{layout.name} does not fit {world_size} ranks")
    return layout


def groups(layout: ProbeLayout, world_size: int) -> dict[str, list[list[int]]]:
    """The lists of ranks of every kind of group, each sorted."""
    dense, expert = (layout.sizes(world_size, expert=is_expert) for is_expert in (False, True))
    return {
        **{name: _lists(dense, along) for name, along in DENSE.items()},
        **{name: _lists(expert, along) for name, along in EXPERT.items()},
    }


def _lists(sizes: dict[str, int], along: Iterable[str]) -> list[list[int]]:
    """Ranks whose other coordinates are equal."""
    lists: dict[tuple[int, ...], list[int]] = {}
    for rank in range(math.prod(sizes.values())):
        rest, key = rank, []
        for name, size in sizes.items():
            if name not in along:
                key.append(rest % size)
            rest //= size
        lists.setdefault(tuple(key), []).append(rank)
    return sorted(lists.values())
