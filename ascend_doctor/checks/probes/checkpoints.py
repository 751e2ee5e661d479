"""Whether a training that was saved goes on as if it had never stopped."""

from collections.abc import Iterator
from typing import NamedTuple

from ascend_doctor.checks.probes.known_failures import find_failure
from ascend_doctor.checks.probes.numbers import against_reference
from ascend_doctor.checks.probes.run_failures import ran
from ascend_doctor.findings import Finding
from ascend_doctor.judging import Case, Findings, Remedy, Texts, Unknown, error, note, warning
from ascend_doctor.probe_records.common import Number
from ascend_doctor.probe_records.training import (
    LayoutRecord,
    ResumedLayout,
    SavedState,
    SmokeTrainRecord,
)
from ascend_doctor.probe_results import ProbeResult, ProbeRun

TEXTS = Texts("checkpoints")

# Accelerators may add in varying order; the CPU does not.
_CLOSE = 1e-6
_CLOSE_NORM = 1e-4
# Weights and moments after eight steps against plain torch. A moment of another weight or part is
# off by more than a half. Factors of 10 bits choose other experts, which train on other tokens.
_EXACT_STATE = 1e-3
_ROUNDED_STATE = 0.3
_UNSAVED = "The training dies at its first checkpoint, or goes on without its optimizer."
_UNREADABLE = "A checkpoint that cannot be read is found out when it is needed."
_SWIFT = "https://github.com/modelscope/ms-swift/pull/9460"
_OTHER_LOADER = (
    "MindSpeed puts a load_state_dict of its own in place of that of Megatron's distributed "
    "optimizer. It does not know this way of sharding, in which Megatron saves without an error. "
    "The training dies when it is to go on."
)
_LOADING = (
    "https://github.com/Ascend/MindSpeed/blob/core_r0.16.0/mindspeed/core/megatron_basic/"
    "megatron_basic.py"
)


@TEXTS.check("checkpoint", level=3, probe="smoke-train")
def _checkpoint(case: Case) -> Findings:
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
        f"{name} loaded as {outcome.layout}"
        for name in names
        if (outcome := resumed.get(f"{name} elsewhere")) and outcome.loaded
    )
    return text + (f"; {'; '.join(others)}" if others else "")


# --- saved and loaded


class _Known(NamedTuple):
    """What an error of saving or loading means, beyond the catalogue of failures."""

    text: str
    cause: str
    remedy: Remedy | None = None
    refs: tuple[str, ...] = ()

    def finding(self, title: str, observed: str, required: str) -> Finding:
        because, remedy, refs = self.cause, self.remedy, self.refs
        return error(
            title, observed=observed, required=required, because=because, remedy=remedy, refs=refs
        )


_KNOWN = (
    _Known(
        "module 'numpy' has no attribute",
        "megatron.core 0.15.3 and older are made for a NumPy below 2. The training dies at its "
        "first checkpoint.",
        Remedy(summary="Install a NumPy below 2", commands=("pip install 'numpy<2'",)),
    ),
    _Known(
        "Unknown sharding_type: fully_reshardable",
        _OTHER_LOADER,
        Remedy(
            summary="Save without --dist-ckpt-optim-fully-reshardable: as dp_reshardable the "
            "optimizer loads, though not under other tensor, pipeline or expert parallel sizes. "
            "What is saved already loads with ms-swift 4.3.0 or newer, or without the optimizer "
            "(--no-load-optim)"
        ),
        (_LOADING, _SWIFT),
    ),
    _Known(
        "Unknown sharding_type",
        _OTHER_LOADER,
        Remedy(
            summary="Load with ms-swift 4.3.0 or newer, which takes Megatron's own function for "
            "this; or without the optimizer (--no-load-optim): Adam then starts anew"
        ),
        (_LOADING, _SWIFT),
    ),
)


def _explain(text: str, usual: str) -> _Known:
    """By the catalogue, else the rows above; ``usual`` is the cause of an unknown error."""
    if failure := find_failure(text):
        return _Known("", failure.cause, Remedy(summary=failure.fix), failure.sources)
    return next((known for known in _KNOWN if known.text in text), _Known("", usual))


def _judge_saving(run: ProbeRun) -> Findings:
    for name, layout in run.first_record(SmokeTrainRecord).layouts.items():
        if failed := layout.saved and layout.saved.failed:
            text = next(iter(failed.values()))
            yield _explain(text, _UNSAVED).finding(
                f"checkpoint: the distributed optimizer cannot be saved under {name}",
                observed=f"{text} ({', '.join(failed)})",
                required="a checkpoint by megatron.core's dist_checkpointing",
            )
            return


def _resumptions(result: ProbeResult) -> dict[str, ResumedLayout]:
    return result.record(SmokeTrainRecord).resumed or {}


def _right(run: ProbeRun, name: str) -> bool:
    """Whether training matched the reference; if not, it is not a measure."""
    layouts = {
        result.rank: result.record(SmokeTrainRecord).layouts.get(name, LayoutRecord())
        for result in run.ranks
    }
    return not any(against_reference(run, name, layouts))


def _judge_loading(result: ProbeResult, name: str, exact: bool, *, right: bool) -> Findings:
    resumed = _resumptions(result)
    places = ((name, resumed.get(name)), (None, resumed.get(f"{name} elsewhere")))
    for same, outcome in places:
        if outcome is None:
            continue
        where = name if same else f"{name}, loaded as {outcome.layout}"
        for way, loaded in outcome.loaded.items():
            if loaded.error is not None:
                yield _explain(loaded.error, _UNREADABLE).finding(
                    f"checkpoint: what was saved cannot be loaded under {where}",
                    observed=f"{way}: {loaded.error}",
                    required="the training as it was",
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
                yield TEXTS.finding(
                    "checkpoint-what",
                    observed=f"{way}: "
                    + ", ".join(f"{what} off by {value:.1%}" for what, value in off.items())
                    + f", on rank {result.rank}",
                    on_ranks=(result.rank,),
                    where=where,
                )
                return


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


def _bits(result: ProbeResult, name: str) -> Findings:
    resumption = _judge_resumption(result, name)
    if resumption and resumption.after.digest != resumption.saved.digest:
        yield TEXTS.finding("other-bits", on_ranks=(result.rank,), name=name, rank=result.rank)


def _steps(result: ProbeResult, name: str, *, exact: bool) -> Findings:
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
