"""Whether a training that was saved goes on as if it had never stopped."""

from collections.abc import Iterator
from typing import NamedTuple

from ascend_doctor.checks.probes.numbers import against_reference
from ascend_doctor.checks.probes.run_failures import ran
from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.probe_records.common import Number
from ascend_doctor.probe_records.training import (
    LayoutRecord,
    ResumedLayout,
    SavedState,
    SmokeTrainRecord,
)
from ascend_doctor.probe_results import ProbeResult, ProbeRun

# Accelerators may add in varying order; the CPU does not.
_CLOSE = 1e-6
_CLOSE_NORM = 1e-4
# Weights and moments after eight steps against plain torch. A moment of another weight or part is
# off by more than a half. Factors of 10 bits choose other experts, which train on other tokens.
_EXACT_STATE = 1e-3
_ROUNDED_STATE = 0.3
_SWIFT = "https://github.com/modelscope/ms-swift/pull/9460"
_LOADING = (
    "https://github.com/Ascend/MindSpeed/blob/core_r0.16.0/mindspeed/core/megatron_basic/"
    "megatron_basic.py"
)


@check("checkpoint", "Training resumes from a checkpoint unchanged", level=3, probe="smoke-train")
def checkpoint(case: Case) -> Iterator[Finding]:
    """The tiny model is saved after eight of ten steps; fresh processes load it and go on.

    Trainings of all weights are saved as Megatron's own trainer does: megatron.core's
    dist_checkpointing with the distributed optimizer of your stack, once for each way that the
    release has to shard the optimizer's state (distrib_optim_sharding_type). New processes, which
    have never trained, load each into the same layout, and what allows it into another tensor and
    pipeline parallel size. Every weight and every moment is compared with the same training in
    plain torch. Trainings of adapters are saved a file a rank.

    Then every bit of the weights must be what was saved; the loss on batches that were never
    trained on must be the same number; and the last two steps, taken again, must have the losses
    and the gradient norms that they had. The second of them is wrong if the optimizer was not
    restored.

    With MindSpeed core_r0.15.3 saving ends in "AssertionError: steps": its Adam keeps the step of
    each group as a tensor on the NPU, and Megatron counts equal tensors as different numbers.
    MindSpeed core_r0.16.0 saves as fully_reshardable, and loading ends in "NotImplementedError:
    Unknown sharding_type: fully_reshardable".

    If only bits differ, look at the disk and at who else writes there. If only the steps differ,
    the optimizer's state was lost, as it is when adapters alone are saved. Where the ranks are on
    several hosts, Megatron's checkpoints need a file system that all share, and each rank keeps its
    own file.
    """
    run = ran(case, "smoke-train")
    unsaved = [*_judge_saving(run)]
    yield from unsaved
    measured = [
        result for result in run.ranks if result.record(SmokeTrainRecord).resumed is not None
    ]
    if len(measured) < run.world_size:
        if unsaved:
            return
        raise Unknown("the probe smoke-train did not get this far")
    layouts = measured[0].record(SmokeTrainRecord).layouts.items()
    names = [name for name, layout in layouts if not layout.kind.bf16]
    exact = run.device == "cpu" or run.simulated
    unloaded = [
        finding
        for name in names
        for result in measured
        for finding in _judge_loading(result, name, exact, right=_right(run, name))
    ]
    # Other bits on one rank give other numbers on all.
    findings = unloaded[:1] or [
        *(finding for result in measured for name in names for finding in _bits(result, name)),
        *(
            finding
            for result in measured
            for name in names
            for finding in _steps(result, name, exact=run.device == "cpu")
        ),
    ]
    yield from findings[:1]
    if not findings and not unsaved:
        yield note(observed=_well(run, names))


def _well(run: ProbeRun, names: list[str]) -> str:
    resumed = _resumptions(run.ranks[0])
    ways = sorted({way for name in names for way in resumed[name].loaded})
    text = f"{run.where}: {', '.join(names)}; "
    text += "every bit of the weights, the loss on unseen batches, and two steps"
    if ways:
        text += f"; Megatron's checkpoints with the optimizer as {', '.join(ways)}"
    others = sorted(
        _describe_change(name, outcome.layout)
        for name in names
        if (outcome := resumed.get(f"{name} elsewhere")) and outcome.loaded
    )
    return text + (f"; {'; '.join(others)}" if others else "")


def _describe_change(name: str, layout: str | None) -> str:
    return f"{name} loaded as {layout}"


# --- saved and loaded


def _judge_saving(run: ProbeRun) -> Iterator[Finding]:
    for name, layout in run.first_record(SmokeTrainRecord).layouts.items():
        failed = layout.saved and layout.saved.failed
        if failed:
            text = next(iter(failed.values()))
            yield error(
                f"checkpoint: the distributed optimizer cannot be saved under {name}",
                observed=f"{text} ({', '.join(failed)})",
                required="a checkpoint by megatron.core's dist_checkpointing",
                because=_because(text),
                remedy=_remedy(text),
                refs=(_SWIFT,) if _by_step(text) else (),
            )
            return


def _by_step(text: str) -> bool:
    return text.startswith("AssertionError: steps")


def _because(text: str) -> str:
    if _by_step(text):
        return (
            "MindSpeed's Adam keeps the step of each group of weights as a tensor on the NPU. "
            "Megatron puts them into a set, where equal tensors are different, and finds more than "
            "one. The training dies at its first checkpoint."
        )
    if "_write_item() missing" in text:
        return (
            "The writer of this torch takes an argument that this megatron.core does not give: it "
            "is made for an older torch. The training dies at its first checkpoint."
        )
    if _by_numpy(text):
        return (
            "megatron.core 0.15.3 and older are made for a NumPy below 2. The training dies at its "
            "first checkpoint."
        )
    return "The training dies at its first checkpoint, or goes on without its optimizer."


def _by_numpy(text: str) -> bool:
    return "module 'numpy' has no attribute" in text


def _remedy(text: str) -> Remedy | None:
    if _by_numpy(text):
        return Remedy(summary="Install a NumPy below 2", commands=("pip install 'numpy<2'",))
    if "_write_item() missing" in text:
        return Remedy(
            summary="Save in the older format (--ckpt-format torch), or take Megatron-core 0.13 or "
            "newer, or torch below 2.8"
        )
    if not _by_step(text):
        return None
    return Remedy(
        summary="Use ms-swift 4.3.0 or newer, which turns these steps into numbers while it saves, "
        "with the Megatron-LM of its documents; or save without the optimizer (--no-save-optim)"
    )


def _resumptions(result: ProbeResult) -> dict[str, ResumedLayout]:
    return result.record(SmokeTrainRecord).resumed or {}


def _right(run: ProbeRun, name: str) -> bool:
    """Whether training matched the reference; if not, it is not a measure."""
    layouts = {
        result.rank: result.record(SmokeTrainRecord).layouts.get(name, LayoutRecord())
        for result in run.ranks
    }
    return not any(against_reference(run, name, layouts))


def _judge_loading(
    result: ProbeResult, name: str, exact: bool, *, right: bool
) -> Iterator[Finding]:
    resumed = _resumptions(result)
    places = ((name, resumed.get(name)), (None, resumed.get(f"{name} elsewhere")))
    for same, outcome in places:
        if outcome is None:
            continue
        where = name if same else f"{name}, loaded as {outcome.layout}"
        for way, loaded in outcome.loaded.items():
            if loaded.error is not None:
                yield error(
                    f"checkpoint: what was saved cannot be loaded under {where}",
                    observed=f"{way}: {loaded.error}",
                    required="the training as it was",
                    because=_because_of_loading(loaded.error),
                    remedy=_remedy_of_loading(way, loaded.error, outcome),
                    refs=(_LOADING, _SWIFT) if _by_sharding(loaded.error) else (),
                )
                return
            if not right or loaded.off is None:
                continue
            errors = {
                "weights": loaded.off.weights,
                "the first moments of Adam": loaded.off.first,
                "the second moments of Adam": loaded.off.second,
            }
            off = {
                what: float(error)
                for what, error in errors.items()
                # Catches NaN, too.
                if not float(error) <= (_EXACT_STATE if exact else _ROUNDED_STATE)
            }
            if off:
                yield error(
                    f"checkpoint: what was loaded is not what was trained under {where}",
                    observed=f"{way}: "
                    + ", ".join(f"{what} off by {value:.1%}" for what, value in off.items())
                    + f", on rank {result.rank}",
                    required="the weights and moments of the same training in plain torch",
                    because="Something of it was dropped, or went to another place.",
                    ranks=(result.rank,),
                )
                return


def _by_sharding(text: str) -> bool:
    return text.startswith("NotImplementedError: Unknown sharding_type")


def _because_of_loading(text: str) -> str:
    if _by_sharding(text):
        return (
            "MindSpeed puts a load_state_dict of its own in place of that of Megatron's "
            "distributed optimizer. It does not know this way of sharding, in which Megatron saves "
            "without an error. The training dies when it is to go on."
        )
    return "A checkpoint that cannot be read is found out when it is needed."


def _remedy_of_loading(way: str, text: str, outcome: ResumedLayout) -> Remedy | None:
    if not _by_sharding(text):
        return None
    plain = outcome.loaded.get("dp_reshardable")
    summary = (
        "Load with ms-swift 4.3.0 or newer, which takes Megatron's own function for this; or "
        "without the optimizer (--no-load-optim): Adam then starts anew"
    )
    if way == "fully_reshardable" and plain and plain.error is None:
        summary = (
            "Save without --dist-ckpt-optim-fully-reshardable: as dp_reshardable the optimizer "
            "loads, though not under other tensor, pipeline or expert parallel sizes. What is "
            "saved already loads with ms-swift 4.3.0 or newer, or without the optimizer "
            "(--no-load-optim)"
        )
    return Remedy(summary=summary)


# --- goes on


class Resumption(NamedTuple):
    """A layout before saving, what was saved of it, and what was loaded."""

    before: LayoutRecord
    saved: SavedState
    after: ResumedLayout


def _judge_resumption(result: ProbeResult, name: str) -> Resumption | None:
    before = result.record(SmokeTrainRecord).layouts.get(name, LayoutRecord())
    after = _resumptions(result).get(name)
    if after is None or before.saved is None:
        raise Unknown(f"rank {result.rank} did not resume {name}")
    return Resumption(before, before.saved, after) if after.digest is not None else None


def _bits(result: ProbeResult, name: str) -> Iterator[Finding]:
    resumption = _judge_resumption(result, name)
    if resumption and resumption.after.digest != resumption.saved.digest:
        yield error(
            f"checkpoint: what was loaded is not what was saved under {name}",
            observed=f"the weights of rank {result.rank} differ in at least one bit",
            required="the same bits",
            because="Something changed the file, or the weights on their way to the device.",
            ranks=(result.rank,),
        )


def _steps(result: ProbeResult, name: str, *, exact: bool) -> Iterator[Finding]:
    resumption = _judge_resumption(result, name)
    if resumption is None:
        return
    for what, old, new, close in _pairs(resumption):
        if old == new:
            continue
        # A NaN is never close.
        say = warning if not exact and abs(old - new) <= close else error
        yield say(
            f"checkpoint: {what} is another one after loading under {name}",
            observed=f"{new!r} on rank {result.rank}",
            required=f"{old!r}, as in the process that saved",
            because="Training does not go on from where it was."
            if say is error
            else "Sums on this device depend on their order.",
            ranks=(result.rank,),
        )
        return


def _pairs(resumption: Resumption) -> Iterator[tuple[str, float, float, float]]:
    """Values that must be equal: name, before, after, and an accelerator's tolerance."""
    before, saved, after = resumption
    pairs: list[tuple[str, Number | None, Number | None, float]] = [
        ("the loss on unseen batches", saved.evaluated, after.evaluated, _CLOSE)
    ]
    again = len(after.losses)
    for trained, retrained, what, close in (
        (before.losses, after.losses, "loss", _CLOSE),
        (before.grad_norms, after.grad_norms, "gradient norm", _CLOSE_NORM),
    ):
        steps = zip(trained[-again:], retrained, strict=True)
        first = len(trained) - again + 1
        pairs += [
            (f"the {what} of step {number}", old, new, close)
            for number, (old, new) in enumerate(steps, first)
        ]
    for what, old, new, close in pairs:
        if old is not None and new is not None:
            yield what, float(old), float(new), close
