"""Sharded vocabularies, gathered sequences and their masks, judged."""

from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import failures, ran, ran_well
from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error, note
from ascend_doctor.probe_records.operators import (
    InPlaceRow,
    MaskRecord,
    VocabularyRecord,
    VocabularyRow,
)
from ascend_doctor.probe_results import ProbeResult, ProbeRun

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


@check(
    "vocab-parallel-logprob",
    "Log-probabilities over a sharded vocabulary are right",
    level=3,
    probe="vocab-parallel-logprob",
)
def vocab_parallel_logprob(case: Case) -> Iterator[Finding]:
    """Each rank holds a part of the vocabulary; log-probabilities, entropy and gradients compared.

    Chunks save memory and cost collectives: three all-reduces for each chunk forward and two
    backward, against three and none for all tokens at once. 4096 tokens in chunks of 16 take 1280,
    of 128 they take 160, of 256 they take 80. Take 128 to 256, or what your memory asks for, and
    none where a chunk would hold all tokens anyhow.

    A backward that writes into a saved tensor breaks the other function that saved it. It is told
    of the log-probability alone; the entropy backward that trainers shipped does it as well: it
    subtracts from the shared logits and adds again. Whether an error shows depends on which of the
    two was created first, and whether there are chunks. So it is no cure to swap them: compute out
    of place, in a buffer of your own. The probe tries both orders, and whether autograd on this
    device notices: a wrong gradient without an error is the worst outcome.
    """
    run = ran(case, "vocab-parallel-logprob")
    findings = [*failures(run)]
    for rank in run.ranks if not findings else ():
        findings += _chunks(rank)
        findings += _backwards(rank)
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


def _chunks(result: ProbeResult) -> Iterator[Finding]:
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


def _backwards(result: ProbeResult) -> Iterator[Finding]:
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
    return error(
        f"vocab-parallel-logprob: {title}",
        observed=f"{observed}, on rank {result.rank}",
        required=required,
        because="Ratios of policies are computed from these numbers.",
        ranks=(result.rank,),
    )


@check("sequence-gather", "Gathered sequences are in order", level=3, probe="sequence-gather")
def sequence_gather(case: Case) -> Iterator[Finding]:
    """Parts of a sequence are gathered over tensor parallel ranks with Megatron's own function.

    Under sequence parallelism each rank has a part of the tokens, batch first where trainers see
    it. Transpose to the sequence first, gather, transpose back: block k is then that of rank k.
    Gathering without the transposition mixes samples, and gathering what is whole already doubles
    it: gather only if the length differs from that of the mask. The gradient is summed over ranks
    if each computes something else from the whole, and must only be cut if all compute the same.
    """
    run = ran_well(case, "sequence-gather")
    yield note(observed=f"{run.where}, {run.compared} results compared")


@check(
    "attention-mask-rebuild",
    "Rebuilt padding masks are right",
    level=2,
    probe="attention-mask-rebuild",
)
def attention_mask_rebuild(case: Case) -> Iterator[Finding]:
    """Padding masks are made from lengths on the device, and compared with a loop.

    ``arange(length)[None] < lengths[:, None]`` is the same as filling row by row, for the gathered
    length: that of a rank times TP, not that of a rank. Both are right for padding on the right
    alone. [0, 0, 1, 1], padded on the left, becomes [1, 1, 0, 0]: attention then sees padding and
    misses tokens. Rebuild a mask from lengths only if no token comes after padding.
    """
    run = ran(case, "attention-mask-rebuild")
    findings = [*failures(run)]
    left = run.first_record(MaskRecord).left
    if not findings and left is None:
        raise Unknown("the probe attention-mask-rebuild did not get this far")
    if not findings and left and left.right_padded:
        findings = [
            error(
                "attention-mask-rebuild: padding on the left is not refused",
                observed=f"{left.mask} passes for padding on the right",
                required="it is told apart",
            )
        ]
    yield from findings
    if not findings and left:
        yield note(
            observed=f"{run.ranks[0].compared} masks on {run.device}; padding on the left, "
            f"{left.mask}, would become {left.rebuilt}, and is refused"
        )
