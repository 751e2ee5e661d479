"""LoRA adapters on Megatron's parallel layers, judged."""

import math

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.judging import Case, Findings, Texts, Unknown, error, note, warning
from ascend_doctor.probe_records.training import AdapterRun, LoraRecord
from ascend_doctor.probe_results import ProbeRun

TEXTS = Texts("lora")

# Losses of one device agree to 5 digits; HF32 has 10 bits; faults exceed 0.01 in the second step.
_OFF = 5e-3
_EQUAL = 1e-6


@TEXTS.check("lora-sequence-parallel", level=3, probe="lora-sequence-parallel")
def _sequence_parallel(case: Case) -> Findings:
    run = ran_well(case, "lora-sequence-parallel")
    yield from _as_whole(run, "marked", "TP2 with sequence parallelism")
    yield from _apart(run, "marked", "dense tensor", "sequence")
    drift = _difference(run, "unmarked", "dense tensor")
    also = f"drift by {drift:.2g} in three steps" if drift > _EQUAL else "stay equal, too"
    text = f"{run.where}: the losses of plain torch, equal adapters"
    yield note(observed=f"{text}; without the mark sequence_parallel they {also}")


@TEXTS.check("lora-experts", level=3, probe="lora-experts")
def _experts(case: Case) -> Findings:
    run = ran_well(case, "lora-experts")
    yield from _apart(run, "ETP1", "expert tensor", "expert tensor")
    yield from _apart(run, "ETP1", "expert data", "expert data")
    drift = _difference(run, "ETP2", "expert tensor")
    also = f"drift by {drift:.2g} in three steps, so keep ETP at 1"
    also = also if drift > _EQUAL else "are equal here, too"
    yield note(observed=f"{run.where}: with ETP 1 equal adapters; with ETP 2 they {also}")


@TEXTS.check("lora-tied-embeddings", level=3, probe="lora-tied-embeddings")
def _tied_embeddings(case: Case) -> Findings:
    run = ran_well(case, "lora-tied-embeddings")
    yield from _judge_tied(run)
    yield note(
        observed=f"{run.where}: the losses of plain torch, "
        f"megatron.core {run.first_record(LoraRecord).megatron}"
    )


def _judge_tied(run: ProbeRun) -> Findings:
    errors = (result.record(LoraRecord).error for result in run.ranks)
    text = next((error for error in errors if error), "")
    if not text:
        yield from _as_whole(run, "pipeline", "PP2 with tied embeddings")
        return
    wrong = [*_as_whole(run, "mended", "PP2 without that sum")]
    version = run.first_record(LoraRecord).megatron
    say = error if wrong else warning
    yield say(
        "LoRA in a pipeline with tied embeddings fails",
        observed=f"{text}, in the first step with megatron.core {version}",
        required="a step",
        because="The sum of the shared weight's gradient is taken although the weight is frozen."
        + ("" if wrong else " Without that sum the losses are right."),
        remedy="Use megatron.core 0.13.0 or later, untie the embeddings, or leave out "
        "_allreduce_word_embedding_grads while they are frozen",
        refs=(
            "NVIDIA/Megatron-LM@core_v0.12.1:megatron/core/distributed/finalize_model_grads.py:144",
            "NVIDIA/Megatron-LM@core_v0.13.1:megatron/core/distributed/finalize_model_grads.py:149",
        ),
    )
    yield from wrong


def _as_whole(run: ProbeRun, name: str, what: str) -> Findings:
    expected, got = _losses(run, "whole"), _losses(run, name)
    if len(got) == len(expected) and all(
        # NaN is not close.
        abs(loss - other) <= _OFF
        for loss, other in zip(got, expected, strict=True)
    ):
        return
    yield TEXTS.finding(
        "losses-wrong",
        observed=", ".join(f"{loss:.5f}" for loss in got) or "none",
        required=", ".join(f"{loss:.5f}" for loss in expected) + ", as in plain torch",
        run=run,
        what=what,
    )


def _apart(run: ProbeRun, name: str, group: str, what: str) -> Findings:
    drift = _difference(run, name, group)
    if not drift <= _EQUAL:
        yield TEXTS.finding("apart", run=run, what=what, drift=drift)


def _measurements(run: ProbeRun, name: str) -> list[AdapterRun]:
    runs = [result.record(LoraRecord).runs for result in run.ranks]
    if not runs or not all(name in by_name for by_name in runs):
        raise Unknown(f"the probe {run.probe} recorded nothing of {name}")
    return [by_name[name] for by_name in runs]


def _losses(run: ProbeRun, name: str) -> list[float]:
    for measurement in _measurements(run, name):
        losses = [float(loss) for loss in measurement.losses if loss is not None]
        if losses and len(losses) == len(measurement.losses):
            return losses
    raise Unknown(f"the probe {run.probe} recorded no losses of {name}")


def _difference(run: ProbeRun, name: str, group: str) -> float:
    """A NaN is larger than any number."""
    differences = [
        float(measurement.differences[group]) for measurement in _measurements(run, name)
    ]
    return (
        math.nan if any(math.isnan(difference) for difference in differences) else max(differences)
    )
