"""A stack against its lock."""

import itertools
import shlex

from ascend_doctor.facts import LockedCheckout, LockedWheel, StackLock
from ascend_doctor.judging import (
    Findings,
    NotApplicable,
    Remedy,
    Texts,
    Unknown,
    first_of,
    quantity,
)
from ascend_doctor.judging.judge import Case, error, note, unknown
from ascend_doctor.matrix.versions import VersionError, parse

TEXTS = Texts("stack-lock")


@TEXTS.check("stack-lock")
def stack_lock(case: Case) -> Findings:
    lock = case.need(StackLock)
    if not lock.present:
        raise NotApplicable("no lock was given; --lock FILE")
    if not any(checkout.exists for checkout in lock.checkouts) and not any(
        wheel.installed for wheel in lock.wheels
    ):
        raise Unknown(f"the stack of {lock.source} is not on this machine (looked in {lock.stack})")
    if lock.proof_failed:
        yield TEXTS.finding("stack-did", observed=lock.proof, remedy=_repair(lock))
    checkouts = (_checkout(checkout, _repair(lock)) for checkout in lock.checkouts)
    drifted = list(itertools.chain.from_iterable(checkouts))
    yield from drifted
    wrong = [
        wheel
        for wheel in lock.wheels
        if not (_is_version(wheel) and (wheel.built or wheel.found_sha256 in (None, wheel.sha256)))
    ]
    if wrong:
        yield TEXTS.finding(
            "were-changed",
            title=f"{len(wrong)} of {len(lock.wheels)} packages are not those of the lock",
            observed="; ".join(_describe_wheel(wheel) for wheel in wrong),
            required="; ".join(f"{wheel.name} {wheel.version}" for wheel in wrong),
            remedy=_repair(lock),
            lock=lock,
        )
    edited = lock.edited or ()
    if edited:
        yield TEXTS.finding(
            "other-node",
            title=f"{quantity(len(edited), 'file')} of the environment were edited",
            observed=first_of(edited, 5),
        )
    elif lock.edited is None and any(wheel.installed for wheel in lock.wheels):
        yield TEXTS.finding("whether-files")
    if not (drifted or wrong or edited):
        parts = ", ".join(f"{checkout.name} {checkout.ref}" for checkout in lock.checkouts)
        yield note(
            observed=f"{parts}, {quantity(len(lock.wheels), 'wheel')}; run: {lock.proof or 'never'}"
        )


def _repair(lock: StackLock) -> Remedy:
    """Names the prefix if the stack lies below one, since the default is another."""
    prefix, below, _ = lock.stack.rpartition("/stacks/")
    where = f" --prefix {shlex.quote(prefix)}" if below else ""
    return Remedy(
        summary="Build what the lock says; what is right is left as it is",
        commands=(f"ascend-doctor setup --locked --lock {shlex.quote(lock.source)}{where}",),
    )


def _checkout(checkout: LockedCheckout, repair: Remedy) -> Findings:
    required = f"{checkout.ref} at {checkout.commit}"
    if not checkout.exists:
        yield error(f"The checkout of {checkout.name} is missing", required=required, remedy=repair)
        return
    if checkout.head is None:
        yield unknown(f"The commit of {checkout.name} could not be told", observed=checkout.path)
    elif checkout.head != checkout.commit:
        yield TEXTS.finding(
            "at-another",
            observed=checkout.head,
            required=required,
            remedy=repair,
            checkout=checkout,
        )
    if checkout.dirty:
        where = shlex.quote(checkout.path)
        yield TEXTS.finding("local-changes", observed=checkout.path, checkout=checkout, where=where)
    elif checkout.head is not None and checkout.dirty is None:
        yield TEXTS.finding("whether-local", observed=checkout.path, checkout=checkout)


def _is_version(wheel: LockedWheel) -> bool:
    try:
        return parse("pep440", wheel.installed) == parse("pep440", wheel.version)
    except VersionError:
        return wheel.installed == wheel.version


def _describe_wheel(wheel: LockedWheel) -> str:
    if not wheel.installed:
        return f"{wheel.name} is missing"
    return f"{wheel.name} {wheel.installed}{' from another file' if _is_version(wheel) else ''}"
