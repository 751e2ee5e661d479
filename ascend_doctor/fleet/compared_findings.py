"""What a comparison of machines finds: fewer NPUs, other settings, shared addresses, slow nodes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ascend_doctor.comparison.comparable import DEVICE_FILES, Group
from ascend_doctor.findings import Finding, Level, Remedy, first_of, quantity
from ascend_doctor.fleet.merge import Merged
from ascend_doctor.fleet.outliers import far_below, more_is_worse, outliers
from ascend_doctor.report import Differing, Drift

_NAMED = 8
_SETTINGS = 2  # as many as a title names


def some(texts: Sequence[str], *, separator: str = "; ") -> str:
    return first_of(texts, _NAMED, separator=separator)


def fewer_npus(drifts: Iterable[Drift]) -> Iterator[Finding]:
    """Nodes with fewer NPUs than most: a rank of the job has none there."""
    for drift in drifts:
        if drift.setting != DEVICE_FILES or drift.majority is None:
            continue
        few = [value for value in drift.values if int(value.value) < int(drift.majority)]
        if few:
            yield Finding(
                check="fleet-npus",
                level=Level.ERROR,
                title="Nodes have fewer NPUs than most",
                observed=some([_on_nodes(value) for value in few]),
                required=f"{quantity(int(drift.majority), 'NPU')}, as on most nodes",
                because="A card that the driver lost leaves a rank of the job without a device.",
                remedy=Remedy(
                    summary="See which cards are gone; merge nodes of another kind apart",
                    commands=("npu-smi info -l", "lspci -d 19e5: | grep -i accelerators"),
                ),
                nodes=tuple(name for differing in few for name in differing.nodes),
            )


def differences(drifts: Iterable[Drift]) -> Iterator[Finding]:
    """Settings in which the same nodes differ from most are one finding."""
    groups: dict[tuple[bool, tuple[str, ...]], list[Drift]] = defaultdict(list)
    for drift in drifts:
        few = tuple(name for value in drift.values for name in value.nodes)
        # Without a majority the odd nodes are unknown, so those are separate.
        groups[drift.majority is not None, few if drift.majority is not None else ()].append(drift)
    for (known, few), group in groups.items():
        stack = [drift for drift in group if drift.group == Group.STACK.value]
        if known:
            yield _difference([*stack, *(each for each in group if each not in stack)], few)
        else:
            for drift in group:
                yield _difference([drift], ())


def _difference(drifts: Sequence[Drift], few: tuple[str, ...]) -> Finding:
    """``drifts`` begin with those of the stack, if there are any."""
    in_stack = drifts[0].group == Group.STACK.value
    names = [drift.setting for drift in drifts]
    if len(names) > _SETTINGS + 1:
        first, more = names[:_SETTINGS], len(names) - _SETTINGS
        title = f"Nodes differ in {', '.join(first)} and {more} more settings"
    elif len(names) > 1:
        title = f"Nodes differ in {', '.join(names[:-1])} and {names[-1]}"
    else:
        title = f"Nodes differ in {names[0]}"
    majority = drifts[0].majority
    return Finding(
        check="fleet-drift",
        level=Level.ERROR if in_stack else Level.WARNING,
        title=title,
        observed=some([_values(drift, named=len(drifts) > 1) for drift in drifts], separator="\n"),
        required=(f"{majority}, as on most nodes" if majority is not None else "one value")
        if len(drifts) == 1
        else "the values of most nodes",
        because="All ranks of a job run the same program only if their stacks are the same."
        if in_stack
        else "A difference between nodes is where a failure on some of them begins.",
        nodes=few,
    )


def _on_nodes(value: Differing) -> str:
    if value.count == 1:
        return f"{value.value} on 1 node"
    return f"{value.value} on {value.count} nodes"


def _values(drift: Drift, *, named: bool) -> str:
    values = some([_on_nodes(value) for value in drift.values])
    return f"{drift.setting}: {values}" if named else values


def shared_addresses(merged: Merged) -> Iterator[Finding]:
    shared = {address: owners for address, owners in merged.addresses.items() if len(owners) > 1}
    if not shared:
        return
    rows = [
        f"{address}: "
        + some(
            [f"{what} of {merged.nodes[number].name}" for number, what in owners], separator=", "
        )
        for address, owners in sorted(shared.items())
    ]
    first, owners = min(shared.items())
    yield Finding(
        check="fleet-duplicate-address",
        level=Level.ERROR,
        title=f"{len(owners)} NPUs have the address {first}"
        if len(shared) == 1
        else f"{len(shared)} addresses belong to more than one NPU each",
        observed=some(rows, separator="\n"),
        because="Packets reach one of them; the others time out.",
        remedy=Remedy(
            summary="Give each NPU an address of its own; `hccn_tool -i N -ip -g` shows it"
        ),
        nodes=merged.names(
            dict.fromkeys(number for owners in shared.values() for number, _ in owners)
        ),
    )


def slow_nodes(merged: Merged) -> Iterator[Finding]:
    """Nodes far from others, a finding per measurement; failed if no job should wait for them."""
    for name, measured in sorted(merged.figures.items()):
        by_node: dict[int, list[float]] = defaultdict(list)
        worse_above = bool(more_is_worse(name))
        for figure in measured:
            by_node[figure.node].append(figure.value)
        worst = max if worse_above else min
        numbers = list(by_node)
        values = [worst(by_node[number]) for number in numbers]
        distant = outliers(values, worse_above=worse_above)
        for fails in (True, False):
            far = [each for each in distant if far_below(each, worse_above=worse_above) is fails]
            if not far:
                continue
            nodes = merged.names(numbers[each.position] for each in far)
            several = len(nodes) > 1
            yield Finding(
                check="fleet-outlier",
                level=Level.ERROR if fails else Level.WARNING,
                title=f"{len(nodes)} nodes stand out in {name}"
                if several
                else f"{nodes[0]} stands out in {name}",
                observed=some(
                    [
                        f"{node} {each.value:g}" if several else f"{each.value:g}"
                        for node, each in zip(nodes, far, strict=True)
                    ]
                ),
                required=f"about {far[0].median:g}, the median of {quantity(len(values), 'node')}",
                because="The slowest rank sets the pace of every step.",
                nodes=nodes,
            )
