"""Small questions to the real megatron.core whose answers are known, judged."""

import msgspec

from ascend_doctor.checks.probes.run_failures import failures, ran
from ascend_doctor.judging import Case, Findings, NotApplicable, Unknown, check, note, warning
from ascend_doctor.judging.packages import find_distribution
from ascend_doctor.probe_records.groups import MegatronCallsRecord
from ascend_doctor.probe_results import ProbeRun

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


@check("schedule", "Megatron's scheduler accepts valid plans", level=1, probe=_PROBE)
def schedule(case: Case) -> Findings:
    """Megatron asserts that a plan has steps to decay, and fewer of warm-up than of decay.

    So a trial run of one step with one step of warm-up dies at its start with an empty
    AssertionError. Give it two steps of decay (--lr-decay-iters 2), or no warm-up.
    """
    run = _about(ran(case, _PROBE), plans=True)
    broken = [*failures(run)]
    yield from broken
    if not broken:
        plans = _record(run).plans
        refused = [name for name, taken in plans.items() if not taken]
        yield note(observed=f"{len(plans)} plans tried; refused: {', '.join(refused)}")


@check("sample-collection", "Results of a batch are collected once", level=1, probe=_PROBE)
def sample_collection(case: Case) -> Findings:
    """With tensor and pipeline parallelism every rank of a model returns the same samples.

    Who collects from all ranks gets each of them TP x PP times, in an order that looks right. The
    ranks to ask are those whose tensor and pipeline parallel ranks are 0; the probe proves with
    Megatron's own groups that they hold every sample once, in the order of the data.
    """
    run = _about(ran(case, _PROBE), plans=False)
    record = _record(run)
    broken = [*failures(run)]
    yield from broken
    if not broken:
        missing = [
            f"{name}: {counts.first} of {counts.all}" for name, counts in record.collections.items()
        ]
        yield note(observed=", ".join(missing))


@check("peft-on-megatron", "peft's LoRA runs on a Megatron layer", level=1, probe=_PROBE)
def peft_on_megatron(case: Case) -> Findings:
    """LoraConfig(megatron_config=...) asks for LoRA layers of peft's own on parallel layers.

    They fail in the releases that were tried: 0.18.1 at the initialisation of weights, 0.21.2 in
    the dispatcher. ms-swift and twinkle bring layers of their own through mcore-bridge, and do not
    need them. The probe wraps one layer and runs it.
    """
    peft = _record(ran(case, _PROBE)).peft
    if peft is None:
        raise NotApplicable("peft is not installed")
    if peft.broken:
        raise Unknown(f"peft cannot be imported: {peft.broken}")
    if not peft.error:
        yield note("peft's own layers for Megatron work", observed=f"peft {peft.version}")
        return
    bridged = case.facts.python is not None and find_distribution(case, "mcore-bridge") is not None
    observed = f"peft {peft.version}: {peft.error}"
    if bridged:
        yield note(
            "peft's own layers for Megatron do not work; mcore-bridge has its own",
            observed=observed,
            refs=_DISPATCH,
        )
    else:
        yield warning(
            "peft's own layers for Megatron do not work",
            observed=observed,
            required="layers that take the pair which a parallel linear layer returns",
            because="Only programs that give LoraConfig a megatron_config use them.",
            remedy="Use the LoraParallelLinear of mcore-bridge",
            refs=_DISPATCH,
        )
