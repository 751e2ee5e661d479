"""peft on a real Megatron-LM."""

from ascend_doctor.findings import Level
from tests.acceptance import needs
from tests.probes.judged import judge_probes
from tests.probes.standins import ran
from tests.probes.test_stack_calls import PROBE


def test_peft_fails_on_megatron_s_layers() -> None:
    run = ran(PROBE, python=needs.first_path("training-python"), device="cpu")
    (finding,) = judge_probes(run, check="peft-on-megatron")
    assert finding.level is Level.WARNING
    assert "KeyError" in finding.observed
