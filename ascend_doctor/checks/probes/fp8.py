"""FP8: who has it, and how many tokens it wants a multiple of."""

import math
from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error, note
from ascend_doctor.probe_records.operators import Fp8Record

# Token counts need a multiple in FP8 (NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/fp8_utils.py).
ALIGNMENT = {"delayed": 16, "mxfp8": 32}


def alignment(*, tp: int, cp: int = 1, packed: bool = False, recipe: str = "delayed") -> int:
    """The multiple that FP8 needs for the token count of a sequence.

    ``packed``: samples share a row, each in two pieces per CP rank (NovaSky-AI/SkyRL@3c96b381f).
    """
    align = ALIGNMENT[recipe]
    if packed or cp > 1:
        return math.lcm(tp * (2 * cp if cp > 1 else 1), align * cp)
    return math.lcm(tp, align)


@check("fp8", "FP8 products are right", level=2, probe="fp8")
def fp8(case: Case) -> Iterator[Finding]:
    """Two FP8 matrices of small whole numbers are multiplied; the product is exact, or wrong.

    NVIDIA GPUs have FP8 from compute capability 8.9. Of Ascend chips the operator tables list FP8
    types for Ascend 950 alone; on Atlas A2 and A3 use bfloat16, or int8 for inference. MindSpeed's
    FP8 features are only registered with --fp8-format.

    FP8 products want token counts that are a multiple of 16, with mxfp8 of 32, on every rank. It is
    not enough to pad to max(TP, 8): for TP 12 that is no multiple of 8, for TP 3 none of 3, and
    with context parallelism it says nothing about FP8. The number is the least common multiple of
    TP and 16; with context parallelism that of TP x 2 CP and 16 CP. TP 1: 16; TP 3: 48; TP 8: 16;
    TP 12: 48; TP 2 with CP 2: 32; mxfp8 with TP 1: 32.
    """
    run = ran_well(case, "fp8")
    record = run.first_record(Fp8Record)
    asked = record.alignment or {}
    for recipe, expected in ALIGNMENT.items():
        got = asked.get(recipe)
        if got is not None and got != expected:
            yield error(
                f"fp8: megatron.core aligns tokens for {recipe} to {got}",
                observed=str(got),
                required=str(expected),
                because="Token counts that were right for other releases are not for this one.",
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
