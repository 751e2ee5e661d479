"""FP8: who has it, and how many tokens it wants a multiple of."""

import math

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown, note
from ascend_doctor.probe_records.operators import Fp8Record

TEXTS = Texts("fp8")

# Token counts need a multiple in FP8 (NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/fp8_utils.py).
ALIGNMENT = {"delayed": 16, "mxfp8": 32}


def alignment(*, tp: int, recipe: str = "delayed") -> int:
    """The multiple that FP8 needs for the token count of a sequence."""
    return math.lcm(tp, ALIGNMENT[recipe])


@TEXTS.check("fp8", level=2, probe="fp8")
def _fp8(case: Case) -> Findings:
    run = ran_well(case, "fp8")
    record = run.first_record(Fp8Record)
    asked = record.alignment or {}
    for recipe, expected in ALIGNMENT.items():
        got = asked.get(recipe)
        if got is not None and got != expected:
            yield TEXTS.finding(
                "fp-megatron", observed=str(got), required=str(expected), got=got, recipe=recipe
            )
            return
    if record.unable is None:
        raise Unknown("the probe fp8 did not get this far")
    if record.unable:
        raise NotApplicable(record.unable)
    yield note(
        observed=f"e4m3 and e5m2 on {run.device}; token counts of a multiple of {alignment(tp=1)}, "
        f"with TP 12 of {alignment(tp=12)}, with mxfp8 of {alignment(tp=1, recipe='mxfp8')}"
    )
