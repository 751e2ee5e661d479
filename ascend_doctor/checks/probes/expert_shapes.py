"""Whether the shapes of experts follow the expert tensor parallel size, judged."""

from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import failures, ran
from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error, note
from ascend_doctor.probe_records.groups import ExpertShapes, ExpertShapesRecord

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


@check("expert-shapes", "Expert weights have the expected shapes", level=3, probe="expert-shapes")
def expert_shapes(case: Case) -> Iterator[Finding]:
    """One small expert is built with every way to say the expert tensor parallel size (ETP).

    ETP has groups of its own since megatron.core 0.10.0, and experts use them in 0.12.1 as well: it
    is not true that releases before 0.13 have none. But it is asked for in two places that know
    nothing of each other. initialize_model_parallel makes the groups, and the shapes follow them;
    TransformerConfig is what weight loaders and adapters read. Each, left out, takes the tensor
    parallel size. If only one is told, loading fails in every release, with "shape '[16, 8]' is
    invalid for input of size 256" and the like.

    Give expert_tensor_parallel_size to both, or to neither; for LoRA on experts give 1 to both.
    The check proves that this stack follows these rules: an error here means that another release,
    or a patch of it, cuts experts otherwise.
    """
    run = ran(case, "expert-shapes")
    findings = [*failures(run)]
    for result in run.ranks if not findings else ():
        ways = result.record(ExpertShapesRecord).ways
        if ways is None or set(ways) != set(_WANTED):
            raise Unknown(f"rank {result.rank} did not build every expert")
        for name, measured in ways.items():
            findings += _otherwise(result.rank, name, measured)
    yield from findings[:1]
    if not findings:
        record = run.first_record(ExpertShapesRecord)
        text = (record.ways or {})["configuration only"].errors.get("fc1", "")
        yield note(
            observed=f"megatron.core {record.megatron}: given to both or to "
            f"neither, weights fit; given to one alone: {text}"
        )


def _otherwise(rank: int, name: str, measured: ExpertShapes) -> Iterator[Finding]:
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
    if differ:
        yield error(
            f"expert-shapes: experts are cut otherwise with ETP given to {name}",
            observed="; ".join(f"{key}: {got.get(key)}" for key in differ) + f", on rank {rank}",
            required="; ".join(f"{key}: {expected[key]}" for key in differ),
            because="Weights of experts do not fit, or, worse, other experts' slices do.",
            ranks=(rank,),
        )
