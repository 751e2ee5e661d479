"""Small questions to the real megatron.core whose answers are known, judged."""

import msgspec

from ascend_doctor.checks.probes.run_failures import failures, ran
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown, note
from ascend_doctor.judging.packages import find_distribution
from ascend_doctor.probe_records.groups import MegatronCallsRecord
from ascend_doctor.probe_results import ProbeRun

TEXTS = Texts("megatron-calls")

_PROBE = "megatron-calls"
_PLAN = "a plan of"
_DISPATCH = ("https://github.com/huggingface/peft/blob/main/src/peft/tuners/lora/tp_layer.py",)


def _about(run: ProbeRun, plans: bool) -> ProbeRun:
    ranks = tuple(
        msgspec.structs.replace(
            rank, wrong=tuple(w for w in rank.wrong if w.what.startswith(_PLAN) is plans)
        )
        for rank in run.ranks
    )
    return msgspec.structs.replace(run, ranks=ranks)


def _record(run: ProbeRun) -> MegatronCallsRecord:
    record = run.first_record(MegatronCallsRecord)
    if not run.ranks or run.ranks[0].ok is not True or record.megatron is None:
        raise Unknown(f"the probe {_PROBE} failed, see schedule")
    return record


@TEXTS.check("schedule", level=1, probe=_PROBE)
def schedule(case: Case) -> Findings:
    run = _about(ran(case, _PROBE), plans=True)
    broken = [*failures(run)]
    yield from broken
    if not broken:
        plans = _record(run).plans
        refused = [name for name, taken in plans.items() if not taken]
        yield note(observed=f"{len(plans)} plans tried; refused: {', '.join(refused)}")


@TEXTS.check("sample-collection", level=1, probe=_PROBE)
def sample_collection(case: Case) -> Findings:
    run = _about(ran(case, _PROBE), plans=False)
    record = _record(run)
    broken = [*failures(run)]
    yield from broken
    if not broken:
        missing = [
            f"{name}: {counts.first} of {counts.all}" for name, counts in record.collections.items()
        ]
        yield note(observed=", ".join(missing))


@TEXTS.check("peft-on-megatron", level=1, probe=_PROBE)
def peft_on_megatron(case: Case) -> Findings:
    peft = _record(ran(case, _PROBE)).peft
    if peft is None:
        raise NotApplicable("peft is not installed")
    if peft.broken:
        raise Unknown(f"peft cannot be imported: {peft.broken}")
    if not peft.error:
        yield TEXTS.finding("peft-s", peft=peft)
        return
    bridged = case.facts.python is not None and find_distribution(case, "mcore-bridge") is not None
    observed = f"peft {peft.version}: {peft.error}"
    if bridged:
        yield TEXTS.finding("peft-s-2", observed=observed, refs=_DISPATCH)
    else:
        yield TEXTS.finding("peft-s-3", observed=observed, refs=_DISPATCH)
