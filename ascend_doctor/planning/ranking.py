"""All legal layouts, the most fitting first."""

from collections.abc import Iterator

import msgspec

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.planning.layout import Layout, crossing
from ascend_doctor.planning.memory import GIB, Memory, estimate
from ascend_doctor.planning.rules import LayoutQuery, broken

# Tensor parallelism moves every activation several times a layer: at most a node's devices (16
# on Atlas A3).
_MOST_TENSOR = 16
# Published launch scripts for experts on NPUs mostly take TP2, which sequence parallelism needs: 8
# of 13 in modelscope/ms-swift@3602360a:examples/ascend, all of modelscope/twinkle@1a1d8845.
_USUAL_TENSOR = 2
_MIB = 1 << 20
# A process's need above the estimate of its allocations: published peaks were up to 4.5 % above it,
# and torch's reserved memory mostly 2 to 10 % above its allocated one (docs/records/plan.md).
MARGIN = 0.12


class RankBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The target. ``memory``: usable bytes per process, ``per_node``: ranks; 0: unknown."""

    memory: float = 0.0
    per_node: int = 0


class RankedLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A legal layout. ``fits`` is None if unknown.

    Unknown: without the memory of the device, or with an estimate nearer to it than MARGIN.
    """

    layout: Layout
    memory: Memory
    fits: bool | None
    crosses: tuple[str, ...]
    experts: int


def rank_budget(catalog: Catalog, chip: str, per_node: int = 0) -> RankBudget | None:
    """A chip's memory less its idle use, and a server's chip count; None for an unknown chip."""
    family = catalog.family_of(chip) if chip else None
    if family is None:
        return None
    memory = next((soc.memory_gib or 0 for soc in family.socs if soc.soc.endswith(chip)), 0) * GIB
    idle = (family.idle_hbm_mb or 0) * _MIB
    return RankBudget(memory=max(memory - idle, 0), per_node=per_node or family.node)


def choices(asked: LayoutQuery, npus: int, where: RankBudget) -> tuple[RankedLayout, ...]:
    legal = (layout for layout in _all(asked, npus) if not any(broken(asked, layout)))
    return tuple(sorted((choice(asked, layout, where) for layout in legal), key=_key))


def fewest(asked: LayoutQuery, where: RankBudget, most: int) -> int:
    """The smallest power of two of NPUs on which a layout fits; ``most`` if none does."""
    npus = 1
    while npus < most and not _fits_on(asked, npus, where):
        npus *= 2
    return npus


def _fits_on(asked: LayoutQuery, npus: int, where: RankBudget) -> bool:
    alone = estimate(asked.model, Layout(npus=1), asked.run, recompute=True)
    # In any layout a rank has its share of the states.
    if alone.states / npus > where.memory:
        return False
    return any(
        _fits(estimate(asked.model, layout, asked.run, recompute=again), where)
        for layout in _all(asked, npus)
        if not any(broken(asked, layout))
        for again in (False, True)
    )


def choice(asked: LayoutQuery, layout: Layout, where: RankBudget) -> RankedLayout:
    """A layout with its memory: keeps all activations if they fit, else recomputes them."""
    whole = estimate(asked.model, layout, asked.run, recompute=False)
    memory = whole
    if where.memory and not _fits(whole, where):
        memory = estimate(asked.model, layout, asked.run, recompute=True)
    return RankedLayout(
        layout=layout,
        memory=memory,
        fits=_fits(memory, where),
        crosses=crossing(layout, where.per_node) if where.per_node else (),
        experts=asked.model.experts // layout.ep,
    )


def _fits(memory: Memory, where: RankBudget) -> bool | None:
    if not where.memory or memory.total <= where.memory < memory.total * (1 + MARGIN):
        return None
    return memory.total <= where.memory


def _all(asked: LayoutQuery, npus: int) -> Iterator[Layout]:
    dividers = [size for size in range(1, npus + 1) if npus % size == 0]
    experts = bool(asked.model.experts)
    for tp in (size for size in dividers if size <= _MOST_TENSOR):
        for pp in (size for size in dividers if size <= asked.model.layers):
            for cp in dividers:
                if npus % (tp * pp * cp):
                    continue
                for ep in dividers if experts else (1,):
                    for etp in (0, 1) if experts and tp > 1 else (0,):
                        layout = Layout(npus=npus, tp=tp, pp=pp, cp=cp, ep=ep, etp=etp)
                        if layout.divides:
                            yield layout


def _key(ranked: RankedLayout) -> tuple[object, ...]:
    """The criteria in order.

    It fits, or may; it crosses no node; activations are kept; little pipeline and context
    parallelism; experts over as many ranks as there are; then the smaller memory.
    """
    layout = ranked.layout
    fit = {True: 0, None: 1, False: 2}[ranked.fits]
    costly = sum(kind in ranked.crosses for kind in ("tp", "cp", "ep", "etp"))
    # Of layouts that do not fit, only the shortfall matters.
    if ranked.fits is False:
        return (fit, ranked.memory.total)
    experts = ranked.experts > 0
    tensor = abs(layout.tp.bit_length() - _USUAL_TENSOR.bit_length()) if experts else layout.tp
    return (
        fit,
        costly,
        ranked.memory.recompute,
        layout.pp,
        layout.cp,
        layout.edp if experts else 0,
        tensor,
        bool(layout.etp),
        ranked.memory.total,
    )
