"""Whether a training that was saved goes on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ascend_doctor.checks.run_failures import ran
from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judge import Case, check, error, note, warning
from ascend_doctor.probe_results import ProbeResult

# Accelerators add up in an order that may change; the CPU does not.
_CLOSE = 1e-6
_CLOSE_NORM = 1e-4


@check("checkpoint", "A saved training goes on as before", level=3, probe="smoke-train")
def checkpoint(case: Case) -> Iterator[Finding]:
    """The tiny model is saved after eight of ten steps; fresh processes load it and go on.

    Each rank saves its adapters and its shards of the optimizer's moments with torch.save. New
    processes, which have never trained, build the same groups and the same model and load it. Then
    every bit of the adapters must be what was saved; the loss on batches that were never trained
    on must be the same number; and the last two steps, taken again, must have the losses and the
    gradient norms that they had. The second of them is wrong if the optimizer was not restored.

    If only bits differ, look at the disk and at who else writes there. If only the steps differ,
    the optimizer's state was lost, as it is when adapters alone are saved.
    """
    run = ran(case, "smoke-train")
    measured = [one for one in run.ranks if isinstance(one.values.get("resumed"), dict)]
    if len(measured) < run.world_size:
        raise Unknown("the probe smoke-train did not come as far")
    names = list(measured[0].values["layouts"])
    exact = run.device == "cpu"
    # Other bits on one rank give other numbers on all.
    findings = [
        *(found for one in measured for name in names for found in _bits(one, name)),
        *(found for one in measured for name in names for found in _steps(one, name, exact=exact)),
    ]
    yield from findings[:1]
    if not findings:
        yield note(
            "A saved training goes on as before",
            found=f"{run.where}: {', '.join(names)}; every bit of the "
            "adapters, the loss on unseen batches, and two steps",
        )


def _resumed(result: ProbeResult, name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What was before saving, and after loading."""
    before, after = result.values["layouts"][name], result.values["resumed"].get(name)
    if not isinstance(after, dict) or "saved" not in before:
        raise Unknown(f"rank {result.rank} did not resume {name}")
    return before, after


def _bits(result: ProbeResult, name: str) -> Iterator[Finding]:
    before, after = _resumed(result, name)
    if after.get("digest") != before["saved"]["digest"]:
        yield error(
            f"checkpoint: what was loaded is not what was saved under {name}",
            found=f"the adapters of rank {result.rank} differ in at least one bit",
            wanted="the same bits",
            because="Something changed the file, or the weights on their way to the device.",
            ranks=(result.rank,),
        )


def _steps(result: ProbeResult, name: str, *, exact: bool) -> Iterator[Finding]:
    before, after = _resumed(result, name)
    for what, old, new, close in _pairs(before, after):
        if old == new:
            continue
        # A NaN is never close.
        say = warning if not exact and abs(old - new) <= close else error
        yield say(
            f"checkpoint: {what} is another one after loading under {name}",
            found=f"{new!r} on rank {result.rank}",
            wanted=f"{old!r}, as in the process that saved",
            because="Training does not go on from where it was."
            if say is error
            else "Sums on this device depend on their order.",
            ranks=(result.rank,),
        )
        return


def _pairs(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, float, float, float]]:
    """What must be equal: its name, before, after, and how much an accelerator may be off."""
    pairs = [("the loss on unseen batches", before["saved"]["evaluated"], after["evaluated"], 0)]
    again = len(after["losses"])
    for key, what, kind in (("losses", "loss", 0), ("grad_norms", "gradient norm", 1)):
        steps = zip(before[key][-again:], after[key], strict=True)
        first = len(before[key]) - again + 1
        pairs += [
            (f"the {what} of step {number}", old, new, kind)
            for number, (old, new) in enumerate(steps, first)
        ]
    for what, old, new, kind in pairs:
        if old is not None and new is not None:
            yield what, float(old), float(new), _CLOSE_NORM if kind else _CLOSE
