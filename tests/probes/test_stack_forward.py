import json
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.findings import Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.probes.judged import judge_probes
from tests.probes.standins import ran, write_files
from tests.programs import on_cpu, run_program

PROBES = Path(__file__).parent.parent.parent / "probes"
PROBE = "mindspeed-forward"
GOOD: dict[str, Any] = {
    "types": {"types": {"float16": "torch.cuda.HalfTensor"}, "parameter": "torch.cuda.FloatTensor"},
    "flash": {"off": 1e-3},
    "batch": {"off": 1e-3},
    "neither": {"error": "RuntimeError: Please set micro_batch_size"},
    "ring": {"group": [0, 1], "ring": [0]},
}


def judge_cases(check: str, cases: dict[str, Any]) -> list[Level]:
    result = ProbeResult(ok=True, values={"cases": cases})
    run = ProbeRun(probe=PROBE, device="npu", exit_code=0, ranks=(result,))
    return [finding.level for finding in judge_probes(run, check=check)]


@pytest.mark.parametrize("check", ["type-strings", "use-flash", "cp-ring"])
def test_what_is_right_has_no_complaint(check: str) -> None:
    assert judge_cases(check, GOOD) == [Level.OK]
    assert judge_cases(check, {}) == [Level.UNKNOWN]


@pytest.mark.parametrize(
    ("check", "case", "outcome", "level"),
    [
        ("type-strings", "types", {"types": {"float16": "torch.npu.HalfTensor"}}, Level.ERROR),
        ("type-strings", "types", {"error": "ImportError: x"}, Level.ERROR),
        ("use-flash", "flash", {"off": 0.5}, Level.ERROR),
        ("use-flash", "batch", {"off": "nan"}, Level.ERROR),
        ("use-flash", "flash", {"error": "RuntimeError: EZ9999"}, Level.ERROR),
        ("cp-ring", "ring", {"error": "AssertionError: not initialized"}, Level.ERROR),
        ("cp-ring", "ring", {"group": [0, 1], "ring": [2]}, Level.WARNING),
        ("cp-ring", "ring", {"group": [0, 1]}, Level.UNKNOWN),
    ],
)
def test_what_is_wrong_is_told(
    check: str, case: str, outcome: dict[str, Any], level: Level
) -> None:
    assert level in judge_cases(check, {**GOOD, case: outcome})


# The probe's cases with a wheel's plain Megatron on the CPU, whole and spoilt.
CASES = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
import _cuda_on_cpu, _probe, mindspeed_forward as probe
_probe.leave_folder()
import torch
_cuda_on_cpu.install("cpu", torch)
probe.import_patched = lambda **_: None
import megatron.core
_cuda_on_cpu.after_import(torch)
found = {"types": probe.types(torch, "cpu")}
torch.Tensor.type = lambda *_: "torch.npu.FloatTensor"
found["other types"] = probe.types(torch, "cpu")
utils = types.ModuleType("mindspeed.core.context_parallel.model_parallel_utils")
sys.modules[utils.__name__] = utils
utils.get_ring_ranks_for_intra_window = lambda: [0, 1]
found["ring"] = probe.ring(torch, "cpu")

def fresh():
    from megatron.core import parallel_state
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()

fresh()
found["batch"] = probe.attention(torch, "cpu", softmax_scale=0.25)
fresh()
from megatron.core.fusions import fused_softmax
fused_softmax.get_default_causal_mask = lambda sq: torch.zeros(sq, sq, dtype=torch.bool)
found["unmasked"] = probe.attention(torch, "cpu", softmax_scale=0.25)
print(json.dumps(found))
"""


def test_a_mask_that_is_lost_and_a_wrong_type_are_measured(forked_megatron: Path) -> None:
    done = run_program([forked_megatron, "-W", "ignore", "-c", CASES, PROBES], env=on_cpu())
    values = json.loads(done.stdout.splitlines()[-1])
    assert judge_cases("type-strings", {"types": values["types"]}) == [Level.OK]
    assert judge_cases("type-strings", {"types": values["other types"]}) == [Level.ERROR]
    assert judge_cases("cp-ring", {"ring": values["ring"]}) == [Level.OK]
    assert values["batch"]["off"] < 3e-3
    assert judge_cases("use-flash", {**GOOD, "flash": values["unmasked"]})[0] is Level.ERROR


def test_other_devices_and_no_mindspeed(tmp_path: Path) -> None:
    skipped = ran(PROBE, write_files(tmp_path), device="cpu").ranks[0].skipped
    assert skipped == "MindSpeed is for NPUs; the device is cpu"
    (tmp_path / "none").mkdir()
    assert ran(PROBE, tmp_path / "none").ranks[0].skipped == "mindspeed is not installed"
