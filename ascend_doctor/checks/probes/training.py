"""Parallel groups and training steps of the real megatron.core, judged."""

import math
from collections.abc import Mapping
from typing import Literal

from ascend_doctor.checks.probes.nan_origin import origin
from ascend_doctor.checks.probes.numbers import against_reference
from ascend_doctor.checks.probes.run_failures import failures, ran, ran_well, ranks_text
from ascend_doctor.judging import Case, Finding, Findings, Texts, Unknown, note
from ascend_doctor.probe_records.common import ProbeRecord
from ascend_doctor.probe_records.groups import ParallelGroupsRecord
from ascend_doctor.probe_records.training import LayoutRecord, SmokeTrainRecord
from ascend_doctor.probe_results import ProbeResult, ProbeRun

TEXTS = Texts("training")

_MIB = 1 << 20


@TEXTS.check("parallel-groups", level=3, probe="parallel-groups")
def _parallel_groups(case: Case) -> Findings:
    run = ran_well(case, "parallel-groups")
    record = run.first_record(ParallelGroupsRecord)
    layouts = record.layouts
    if not layouts:
        raise Unknown("the probe parallel-groups recorded no layout")
    several = sum(layout.groups for layout in layouts.values())
    text = f"{run.where}: {', '.join(layouts)}; {_stack(run)}"
    used = sum(layout.bytes for layout in layouts.values())
    if used > 0 and several:
        text += f"; {used / several / _MIB:.0f} MiB of device memory for a group"
    if record.group_bytes:
        taken = ", ".join(f"{size / _MIB:.0f}" for size in record.group_bytes)
        text += f"; {taken} MiB for each further group of all ranks (HCCL_BUFFSIZE)"
    yield note(observed=text)


@TEXTS.check("float64-allreduce", level=3, probe="parallel-groups")
def _float64_allreduce(case: Case) -> Findings:
    run = ran(case, "parallel-groups")
    records = {result.rank: result.record(ParallelGroupsRecord) for result in run.ranks}
    sums = {
        rank: record.float64_sum
        for rank, record in records.items()
        if record.float64_sum is not None
    }
    if not sums or len(sums) < len(records):
        raise Unknown("the probe parallel-groups did not get this far")
    expected = sum(range(1, run.world_size + 1))
    lost = tuple(rank for rank, value in sums.items() if value != expected)
    if lost:
        yield TEXTS.finding(
            "lost-sum",
            on_ranks=lost,
            shown=", ".join(f"{sums[rank]:g} on rank {rank}" for rank in lost),
            expected=expected,
        )


# The steps of a layout without any record (STEPS of probes/smoke_train.py).
_STEPS = 10
# Ranks compute the same number in the same order but for the reduction: far less than this apart.
_UNEQUAL = 1e-4
# Far above the time of so small a model; excludes the first step, which may compile.
_SLOW_STEP = 5.0


@TEXTS.check("smoke-train", level=3, probe="smoke-train")
def _smoke_train(case: Case) -> Findings:
    run = ran(case, "smoke-train")
    findings = [*failures(run), *_name_left_out(run)]
    for name in dict.fromkeys(name for result in run.ranks for name in _layouts(result)):
        findings += _judge_layout(run, name)
    yield from findings
    if findings:
        return
    layouts = list(_layouts(run.ranks[0]))
    if not layouts:
        raise Unknown("the probe recorded no layout")
    yield note(
        observed=f"{run.where}: {', '.join(layouts)}; losses, modules and gradients as in plain "
        f"torch in every step; {_kernels(run)}{_stack(run)}"
    )


def _kernels(run: ProbeRun) -> str:
    kernels_used: dict[str, str] = {}
    for layout in _layouts(run.ranks[0]).values():
        kernels_used |= layout.kernels
    if missing := run.first_record(SmokeTrainRecord).not_run:
        return "".join(f"not run: {name}, {reason}; " for name, reason in missing.items())
    if not kernels_used:
        return ""
    text = _in_bfloat16(kernels_used)
    if "context parallelism" not in kernels_used:
        text += "; no context parallelism, which takes an even number of ranks"
    return f"{text}; "


def _in_bfloat16(kernels_used: Mapping[str, str]) -> str:
    listed = ", ".join(f"{what}: {kernel}" for what, kernel in kernels_used.items())
    return f"in bfloat16 with {listed}"


def _layouts(result: ProbeResult) -> Mapping[str, LayoutRecord]:
    return result.record(SmokeTrainRecord).layouts


def _of_ranks(run: ProbeRun, name: str) -> dict[int, LayoutRecord]:
    return {result.rank: _layouts(result).get(name, LayoutRecord()) for result in run.ranks}


def _stack(run: ProbeRun) -> str:
    record = run.first_record(ProbeRecord)
    return f"megatron.core {record.megatron}, through {record.through}"


Series = Literal["losses", "grad_norms", "seconds"]


def _series(run: ProbeRun, name: str, key: Series) -> dict[int, list[float]]:
    series: dict[int, list[float]] = {}
    for rank, layout in _of_ranks(run, name).items():
        by_step = {
            "losses": layout.losses,
            "grad_norms": layout.grad_norms,
            "seconds": layout.seconds,
        }[key]
        numbers = [float(value) for value in by_step if value is not None]
        if numbers and len(numbers) == len(by_step):
            series[rank] = numbers
    return series


def _judge_layout(run: ProbeRun, name: str) -> Findings:
    if bad := _not_finite(run, name):
        yield bad
        return
    yield from _silent(run, name)
    yield from _narrow(run, name)
    yield from against_reference(run, name, _of_ranks(run, name))
    yield from _unequal(run, name, "losses", "mean loss")
    yield from _unequal(run, name, "grad_norms", "gradient norm")
    yield from _apart(run, name)
    slowest = max(
        (max(seconds[1:], default=0.0) for seconds in _series(run, name, "seconds").values()),
        default=0,
    )
    if slowest > _SLOW_STEP and not run.load:
        yield TEXTS.finding("slow-step", name=name, slowest=slowest, slow_step=_SLOW_STEP)


def _not_finite(run: ProbeRun, name: str) -> Finding | None:
    first_steps: dict[tuple[int, str], list[int]] = {}
    series: tuple[tuple[Series, str], ...] = (("losses", "loss"), ("grad_norms", "gradient norm"))
    for key, what in series:
        for rank, values in _series(run, name, key).items():
            steps = [number for number, value in enumerate(values, 1) if not math.isfinite(value)]
            if steps:
                first_steps.setdefault((steps[0], what), []).append(rank)
    if not first_steps:
        return None
    (step, what), ranks = min(first_steps.items(), key=lambda item: item[0][0])
    began = origin(_of_ranks(run, name), step)
    where = [] if began and began.ranks else [ranks_text(ranks)]
    where += [began.text] if began else []
    reason = "The same operators and collectives turn a real training into NaN."
    return TEXTS.finding(
        "smoke-train",
        observed=f"from step {step} on, {'; '.join(where)}",
        because=f"{began.because} {reason}".strip() if began else reason,
        on_ranks=(began and began.ranks) or tuple(ranks),
        name=name,
        what=what,
    )


def _name_left_out(run: ProbeRun) -> Findings:
    for name, reason in run.first_record(SmokeTrainRecord).left_out.items():
        yield TEXTS.finding("left-out", name=name, reason=reason)


def _silent(run: ProbeRun, name: str) -> Findings:
    for result in run.ranks:
        layout = _layouts(result).get(name, LayoutRecord())
        steps, expected = len(layout.grad_norms), layout.steps
        expected = _STEPS if expected is None else expected
        if result.ok and steps < expected:
            yield TEXTS.finding(
                "silent-steps",
                on_ranks=(result.rank,),
                steps=steps,
                expected=expected,
                name=name,
                result=result,
            )
            return


def _narrow(run: ProbeRun, name: str) -> Findings:
    """Requested float32 that is not float32: only this shows it within three steps."""
    texts = {
        "gradients": "gradients are added up and reduced in",
        "optimizer": "the optimizer updates weights of",
    }
    for rank, layout in _of_ranks(run, name).items():
        for what, text in texts.items():
            other = [dtype for dtype in layout.dtypes.get(what, []) if dtype != "float32"]
            if other:
                yield TEXTS.finding(
                    "additions-smaller",
                    title=f"smoke-train: {text} {', '.join(other)} under {name}",
                    observed=f"{', '.join(other)} on rank {rank}",
                    on_ranks=(rank,),
                )
                return


def _unequal(run: ProbeRun, name: str, key: Series, what: str) -> Findings:
    series = _series(run, name, key)
    for number, values in enumerate(zip(*series.values(), strict=False), 1):
        if max(values) - min(values) > _UNEQUAL * max(values):
            by_rank = ", ".join(
                f"rank {rank} {value:.5f}" for rank, value in zip(series, values, strict=True)
            )
            yield TEXTS.finding(
                "unequal-ranks", what=what, number=number, name=name, by_rank=by_rank
            )
            return


def _apart(run: ProbeRun, name: str) -> Findings:
    for rank, layout in _of_ranks(run, name).items():
        differences = ((float(value), group) for group, value in layout.differences.items())
        if apart := [row for row in differences if row[0] > _UNEQUAL]:
            value, group = max(apart)
            yield TEXTS.finding(
                "weights-apart", on_ranks=(rank,), group=group, name=name, value=value, rank=rank
            )
            return
