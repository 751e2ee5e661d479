"""torch and torch_npu as they were imported."""

from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import ran
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error
from ascend_doctor.judging.packages import npu_only
from ascend_doctor.judging.packages import torch_pair as remedy
from ascend_doctor.judging.version_compare import leading
from ascend_doctor.probe_records.stack import ImportedModule, InspectEnvRecord

# torch_npu 2.7.1.post4 is for torch 2.7.1: what follows is torch_npu's count.
_THREE = 3


@check("torch-pair", "The imported torch and torch_npu match", level=1, probe="inspect-env")
def torch_pair(case: Case) -> Iterator[Finding]:
    """The versions that torch and torch_npu report once they are imported.

    The first three numbers must be the same; what follows a plus sign, and .postN, does not count.
    Level 0 compares what pip installed; a copy that stands earlier on the path has another number.
    """
    npu_only(case)
    run = ran(case, "inspect-env")
    modules = run.first_record(InspectEnvRecord).modules
    if modules is None:
        raise Unknown("the probe inspect-env did not get this far")
    if "torch_npu" not in modules:
        raise NotApplicable("torch_npu is not installed")
    torch, without = (
        modules.get(name, ImportedModule()) for name in ("torch", "torch without autoload")
    )
    torch_npu = modules["torch_npu"]
    ours, other = torch.version or without.version, torch_npu.version
    if not ours or not other:
        raise Unknown("one of the two was not imported")
    if leading(ours, _THREE) != leading(other, _THREE):
        yield error(
            f"torch {ours} was imported with torch_npu {other}",
            observed=f"torch {torch.file or without.file}; torch_npu {torch_npu.file}",
            required="the same three numbers",
            because="torch_npu is compiled against one torch: missing symbols, or wrong behaviour.",
            remedy=remedy(case) if case.facts.python else None,
        )
