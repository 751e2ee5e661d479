"""LoRA adapters on Megatron's parallel layers, judged."""

import math
from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.probe_records.training import AdapterRun, LoraRecord
from ascend_doctor.probe_results import ProbeRun

# Losses of one device agree to 5 digits; HF32 has 10 bits; faults exceed 0.01 in the second step.
_OFF = 5e-3
_EQUAL = 1e-6


@check(
    "lora-sequence-parallel",
    "LoRA is right under sequence parallelism",
    level=3,
    probe="lora-sequence-parallel",
)
def sequence_parallel(case: Case) -> Iterator[Finding]:
    """Adapters are trained over two tensor parallel ranks, with and without the mark they need.

    Under sequence parallelism each tensor parallel rank sees a part of the tokens. The half of an
    adapter that is not sharded (A of a column parallel layer, B of a row parallel one) then has a
    part of its gradient on each rank. Megatron adds these up for parameters with
    ``sequence_parallel = True``, and for no others. Without the mark the halves drift apart, no
    error shows, and the loss even falls a little faster: a better looking, wrong training.

    Three dense steps must have the losses of the same in plain torch, and equal
    halves on both ranks. The unmarked run must drift; if it does not, your megatron.core reduces
    these gradients itself, or the measurement sees nothing.
    """
    run = ran_well(case, "lora-sequence-parallel")
    findings = [
        *_as_whole(run, "marked", "TP2 with sequence parallelism"),
        *_apart(run, "marked", "dense tensor", "sequence"),
    ]
    yield from findings
    if findings:
        return
    drift = _difference(run, "unmarked", "dense tensor")
    text = f"{run.where}: the losses of plain torch, equal adapters"
    if drift <= _EQUAL:
        text += "; without the mark they stay equal, too"
    else:
        text += f"; without the mark sequence_parallel they drift by {drift:.2g} in three steps"
    yield note(observed=text)


@check("lora-experts", "LoRA on experts is right", level=3, probe="lora-experts")
def experts(case: Case) -> Iterator[Finding]:
    """Adapters of experts are trained with expert tensor parallel size (ETP) 1, and with 2.

    LoRA on experts is sound with ETP 1, under any expert parallel size. With more, each rank holds
    a slice of every expert, and the half of an adapter that is not sharded sees the partial sums
    of its own rank: nothing reduces that gradient over the ETP group. The adapters of one expert
    drift apart while the loss looks healthy; what is saved then depends on the rank that saves.
    mcore-bridge refuses it ("Currently, LoRA does not support ETP."), Megatron does not.

    ETP is not 1 by default: left out, it is the tensor parallel size. Set it to 1 both in
    initialize_model_parallel and in the TransformerConfig, or use TP 1, or give adapters to the
    attention alone. That ETP drifts is how Megatron works and no fault of this machine; the probe
    measures it, so that you see it where a release changes that.
    """
    run = ran_well(case, "lora-experts")
    findings = [
        *_apart(run, "ETP1", "expert tensor", "expert tensor"),
        *_apart(run, "ETP1", "expert data", "expert data"),
    ]
    yield from findings
    if findings:
        return
    drift = _difference(run, "ETP2", "expert tensor")
    text = f"{run.where}: with ETP 1 equal adapters"
    if drift <= _EQUAL:
        text += "; with ETP 2 they are equal here, too"
    else:
        text += f"; with ETP 2 they drift by {drift:.2g} in three steps, so keep ETP at 1"
    yield note(observed=text)


@check(
    "lora-tied-embeddings",
    "LoRA works in a pipeline with tied embeddings",
    level=3,
    probe="lora-tied-embeddings",
)
def tied_embeddings(case: Case) -> Iterator[Finding]:
    """Adapters are trained in a pipeline whose output shares the weight of the embedding.

    LoRA freezes the shared weight, so that its gradient is None. The first and the last stage of
    the pipeline add that gradient up all the same: up to 0.12.3 megatron.core hands None to the
    all-reduce, and every first step ends in a TypeError. 0.13.0 and later look first. Nothing is
    wrong without a pipeline, with untied embeddings, or when all weights are trained.

    If you must stay with 0.12, leave the sum out while the weight is frozen: replace
    megatron.core.distributed.finalize_model_grads._allreduce_word_embedding_grads by a function
    that returns at once. The probe tries that and compares the losses with those of plain torch.
    """
    run = ran_well(case, "lora-tied-embeddings")
    findings = [*_judge_tied(run)]
    yield from findings
    if not findings:
        yield note(
            observed=f"{run.where}: the losses of plain torch, "
            f"megatron.core {run.first_record(LoraRecord).megatron}"
        )


def _judge_tied(run: ProbeRun) -> Iterator[Finding]:
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


def _as_whole(run: ProbeRun, name: str, what: str) -> Iterator[Finding]:
    expected, got = _losses(run, "whole"), _losses(run, name)
    if len(got) == len(expected) and all(
        # NaN is not close.
        abs(loss - other) <= _OFF
        for loss, other in zip(got, expected, strict=True)
    ):
        return
    yield error(
        f"{run.probe}: the losses are wrong under {what}",
        observed=", ".join(f"{loss:.5f}" for loss in got) or "none",
        required=", ".join(f"{loss:.5f}" for loss in expected) + ", as in plain torch",
        because="The same weights and data give other gradients.",
    )


def _apart(run: ProbeRun, name: str, group: str, what: str) -> Iterator[Finding]:
    drift = _difference(run, name, group)
    if not drift <= _EQUAL:
        yield error(
            f"{run.probe}: {what} parallel ranks hold different adapters",
            observed=f"they differ by {drift:.3g} after three steps",
            required="equal adapters",
            because="Their gradients were not reduced over the group. The loss may even look "
            "better.",
        )


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
