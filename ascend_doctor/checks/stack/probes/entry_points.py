"""Frameworks on top of Megatron: whether they import, and whether MindSpeed comes first."""

import msgspec

from ascend_doctor.checks.probes.run_failures import ran, ran_well, report_late, story
from ascend_doctor.checks.stack.megatron import SWIFT_ON_NPUS
from ascend_doctor.checks.stack.probes.mindspeed_patches import LATE, ORDER, import_order_faults
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.judging import Case, Findings, Level, Texts, note
from ascend_doctor.probe_records.stack import EntryCase, EntryPointsRecord

TEXTS = Texts("entry-points")

_PROBE = "entry-points"
_OTHERS = ("registry", "fla")


def _imported(case: Case, name: str, absent: str) -> EntryCase:
    outcome = _cases(case).get(name)
    if outcome is None:
        raise NotApplicable(absent)
    if outcome.error:
        raise Unknown(outcome.error)
    return outcome


def _cases(case: Case) -> dict[str, EntryCase]:
    """Measurements by entry point. Raises Unknown, and NotApplicable for none."""
    cases = ran(case, _PROBE).first_record(EntryPointsRecord).cases
    if not cases:
        raise Unknown(f"the probe {_PROBE} did not get this far")
    return cases


@TEXTS.check("framework-imports", level=1, probe=_PROBE)
def framework_imports(case: Case) -> Findings:
    ran_well(case, _PROBE)
    outcomes = {name: each for name, each in _cases(case).items() if name not in _OTHERS}
    good = [each.version or name for name, each in outcomes.items() if not each.error]
    if good:
        yield note(observed=", ".join(good))
    for name, outcome in outcomes.items():
        if outcome.is_late:
            yield report_late(f"{name} can import its Megatron side", outcome.error)
        elif outcome.error:
            finding = TEXTS.finding("broken-import", name=name, story=story(outcome))
            if case.device == "cpu":  # frameworks miss what only accelerators have
                texts = {"level": Level.WARNING, "because": "On cpu it is not used."}
                finding = msgspec.structs.replace(finding, **texts)
            yield finding


@TEXTS.check("framework-order", level=1, probe=_PROBE)
def framework_order(case: Case) -> Findings:
    judged = 0
    for name, outcome in _cases(case).items():
        if outcome.mindspeed:
            judged += 1
            wrong = import_order_faults(outcome)
            if wrong:
                yield TEXTS.finding(
                    "imports-megatron", observed=wrong, because=LATE, remedy=ORDER, name=name
                )
    if not judged:
        raise NotApplicable("nothing that is installed brings MindSpeed in")


@TEXTS.check("registry", level=1, probe=_PROBE)
def registry(case: Case) -> Findings:
    order = _imported(case, "registry", "no twinkle with Megatron models is installed").order
    if order and order.stack:
        yield TEXTS.finding("early-import", importer=order.stack[-1])


@TEXTS.check("fla-owner", level=1, probe=_PROBE)
def fla_owner(case: Case) -> Findings:
    absent = "flash-linear-attention and MindSpeed are not both installed"
    owners = _imported(case, "fla", absent).owners
    if len(set(owners.values())) > 1:
        yield TEXTS.finding(
            "two-owners",
            refs=(SWIFT_ON_NPUS,),
            owners="; ".join((f"{when}: {owner}" for when, owner in owners.items())),
        )
