"""Findings about what files launch: the checks of a launch, with the places of what they judge."""

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from ascend_doctor.facts import Distribution, Environment, Npu, Npus, Python, Snapshot
from ascend_doctor.findings import Finding, Level, Place, Remedy, quantity
from ascend_doctor.judging.env_values import unset
from ascend_doctor.judging.judge import Case, Check, judge
from ascend_doctor.linting.inputs import LintInput
from ascend_doctor.matrix.catalog import Catalog

_NAME = re.compile(r"\b[A-Z][A-Z0-9_]{3,}\b")
_REFUSED = "run-framework-refuses"
_OF_NAMES = frozenset({"run-flags-known", "run-swift-options", "run-verl-keys"})
_SHOWN = frozenset({Level.ERROR, Level.WARNING, Level.UNKNOWN})


def machine(megatron: str, soc: str) -> Snapshot:
    """Facts from the user in place of a machine's."""
    python = npus = None
    if megatron:
        python = Python(distributions=(Distribution(name="megatron-core", version=megatron),))
    if soc:
        npus = Npus(devices=(Npu(npu_id=0, name=soc),), complete=False)
    return Snapshot(python=python, npus=npus)


def findings(
    subject: LintInput,
    base: Snapshot,
    catalog: Catalog,
    chosen: Collection[Check],
    *,
    allow_unresolved: bool = False,
) -> tuple[Finding, ...]:
    """What is wrong with a subject, each with its place. Never raises.

    ``allow_unresolved``: values that only the running shell knows are no reason for "unknown".
    """
    facts = msgspec.structs.replace(
        base,
        launch=subject.launch,
        environment=_laid_over(base.environment, subject.environment),
        script=subject.script,
        shell_script=subject.shell_script,
        pods=subject.pods,
    )
    # A check without a subject in this file is silent.
    mine = [check for check in chosen if _concerns(check, subject)]
    findings = judge(Case(facts=facts, catalog=catalog), mine)
    abstained = tuple(
        dict.fromkeys(finding.check for finding in findings if finding.needs == "values")
    )
    # Where no check judged the launch, what they could not see is the answer.
    levels = {finding.level for finding in findings if finding.check != "launch-resolved"}
    judged = bool(levels - {Level.UNKNOWN, Level.SKIPPED})
    accepted = abstained if allow_unresolved else ()
    merged = _merge_framework(
        _collect_unjudged(finding, abstained, allowed=allow_unresolved)
        if finding.check == "launch-resolved"
        else _place_finding(finding, subject, hidden=judged or finding.check in accepted)
        for finding in findings
    )
    refusals = subject.launch.refusals if subject.launch is not None else None
    if refusals is None or any(each.outcome == "unjudged" for each in refusals):
        return merged
    spots = {None, *(each.location for each in refusals)}
    return tuple(each for each in merged if each.check not in _OF_NAMES or each.location in spots)


def _merge_framework(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    listed = list(findings)
    twice: set[int] = set()
    for words in [each for each in listed if each.check == _REFUSED]:
        for number, finding in enumerate(listed):
            if finding.check != _REFUSED and _is_about(finding, words):
                because = f"{finding.because} {words.because}".strip()
                refs = (*words.refs, *finding.refs)
                listed[number] = msgspec.structs.replace(finding, because=because, refs=refs)
                twice.add(id(words))
                break
    return tuple(each for each in listed if id(each) not in twice)


def _is_about(finding: Finding, words: Finding) -> bool:
    here, there = finding.location, words.location
    if finding.level is not Level.ERROR or here is None or there is None:
        return False
    option = words.observed.partition(" ")[0].strip("-,").replace("-", "_")
    text = f"{finding.title} {finding.observed}".replace("-", "_")
    return (here.file, here.line) == (there.file, there.line) and option in text


def _collect_unjudged(finding: Finding, abstained: tuple[str, ...], *, allowed: bool) -> Finding:
    if finding.level is not Level.UNKNOWN and not abstained:
        return finding
    if not abstained:
        return msgspec.structs.replace(
            finding, level=Level.OK, title="No check needs the values that are not known"
        )
    checks = quantity(len(abstained), "check")
    return msgspec.structs.replace(
        finding,
        level=Level.SKIPPED if allowed else Level.UNKNOWN,
        title=f"{checks} could not judge this launch (--allow-unresolved)"
        if allowed
        else f"{checks} could not judge this launch",
        because=f"Not judged: {', '.join(abstained)}.",
    )


def _concerns(check: Check, subject: LintInput) -> bool:
    facts = (subject.shell_script, subject.pods, subject.script, subject)
    scopes = zip(("shell script", "pod", "entry file", "launch"), facts, strict=True)
    return check.scope == next(scope for scope, fact in scopes if fact is not None)


def _laid_over(machine_: Environment | None, own: Environment | None) -> Environment | None:
    if machine_ is None or own is None:
        return own or machine_
    return msgspec.structs.replace(
        machine_,
        variables={**machine_.variables, **own.variables},
        withheld=tuple(sorted({*machine_.withheld, *own.withheld})),
    )


def _place_finding(finding: Finding, subject: LintInput, *, hidden: bool) -> Finding:
    """Place it at a variable that it names, else at the file's beginning, or skip it."""
    if finding.level is Level.UNKNOWN and not finding.observed and hidden:
        return msgspec.structs.replace(finding, level=Level.SKIPPED)
    if finding.level not in _SHOWN or finding.location is not None:
        return finding
    places = subject.launch.places if subject.launch is not None else {}
    written = _NAME.findall(f"{finding.title} {finding.observed}")
    names = [name for name in dict.fromkeys(written) if name in places]
    if not names:
        return msgspec.structs.replace(finding, location=Place(file=subject.file, line=1))
    where = places[names[0]]
    remedy = _remedy_of_line(finding, names, places)
    return msgspec.structs.replace(finding, location=where, remedy=remedy)


def _remedy_of_line(
    finding: Finding, names: list[str], places: Mapping[str, Place]
) -> Remedy | None:
    if finding.check == "variables-misspelt":
        return Remedy(summary=f"If you meant {finding.required}, write that")
    for count in range(1, len(names) + 1):
        if finding.remedy == unset(*names[:count]):
            sets = names[:count]
            lines = ", ".join(str(places[name].line) for name in sets)
            if count == 1:
                return Remedy(summary=f"Change or take out {sets[0]} in line {lines}")
            return Remedy(summary=f"Change or take out {', '.join(sets)} in lines {lines}")
    return finding.remedy


def unique(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings by place, once each: launches of a file repeat what they share."""
    seen = dict.fromkeys(findings)
    placed = [finding for finding in seen if finding.location is not None]
    rest = [finding for finding in seen if finding.location is None]

    def key(finding: Finding) -> tuple[str, int, int]:
        spot = finding.location or Place(file="", line=0)
        return spot.file, spot.line, spot.column

    return (*sorted(placed, key=key), *rest)
