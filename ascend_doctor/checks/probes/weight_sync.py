"""Weights that go from a trainer to its rollouts, judged."""

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.judging import Case, Findings, Texts, note
from ascend_doctor.probe_records.common import ProbeRecord

TEXTS = Texts("weight-sync")

_THROUGH = {
    "plain": "torch's stores and backend",
    "vllm": "vllm-ascend's StatelessProcessGroup and PyHcclCommunicator",
}


@TEXTS.check("weight-sync", level=3, probe="weight-sync")
def _weight_sync(case: Case) -> Findings:
    run = ran_well(case, "weight-sync")
    through = _THROUGH.get(run.first_record(ProbeRecord).through or "", "an unknown way")
    yield note(
        observed=f"{run.world_size - 1} receivers on {run.device}, through {through}, with "
        "either side first"
    )
