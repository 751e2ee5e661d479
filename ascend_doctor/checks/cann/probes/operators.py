"""Operators that are known to crash or to be missing, judged by what their probes measured."""

import re
from typing import TypeVar

from ascend_doctor.checks.probes.run_failures import failures, ran, story
from ascend_doctor.judging import Case, Findings, Remedy, Texts, Unknown, error, note, warning
from ascend_doctor.probe_records.common import ChildOutcome
from ascend_doctor.probe_records.operators import BoolIndexRecord, FusedSoftmaxRecord, SoftmaxCase

TEXTS = Texts("operators")

_Case = TypeVar("_Case", bound=ChildOutcome)

# The fused softmax against a float64 one. bfloat16 keeps 8 bits: a good one shows 2e-3.
_TOLERANCES = {"value": 1e-2, "row_sum": 1e-2, "masked": 1e-3, "gradient": 2e-2}


def read_outcomes(cases: dict[str, _Case] | None) -> dict[str, _Case]:
    """Measurements by case. Raises Unknown where a run has none.

    Omits cases that the probe had no time for if others failed; else their result is unknown.
    """
    if cases is None:
        raise Unknown("the probe recorded no case")
    ended = {name: case for name, case in cases.items() if not case.was_cut_short}
    late = [name for name in cases if name not in ended]
    if late and not any(case.error for case in ended.values()):
        raise Unknown(f"the probe had no more time for {', '.join(late)}")
    return ended


@TEXTS.check("bool-index", level=2, probe="bool-index")
def bool_index(case: Case) -> Findings:
    run = ran(case, "bool-index")
    yield from failures(run)
    outcomes = read_outcomes(run.first_record(BoolIndexRecord).cases)
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.error}
    if failed:
        name, first = next(iter(failed.items()))
        works = "where" in outcomes and not failed.get("where") and outcomes["where"].differ == 0
        yield error(
            f"bool-index: {', '.join(failed)} {'fails' if len(failed) == 1 else 'fail'}",
            observed=f"{name}: {story(first)}",
            required="every masked read and write succeeds",
            because="After one such crash the device refuses everything else that the process "
            "asks of it (507018).",
            remedy=_WHERE if works else None,
            refs=("https://github.com/Ascend/pytorch/issues/153",),
        )
    if any(outcome.differ is None for outcome in outcomes.values()):
        raise Unknown("the probe bool-index did not count what differs")
    yield note(
        observed=f"compared on {run.device}: {', '.join(outcomes)}",
        because="A crash that needs more than this was not reproduced here."
        if run.device == "npu"
        else "",
    )


_WHERE = Remedy(
    summary="Write torch.where(mask, value, x) or x.masked_fill(mask, value) instead of "
    "x[mask] = value, and keep MindSpeed at --optimization-level 2"
)


@TEXTS.check("fused-softmax", level=2, probe="fused-softmax")
def fused_softmax(case: Case) -> Findings:
    run = ran(case, "fused-softmax")
    yield from failures(run)
    record = run.first_record(FusedSoftmaxRecord)
    outcomes = read_outcomes(record.cases)
    usable = "plain" in outcomes and not _problem(outcomes["plain"])
    for name, outcome in outcomes.items():
        problem = _problem(outcome)
        if problem:
            # MindSpeed fuses the 16-bit types only.
            kind = warning if name == "fused float32" else error
            yield kind(
                f"fused-softmax: {name} {_how(outcome)}",
                observed=problem + _absent(record, outcome),
                required="a result within "
                + ", ".join(f"{key} {limit:g}" for key, limit in _TOLERANCES.items()),
                because=""
                if name == "plain"
                else "Training with masked_softmax_fusion stops or runs on with wrong numbers.",
                remedy=_UNFUSED if usable and name != "plain" else None,
            )
    slowest = max((outcome.seconds for outcome in outcomes.values()), default=0.0)
    yield note(observed=f"{', '.join(outcomes)}; slowest {slowest:.1f} s")


_UNFUSED = Remedy(
    summary="Train with masked_softmax_fusion=False (--no-masked-softmax-fusion) and keep flash "
    "attention, or install the operator package (kernels) of this chip and source set_env.sh again"
)


def _problem(outcome: SoftmaxCase) -> str:
    if outcome.error:
        return story(outcome)
    off = [
        f"{key} off by {error}"
        for key, error in outcome.errors.items()
        # Catches NaN, too.
        if error is None or not float(error) <= _TOLERANCES[key]
    ]
    return ", ".join(off)


# Failed compilations in messages of CANN's Python; codes of front end (E1...), operators (EZ...).
_COMPILING = re.compile(r"\btbe\b|\bte_fusion\b|No module named|\bE1\d{4}\b|\bEZ\d{4}\b")


def _how(outcome: SoftmaxCase) -> str:
    if not outcome.error:
        return "is wrong"
    if outcome.is_late:
        return "never ends; a first call compiles"
    return "cannot be compiled" if _COMPILING.search(story(outcome)) else "fails"


def _absent(record: FusedSoftmaxRecord, outcome: SoftmaxCase) -> str:
    absent = [name for name, there in record.packages.items() if not there]
    if not outcome.error:
        return ""
    return f"\ncannot be imported: {', '.join(absent)}" if absent else ""
