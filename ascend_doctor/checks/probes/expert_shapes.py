"""Whether the shapes of experts follow the expert tensor parallel size, judged."""

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.judging import Case, Finding, Findings, Texts, Unknown, note
from ascend_doctor.probe_records.groups import ExpertShapes, ExpertShapesRecord

TEXTS = Texts("expert-shapes")

# The sizes of the probe (probes/expert_shapes.py), which a check does not import.
_HIDDEN = 8
_FFN = 16
_TP = 2
# By way: sizes of group and configuration; None is left out: TP, the default of 0.10.0 to 0.19.0.
_WANTED = {
    "neither": (_TP, _TP),
    "both": (1, 1),
    "configuration only": (_TP, 1),
    "groups only": (1, _TP),
}


@TEXTS.check("expert-shapes", level=3, probe="expert-shapes")
def _expert_shapes(case: Case) -> Findings:
    run = ran_well(case, "expert-shapes")
    for result in run.ranks:
        ways = result.record(ExpertShapesRecord).ways
        if ways is None or set(ways) != set(_WANTED):
            raise Unknown(f"rank {result.rank} did not build every expert")
        for name, measured in ways.items():
            if different := _otherwise(result.rank, name, measured):
                yield different
                return
    record = run.first_record(ExpertShapesRecord)
    text = (record.ways or {})["configuration only"].errors.get("fc1", "")
    yield note(
        observed=f"megatron.core {record.megatron}: given to both or to "
        f"neither, weights fit; given to one alone: {text}"
    )


def _otherwise(rank: int, name: str, measured: ExpertShapes) -> Finding | None:
    group, configuration = _WANTED[name]
    expected = {
        "group": group,
        "configuration": configuration,
        "fc1": [2 * _FFN // group, _HIDDEN],
        "fc2": [_HIDDEN, _FFN // group],
        "fits": group == configuration,
    }
    got = measured.fields()
    differ = [key for key, value in expected.items() if got.get(key) != value]
    if not differ:
        return None
    return TEXTS.finding(
        "expert-shapes",
        observed="; ".join(f"{key}: {got.get(key)}" for key in differ) + f", on rank {rank}",
        required="; ".join(f"{key}: {expected[key]}" for key in differ),
        on_ranks=(rank,),
        name=name,
    )
