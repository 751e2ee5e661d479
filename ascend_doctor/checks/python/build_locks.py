"""Locks that a killed process left where torch compiles extensions."""

import shlex

from ascend_doctor.facts import BuildLock, BuildLocks
from ascend_doctor.judging import Case, Finding, Findings, Texts, Unknown, error, warning

TEXTS = Texts("build-locks")

_BATON = "https://github.com/pytorch/pytorch/blob/v2.7.1/torch/utils/file_baton.py"
# No extension of Megatron-LM, MindSpeed or DeepSpeed compiles this long.
_HOUR = 3600.0


@TEXTS.check("build-locks")
def build_locks(case: Case) -> Findings:
    section = case.need(BuildLocks)
    locks = [lock for lock in section.locks if _is_of_examined(case, section.source, lock)]
    for lock in locks:
        if lock.holder is None and lock.age is not None:
            yield _report_dead(case, lock)
    untold = [lock.path for lock in locks if lock.age is None]
    if untold:
        raise Unknown(f"who holds {', '.join(untold)} could not be told")


def _is_of_examined(case: Case, root: str, lock: BuildLock) -> bool:
    """Whether the examined Python compiles there: one in torch's own folder is of one release."""
    first, _, rest = lock.path.removeprefix(f"{root}/").partition("/")
    python = case.facts.python
    if "/" not in rest or python is None:
        return True
    major, minor = (*python.version.split("."), "", "")[:2]
    return not first.startswith("py") or first.startswith(f"py{major}{minor}_")


def _report_dead(case: Case, lock: BuildLock) -> Finding:
    age = lock.age or 0.0
    contained = case.facts.host is not None and case.facts.host.container is not None
    sure = (lock.complete and lock.local and not contained) or age > _HOUR
    name = lock.path.rsplit("/", 2)[-2:][0]
    return (error if sure else warning)(
        f"A dead process holds torch's extension {name}"
        if sure
        else f"A dead process may hold torch's extension {name}",
        observed=f"{lock.path}, made {max(round(age / 60), 1)} min ago; no process that can be "
        "seen here holds it",
        required="no lock without a process that compiles",
        because="Every process that uses the extension waits until the file is gone.",
        remedy="Remove the lock"
        if sure
        else "Remove the lock, if nothing is being compiled in another container or machine",
        commands=(f"rm -- {shlex.quote(lock.path)}",),
        refs=(_BATON,),
    )
