"""What checks make of runs of probes."""

from ascend_doctor.checks import all_checks
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeRun

CATALOG = Catalog()


def judge_probes(*runs: ProbeRun, check: str = "", device: str = "") -> tuple[Finding, ...]:
    """By this check, or by all of the last run's probe."""
    last = runs[-1]
    case = Case(facts=Snapshot(probes=runs), catalog=CATALOG, device=device or last.device or "npu")
    field = "id" if check else "probe"
    return judge(case, [c for c in all_checks() if getattr(c, field) == (check or last.probe)])
