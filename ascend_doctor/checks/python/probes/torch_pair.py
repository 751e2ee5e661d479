"""torch and torch_npu as they were imported."""

from ascend_doctor.checks.probes.run_failures import ran
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown, error
from ascend_doctor.judging.packages import npu_only
from ascend_doctor.judging.packages import torch_pair as remedy
from ascend_doctor.judging.version_compare import leading
from ascend_doctor.probe_records.stack import ImportedModule, InspectEnvRecord

TEXTS = Texts("torch-pair")

# torch_npu 2.7.1.post4 is for torch 2.7.1: what follows is torch_npu's count.
_THREE = 3


@TEXTS.check("torch-pair", level=1, probe="inspect-env")
def torch_pair(case: Case) -> Findings:
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
