"""In what two machines differ, in the order of how likely it matters."""

import msgspec

from ascend_doctor.comparison.comparable import ABSENT, ComparedSetting, settings
from ascend_doctor.facts import Snapshot


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One setting with the values of both sides; ``(could not tell)`` where a side has none."""

    group: str
    setting: str
    left: str
    right: str


_UNTOLD = "(could not tell)"


def differences(left: Snapshot, right: Snapshot, stack: frozenset[str]) -> tuple[Difference, ...]:
    """What differs. A list's entry that one side lacks is absent there, if its list was read."""
    sides = (settings(left, stack), settings(right, stack))
    known = sorted({*sides[0], *sides[1]}, key=lambda setting: (setting.group.rank, setting.name))
    rows = []
    for setting in known:
        values = [
            side.get(setting, _lacking(setting, facts))
            for side, facts in zip(sides, (left, right), strict=True)
        ]
        if values[0] != values[1]:
            rows.append(
                Difference(
                    group=setting.group.value, setting=setting.name, left=values[0], right=values[1]
                )
            )
    return tuple(rows)


def _lacking(setting: ComparedSetting, facts: Snapshot) -> str:
    collected = getattr(facts, setting.section) is not None
    return ABSENT if setting.listed and collected else _UNTOLD
