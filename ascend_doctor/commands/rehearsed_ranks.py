"""What is said of the memory and time of ranks that ran at their true size."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ascend_doctor.findings import show_bytes, spans
from ascend_doctor.render.plain import one_line
from ascend_doctor.simulator.rank_records import RankRecord

_MOST_CLASSES = 16
_OPERATORS_SHOWN = 3
# It holds six launches of eight: docs/records/true-size.md.
_BAND = (0.7, 1.4)
# Library lines below the job's own say where an operator is called, not why.
_BELOW = ("/torch/", "/torch_npu/", "/runpy.py", "<frozen")


def describe_ranks(records: Sequence[RankRecord], memory: int) -> Iterator[str]:
    """Closing lines; ``memory`` is that of an NPU in bytes."""
    if not records:
        yield "no rank used an NPU"
        return
    steps = min(record.steps for record in records)
    yield f"optimizer steps: {steps}; no loss, norm or time that was printed is real"
    yield from describe_memory(records, memory)
    yield from _describe_time(records)
    for assumption in sorted({text for record in records for text in record.assumptions}):
        yield f"assumed: {one_line(assumption)}"


def describe_memory(
    records: Sequence[RankRecord], memory: int, most_classes: int = _MOST_CLASSES
) -> Iterator[str]:
    """A line for each class of ranks, the one with the peak first, and where the peak is."""
    classes: dict[tuple[int, int], list[RankRecord]] = defaultdict(list)
    for record in records:
        classes[record.allocated, record.reserved].append(record)
    for (allocated, reserved), alike in sorted(classes.items(), reverse=True)[:most_classes]:
        yield (
            f"{_name(alike)}: {show_bytes(allocated)} allocated, {show_bytes(reserved)} reserved "
            f"at most; {show_bytes(max(memory - reserved, 0))} of {show_bytes(memory)} are free"
        )
    if len(classes) > most_classes:
        yield f"{len(classes) - most_classes} more kinds of ranks use less"
    yield from _describe_peak(max(records, key=lambda record: record.allocated))


def step_seconds(records: Sequence[RankRecord]) -> float:
    """Computed seconds of a step; 0 if the chip has no documented rates."""
    return max((each.step.seconds for each in records if each.step and each.step.busy), default=0)


def show_step(seconds: float) -> str:
    middle, low, high = (f"{float(f'{seconds * part:.1e}'):g}" for part in (1, *_BAND))
    return f"a step would take about {middle} s ({low} to {high} s)"


def _describe_time(records: Sequence[RankRecord]) -> Iterator[str]:
    timed = [(record.rank, record.step) for record in records if record.step and record.step.busy]
    if not timed:
        return
    rank, step = max(timed, key=lambda row: row[1].busy)
    step_text = show_step(step_seconds(records))
    yield f"{step_text}, computed from the documented rates of the chip"
    arithmetic = step.busy * step.cube / (step.cube + step.memory)
    parts = {
        "arithmetic": arithmetic,
        "memory traffic": step.busy - arithmetic,
        "waiting for transfers and other ranks": step.waited,
        "waiting for the host": step.starved,
    }
    whole = ", ".join(f"{name} {part / step.seconds:.0%}" for name, part in parts.items())
    yield f"rank {rank}: {whole}; {step.calls} calls of operators"
    for each in step.operators[:_OPERATORS_SHOWN]:
        where = next(iter(_own_lines(each.lines)), "")
        share = f"{each.seconds / step.seconds:.0%} in {each.calls} calls"
        at = f", the longest at {one_line(where)}" if where else ""
        yield f"rank {rank}: {each.operator} {share}{at}"


def _name(alike: Sequence[RankRecord]) -> str:
    ranks = spans(record.rank for record in alike)
    return f"rank {ranks}" if len(alike) == 1 else f"ranks {ranks}"


def _describe_peak(record: RankRecord) -> Iterator[str]:
    if record.lines:
        where = one_line(next(iter(_own_lines(record.lines)), record.lines[0]))
        yield f"rank {record.rank}: the peak is in {record.operator}, called at {where}"
    if record.moments:
        parts = (f"{moment} {show_bytes(most)}" for moment, most in record.moments.items())
        yield f"rank {record.rank}: most by moment: {', '.join(parts)}"


def _own_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if not any(part in line for part in _BELOW):
            path, _, rest = line.rpartition(":")
            yield f"{os.path.relpath(path) if os.path.isabs(path) else path}:{rest}"
