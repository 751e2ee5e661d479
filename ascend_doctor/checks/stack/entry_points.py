"""Frameworks on top of Megatron: whether they import, and whether MindSpeed comes first."""

from collections.abc import Iterator

import msgspec

from ascend_doctor.checks.probes.run_failures import ran, ran_well, report_late, story
from ascend_doctor.checks.stack.megatron import SWIFT_ON_NPUS
from ascend_doctor.checks.stack.mindspeed_patches import LATE, ORDER, import_order_faults
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.probe_records.stack import EntryCase, EntryPointsRecord

_PROBE = "entry-points"
_OTHERS = ("registry", "fla")


def _cases(case: Case) -> dict[str, EntryCase]:
    """Measurements by entry point. Raises Unknown, and NotApplicable for none."""
    cases = ran(case, _PROBE).first_record(EntryPointsRecord).cases
    if not cases:
        raise Unknown(f"the probe {_PROBE} did not get this far")
    return cases


@check("framework-imports", "Frameworks can import their Megatron side", level=1, probe=_PROBE)
def framework_imports(case: Case) -> Iterator[Finding]:
    """ms-swift, twinkle, verl and mcore-bridge are imported as a training does, each by itself.

    `import verl` works without Megatron; the module that a training needs may not. verl's Megatron
    actor was replaced by engines in April 2026 and is looked for in older releases only. A warning
    of verl that the NPU does not support router replay means that this feature is off, no more.
    MegatronAdaptor and the Transformer Engine for NPUs, on which MindSpeed 0.17 stands, are
    imported as well.
    """
    ran_well(case, _PROBE)
    good = []
    for name, outcome in _cases(case).items():
        if name in _OTHERS:
            continue
        if outcome.is_late:
            yield report_late(f"{name} can import its Megatron side", outcome.error)
        elif outcome.error:
            finding = error(
                f"{name} cannot import its Megatron side",
                observed=story(outcome),
                required="an import without an error",
                because="A training with it ends at its start.",
            )
            yield finding if case.device != "cpu" else _weaker(finding)
        else:
            good.append(outcome.version or name)
    if good:
        yield note(observed=", ".join(good))


def _weaker(finding: Finding) -> Finding:
    """On the CPU frameworks miss what only accelerators have."""
    return msgspec.structs.replace(finding, level=Level.WARNING, because="On cpu it is not used.")


@check("framework-order", "Frameworks import MindSpeed before Megatron", level=1, probe=_PROBE)
def framework_order(case: Case) -> Iterator[Finding]:
    """What import-order proves for MindSpeed alone, for each framework's own way to Megatron.

    mcore-bridge imports Megatron at once, and so does whatever imports mcore-bridge: a framework
    that asks it for a model type before it imports MindSpeed spoils the order.
    """
    judged = 0
    for name, outcome in _cases(case).items():
        if outcome.mindspeed:
            judged += 1
            wrong = import_order_faults(outcome)
            if wrong:
                yield error(
                    f"{name} imports Megatron before MindSpeed",
                    observed=wrong,
                    required="MindSpeed first",
                    because=LATE,
                    remedy=ORDER,
                )
    if not judged:
        raise NotApplicable("nothing that is installed brings MindSpeed in")


@check("registry", "Naming a model type does not import Megatron", level=1, probe=_PROBE)
def registry(case: Case) -> Iterator[Finding]:
    """A framework names model types before it knows which backend is wanted.

    If that imports its registry of Megatron models, megatron.core is there before MindSpeed, and
    import-order is lost for the rest of the process.
    """
    case_of_registry = _cases(case).get("registry")
    if case_of_registry is None:
        raise NotApplicable("no twinkle with Megatron models is installed")
    if case_of_registry.error:
        raise Unknown(case_of_registry.error)
    if case_of_registry.order and case_of_registry.order.stack:
        yield warning(
            "twinkle imports Megatron where it only names a model type",
            observed=f"megatron.core was imported first at {case_of_registry.order.stack[-1]}",
            required="no import of megatron.core",
            because="MindSpeed then comes too late.",
        )


@check("fla-owner", "MindSpeed leaves flash-linear-attention alone", level=1, probe=_PROBE)
def fla_owner(case: Case) -> Iterator[Finding]:
    """Whose chunk_gated_delta_rule is bound, before MindSpeed, after it and after a repatch.

    Some releases redirected it to Triton kernels of MindSpeed; later ones rely on the triton-ascend
    backend that flash-linear-attention has from 0.5.2 on. Which one runs decides what is needed
    beside it, and a repatch replaces it again.
    """
    case_of_fla = _cases(case).get("fla")
    if case_of_fla is None:
        raise NotApplicable("flash-linear-attention and MindSpeed are not both installed")
    if case_of_fla.error:
        raise Unknown(case_of_fla.error)
    owners = case_of_fla.owners
    if len(set(owners.values())) > 1:
        yield warning(
            "MindSpeed replaces chunk_gated_delta_rule of flash-linear-attention",
            observed="; ".join(f"{when}: {owner}" for when, owner in owners.items()),
            required="the same function all the time",
            because="Which kernels run depends on who was imported first.",
            refs=(SWIFT_ON_NPUS,),
        )
