"""peft on a real Megatron-LM."""

from pathlib import Path

from ascend_doctor.findings import Level
from tests.acceptance import needs
from tests.probes.judged import judge_probes
from tests.probes.standins import ran
from tests.probes.test_stack_calls import PROBE


def test_peft_fails_on_megatron_s_layers(tmp_path: Path) -> None:
    # accelerate, which peft takes, imports torch_npu where it is installed.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch_npu'] = None\n")
    run = ran(PROBE, tmp_path, python=needs.first_path("training-python"), device="cpu")
    (finding,) = judge_probes(run, check="peft-on-megatron")
    assert finding.level is Level.WARNING
    assert "KeyError" in finding.observed
