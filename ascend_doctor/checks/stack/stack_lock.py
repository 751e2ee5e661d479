"""A stack against its lock."""

import itertools
import shlex

from ascend_doctor.facts import LockedCheckout, LockedWheel, StackLock
from ascend_doctor.judging import Findings, NotApplicable, Remedy, Unknown, first_of, quantity
from ascend_doctor.judging.judge import Case, check, error, note, unknown
from ascend_doctor.matrix.versions import VersionError, parse


@check("stack-lock", "The stack matches its lock")
def stack_lock(case: Case) -> Findings:
    """Each checkout is at its commit without local changes, and each wheel is the locked one.

    A lock names full commits and the SHA-256 of every wheel, so that all nodes have the same
    stack. A node that differs trains with other code than the rest, which shows up as a hang or
    as other losses, not as an error. Give the lock with --lock FILE.

    The lock also says how the stack was run after it was built, and what did not pass then.

    The hash of an installed wheel is known where pip recorded it (direct_url.json, PEP 610), as it
    does for what setup installs. Python files that are younger than the environment are compared
    with RECORD.
    """
    lock = case.need(StackLock)
    if not lock.present:
        raise NotApplicable("no lock was given; --lock FILE")
    if not any(checkout.exists for checkout in lock.checkouts) and not any(
        wheel.installed for wheel in lock.wheels
    ):
        raise Unknown(f"the stack of {lock.source} is not on this machine (looked in {lock.stack})")
    if lock.proof_failed:
        yield error(
            "The stack did not stand its proof",
            observed=lock.proof,
            required="a stack that imports and steps",
            because="setup built it and does not put it in use.",
            remedy=_repair(lock),
        )
    checkouts = (_checkout(checkout, _repair(lock)) for checkout in lock.checkouts)
    drifted = list(itertools.chain.from_iterable(checkouts))
    yield from drifted
    wrong = [
        wheel
        for wheel in lock.wheels
        if not (_is_version(wheel) and (wheel.built or wheel.found_sha256 in (None, wheel.sha256)))
    ]
    if wrong:
        yield error(
            f"{len(wrong)} of {len(lock.wheels)} packages are not those of the lock",
            observed="; ".join(_describe_wheel(wheel) for wheel in wrong),
            required="; ".join(f"{wheel.name} {wheel.version}" for wheel in wrong),
            because=f"They were changed in {lock.environment} after setup built it.",
            remedy=_repair(lock),
        )
    edited = lock.edited or ()
    if edited:
        yield error(
            f"{quantity(len(edited), 'file')} of the environment were edited",
            observed=first_of(edited, 5),
            required="the files of the locked wheels",
            because="No other node has these changes, and the next setup may remove them.",
            remedy="Keep the changes as a patch; `stack remove` and `setup --locked` build anew",
        )
    elif lock.edited is None and any(wheel.installed for wheel in lock.wheels):
        yield unknown("Whether files of the environment were edited could not be determined")
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
        yield error(
            f"{checkout.name} is at another commit than the lock's",
            observed=checkout.head,
            required=required,
            because="Other nodes with the same lock run other code.",
            remedy=repair,
        )
    if checkout.dirty:
        where = shlex.quote(checkout.path)
        yield error(
            f"{checkout.name} has local changes",
            observed=checkout.path,
            required=f"the files of {checkout.commit}",
            because="The lock does not have them, so no other node has them either.",
            remedy="Keep them elsewhere",
            commands=(f"git -C {where} diff", f"git -C {where} stash"),
        )
    elif checkout.head is not None and checkout.dirty is None:
        yield unknown(
            f"Whether {checkout.name} has local changes could not be told", observed=checkout.path
        )


def _is_version(wheel: LockedWheel) -> bool:
    try:
        return parse("pep440", wheel.installed) == parse("pep440", wheel.version)
    except VersionError:
        return wheel.installed == wheel.version


def _describe_wheel(wheel: LockedWheel) -> str:
    if not wheel.installed:
        return f"{wheel.name} is missing"
    return f"{wheel.name} {wheel.installed}{' from another file' if _is_version(wheel) else ''}"
