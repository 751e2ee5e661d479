"""Where rounding has decided otherwise: a router gave a few tokens to other experts.

In half precision two experts may be as good as each other for a token. What follows differs for it,
on all ranks that exchange tokens: experts have other rows, and gradients other parts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ascend_doctor.precision.records import TensorKey, TensorKind, TensorRecord
from ascend_doctor.precision.tolerances import coarsest, format_of

COARSE = frozenset({"float16", "bfloat16", "float8"})
# Share of a router's choices that more than rounding has changed, and as much again for each step
# of an optimizer. Of bfloat16 and other rounding of products at most 0.03, 0.09 and 0.16 in three
# steps of 32 tokens (tests/precision).
_MOST = 0.1
# The square of a distance by the share of choices: routers' gradients reach 8.1 there.
_REACH = 9.0
_ACTIVATIONS = frozenset(
    {TensorKind.INPUT, TensorKind.OUTPUT} | {TensorKind.INPUT_GRADIENT, TensorKind.OUTPUT_GRADIENT}
)

Run = Sequence[TensorRecord]


class ChangedChoices(msgspec.Struct, frozen=True):
    shares: dict[tuple[int, str], float]

    def reach(self, record: TensorRecord, called: set[tuple[int, str]]) -> float:
        """How far apart they let a tensor be, after the routers that were ``called``."""
        shares = [
            share
            for (step, router), share in self.shares.items()
            if step < record.step or (step, router) in called
        ]
        return math.sqrt(_REACH * max(shares, default=0.0))

    def concern(self, record: TensorRecord) -> bool:
        """Whether a tensor's rows differ: beside a router, or a part of what is."""
        return record.kind in _ACTIVATIONS and any(
            step == record.step
            and record.name != router
            and record.name.startswith(f"{router.rpartition('.')[0]}.")
            for step, router in self.shares
        )


NONE = ChangedChoices({})


def find_changed_choices(ranks: Iterable[tuple[Run, Run]]) -> ChangedChoices:
    shares: dict[tuple[int, str], float] = {}
    for reference, other in ranks:
        chosen = {record.key: record for record in other if _is_choice(record)}
        format_: str | None = None
        for record in reference:
            format_ = coarsest(format_, format_of(record.dtype))
            if _is_choice(record) and format_ in COARSE:
                call = (record.step, record.name)
                share = _share_of_changes(record, chosen)
                if 0 < share <= _MOST * (1 + record.step):
                    shares[call] = max(share, shares.get(call, 0.0))
    return ChangedChoices(shares) if shares else NONE


def _is_choice(record: TensorRecord) -> bool:
    return record.kind is TensorKind.OUTPUT and record.dtype == "bool"


def _share_of_changes(record: TensorRecord, chosen: Mapping[TensorKey, TensorRecord]) -> float:
    counterpart = chosen.get(record.key)
    if counterpart is None or counterpart.shape != record.shape or not record.norm:
        return 0.0
    pairs = list(zip(record.projections, counterpart.projections, strict=False))
    if not pairs:
        return 0.0
    changed = sum((left - right) ** 2 for left, right in pairs) / len(pairs)
    return changed / record.norm**2
