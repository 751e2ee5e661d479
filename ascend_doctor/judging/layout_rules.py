"""Which sizes of a layout go together: the rules of `plan` and of `lint`, as numbers.

What a rule demands and who demands it, each of them says in its own words.
"""

from ascend_doctor.matrix.versions import satisfies

# MindSpeed's limit for an expert parallel group on NPUs, which mcore-bridge warns about.
MOST_EXPERTS = 128


def splits_ranks(ranks: int, *sizes: int) -> bool:
    """Whether the product of parallel sizes divides the ranks: TP·PP·CP, and ETP·EP·PP."""
    product = 1
    for size in sizes:
        product *= size
    return ranks % product == 0


def splits_groups(groups: int, tensor: int, megatron: str) -> bool | None:
    """Whether KV heads split; None if Megatron-core decides: from 0.16 on they may divide TP."""
    if groups % tensor == 0:
        return True
    if tensor % groups:
        return False
    return satisfies("pep440", megatron, ">=0.16") if megatron else None


def splits_layers(layers: int, stages: int, first: int | None, last: int | None) -> bool:
    """Whether each pipeline stage has layers; ``first`` and ``last`` are uneven ends."""
    ends = [end for end in (first, last) if end is not None]
    middle, rest = stages - len(ends), layers - sum(ends)
    if any(end < 1 for end in ends) or middle < 0:
        return False
    return rest == 0 if middle == 0 else rest >= middle and rest % middle == 0


def splits_sequence(length: int, context: int) -> bool:
    """Whether CP can split a sequence; each rank takes two parts of it, for balance."""
    return context == 1 or length % (2 * context) == 0


def holds_experts(experts: int, expert_parallel: int) -> bool:
    """Whether no rank has more experts than MindSpeed takes."""
    return experts <= MOST_EXPERTS * expert_parallel
