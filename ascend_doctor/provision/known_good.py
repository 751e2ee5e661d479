"""The wheels with which a stack was run, in place of a resolution."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec
from packaging.requirements import Requirement

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.evidence import StackRun
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision.lock import LockedSource, Wheel
from ascend_doctor.provision.options import Plan, SetupOptions


def with_known_good(options: SetupOptions, plan: Plan) -> Plan:
    """The plan with the wheels of a run that fits, else as it is.

    Unless asked for they have all run, and replace neither a resolved stack nor a day.
    Raises DataError if they were asked for and no run fits.
    """
    asked, built = options.known_good, options.prefix.is_built(plan.lock.id)
    if asked is False or (asked is None and (built or options.as_of)):
        return plan
    reasons = dict[str, None]()
    for name in plan.lock.stacks:
        for run in (run for run in options.catalog.evidence(name).runs if run.pins):
            if why := next(_differences(run, options, plan), ""):
                reasons[why] = None
            if why or (run.published and not asked):
                continue
            wheels = tuple(_wheel(name, *pin) for name, pin in run.pins.items())
            lock = msgspec.structs.replace(plan.lock, wheels=wheels, as_of="")
            taken = replace(plan, lock=lock, exact=True, requirements=(), constraints=())
            return replace(taken, known_good=run.summary, doubts=(*plan.doubts, *run.differs))
    if asked:
        raise DataError(f"--known-good: {'; '.join(reasons) or 'no run of this stack has a lock'}")
    return plan


def _wheel(name: str, version: str, file: str, sha256: str) -> Wheel:
    source = LockedSource(file=file, sha256=sha256) if file else None
    digest = "" if source else sha256
    return Wheel(name=name, version=version, file="", sha256=digest, source=source)


def _differences(run: StackRun, options: SetupOptions, plan: Plan) -> Iterator[str]:
    lock, there = plan.lock, {name: pin[0] for name, pin in run.pins.items()}
    if (f"cp{run.python.replace('.', '')}", run.arch) != (lock.python.tag, lock.python.arch):
        yield f"a lock is for Python {run.python} on {run.arch}"
    if run.checkouts != {checkout.name: checkout.commit for checkout in lock.checkouts}:
        yield "a lock has other commits"
    asked = {normalised(addition.partition("==")[0]) for addition in options.additions}
    own = {*run.additions, run.framework.partition("==")[0]}
    if more := own - {"", *asked, options.request.framework_name}:
        yield f"a lock has {', '.join(sorted(more))} as well"
    if lock.preserved:
        yield f"a lock has {', '.join(lock.preserved)}, which --keep leaves alone"
    for number, line in enumerate((*plan.requirements, *plan.constraints)):
        requirement = Requirement(line)
        version = there.get(normalised(requirement.name))
        # A constraint binds only what is installed.
        if version is None and number >= len(plan.requirements):
            continue
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            yield f"{line} is asked for, and a lock has {version or 'none'}"
