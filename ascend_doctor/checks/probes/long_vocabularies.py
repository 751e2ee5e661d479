"""Sharded vocabularies, gathered sequences and their masks, judged."""

from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.judging import Case, Finding, Findings, Texts, Unknown, note
from ascend_doctor.probe_records.operators import (
    InPlaceRow,
    MaskRecord,
    VocabularyRecord,
    VocabularyRow,
)
from ascend_doctor.probe_results import ProbeResult, ProbeRun

TEXTS = Texts("long-vocabularies")

# As the probe draws (vocab_parallel_logprob.py): chunks and so collectives depend on it.
_TOKENS = 6
# Seen on a CPU: 1.1e-7 and 7e-9 from float64.
_VALUE_OFF = 1e-5
_GRADIENT_OFF = 1e-6
_NOTICED = "modified by an inplace operation"


def collectives(tokens: int, chunk: int | None) -> tuple[int, int]:
    """All-reduces of log-probabilities, forward and backward, at this many tokens a time."""
    if chunk is None:
        return 3, 0
    chunks = -(-tokens // chunk)
    return 3 * chunks, 2 * chunks


@TEXTS.check("vocab-parallel-logprob", level=3, probe="vocab-parallel-logprob")
def _vocab_parallel_logprob(case: Case) -> Findings:
    run = ran_well(case, "vocab-parallel-logprob")
    findings = [finding for rank in run.ranks for finding in (*_chunks(rank), *_backwards(rank))]
    yield from findings[:1]
    if findings:
        return
    chunks = (16, 128, 256)
    costs = ", ".join(str(sum(collectives(4096, chunk))) for chunk in chunks)
    yield note(
        observed=f"{run.where}; all-reduces of 4096 tokens: {sum(collectives(4096, None))} "
        f"at once, {costs} in chunks of {', '.join(map(str, chunks))}; writing into saved tensors: "
        f"{_count_refusals(run)}"
    )


def _label(chunk: str) -> str:
    return "at once" if chunk == "None" else f"in chunks of {chunk}"


def _chunks(result: ProbeResult) -> Findings:
    record = result.record(VocabularyRecord)
    if record.chunks is None or record.in_place is None:
        raise Unknown(f"rank {result.rank} did not compute everything")
    rows: dict[str, tuple[VocabularyRow, int | None]] = {
        f"log-probabilities {_label(chunk)}": (row, None if chunk == "None" else int(chunk))
        for chunk, row in record.chunks.items()
    }
    if record.cross_entropy:
        rows["the cross entropy of megatron.core"] = (record.cross_entropy, None)
    for what, (row, size) in rows.items():
        value, gradient = float(row.value_off), float(row.gradient_off)
        # Catches NaN, too.
        if not (value <= _VALUE_OFF and gradient <= _GRADIENT_OFF):
            yield _wrong(
                f"{what} are wrong" if "log" in what else f"{what} is wrong",
                f"values are off by {value:.3g}, gradients by {gradient:.3g}",
                f"at most {_VALUE_OFF:g} and {_GRADIENT_OFF:g} from float64",
                result,
            )
        counted, expected = (row.forward, row.backward), collectives(_TOKENS, size)
        if "log" in what and counted != expected:
            yield _wrong(
                f"{what} take other collectives",
                f"{counted[0]} all-reduces forward and {counted[1]} backward",
                f"{expected[0]} and {expected[1]}",
                result,
            )


def _backwards(result: ProbeResult) -> Findings:
    for in_place, order, chunk, row in _rows(result):
        text = row.error or ""
        gradient = float(row.gradient_off)
        if gradient <= _GRADIENT_OFF or (in_place != "none" and _NOTICED in text):
            continue
        where = f"with {order} and log-probabilities {_label(chunk)}"
        if in_place == "none":
            what = f"the gradient of log-probability and entropy is wrong {where}"
        else:
            what = f"autograd does not notice that the {in_place} backward writes in place {where}"
        yield _wrong(
            what,
            text or f"gradients are off by {gradient:.3g}",
            f"at most {_GRADIENT_OFF:g}" + ("" if in_place == "none" else ", or an error"),
            result,
        )


def _rows(result: ProbeResult) -> Iterator[tuple[str, str, str, InPlaceRow]]:
    for in_place, orders in (result.record(VocabularyRecord).in_place or {}).items():
        for order, chunks in orders.items():
            for chunk, row in chunks.items():
                yield in_place, order, chunk, row


def _count_refusals(run: ProbeRun) -> str:
    rows = [row for row in _rows(run.ranks[0]) if row[0] != "none"]
    refused = sum(row.error is not None for *_, row in rows)
    return (
        f"refused by autograd in {refused} of {len(rows)} orders and chunks, harmless in the rest"
    )


def _wrong(title: str, observed: str, required: str, result: ProbeResult) -> Finding:
    return TEXTS.finding(
        "vocab-parallel",
        required=required,
        on_ranks=(result.rank,),
        observed=observed,
        result=result,
        title=title,
    )


@TEXTS.check("sequence-gather", level=3, probe="sequence-gather")
def _sequence_gather(case: Case) -> Findings:
    run = ran_well(case, "sequence-gather")
    yield note(observed=f"{run.where}, {run.compared} results compared")


@TEXTS.check("attention-mask-rebuild", level=2, probe="attention-mask-rebuild")
def _attention_mask_rebuild(case: Case) -> Findings:
    run = ran_well(case, "attention-mask-rebuild")
    left = run.first_record(MaskRecord).left
    if left is None:
        raise Unknown("the probe attention-mask-rebuild did not get this far")
    if left.right_padded:
        yield TEXTS.finding("attention-mask", left=left)
    else:
        yield note(
            observed=f"{run.ranks[0].compared} masks on {run.device}; padding on the left, "
            f"{left.mask}, would become {left.rebuilt}, and is refused"
        )
