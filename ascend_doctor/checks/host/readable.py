"""The files of the stack, which the user of a job has to open."""

import shlex

from ascend_doctor.facts import Cann, Python
from ascend_doctor.judging import Case, Findings, Texts
from ascend_doctor.judging.closed import list_closed, list_import_places

TEXTS = Texts("readable")

# Below these a job opens libraries, operators and Python modules.
_OPENED = ("lib64", "atb", "opp", "python")


@TEXTS.check("stack-readable")
def _stack_readable(case: Case) -> Findings:
    cann = case.facts.cann or Cann()
    roots = [*(install.root for install in cann.installs), *(nnal.root for nnal in cann.nnal)]
    roots += [*cann.shell.stale, "/usr/local/Ascend/driver"]
    places = [f"{root}/{part}" for root in roots for part in _OPENED]
    closed = tuple(dict.fromkeys(list_closed(case, *places, *list_import_places(case))))
    if not closed:
        case.need(Python)
        return
    shown = ", ".join(closed[:4])
    yield TEXTS.finding(
        "user-may",
        observed=f"permission denied: {', '.join(closed)}",
        commands=tuple(f"sudo chmod -R a+rX {shlex.quote(path)}" for path in closed[:4]),
        shown=shown,
    )
