"""What to type next where a run ended badly and no line of its logs says why."""

import os
import re
import shlex
from collections.abc import Sequence

from ascend_doctor.diagnosis.result import Diagnosis

# CANN's log folder, unless ASCEND_PROCESS_LOG_PATH names another.
PLOGS = "~/ascend/log"
# Set in simulated machines, which have no such logs.
SIMULATED = "ASCEND_DOCTOR_SIMULATED"
_MOST_NAMED = 3
_OF_CANN = re.compile(r"npu|hccl|acl|ascend|cann|E[A-Z0-9]\d{4}|[125]0\d{4}", re.IGNORECASE)


def choose_next(diagnosis: Diagnosis, logs: Sequence[str]) -> str:
    """A command that may find the cause; empty if it is known, or nothing ended badly.

    CANN's own logs say more than what ranks print. If they were read, the machine is asked.
    """
    explained = diagnosis.causes or diagnosis.stall or diagnosis.outcome == "nothing known found"
    error = next(iter(diagnosis.unexplained), None)
    # CANN's logs say nothing of an exception that Python raised by itself.
    if error and error.kind == "exception" and not _OF_CANN.search(error.evidence.text):
        return ""
    if explained or os.environ.get(SIMULATED):
        return ""
    named = [log for log in logs if log != "-"]
    if any(_has_plogs(log) for log in named):
        return "ascend-doctor check"
    if len(named) > _MOST_NAMED:
        named = [os.path.commonpath([os.path.abspath(log) for log in named])]
    return f"{shlex.join(['ascend-doctor', 'diagnose', *named])} {PLOGS}"


def _has_plogs(path: str) -> bool:
    parts = os.path.abspath(os.path.expanduser(path)).split(os.sep)
    return "plog" in parts or parts[-2:] == ["ascend", "log"] or parts[-1].startswith("plog-")
