from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.probes.judged import judge_probes
from tests.probes.standins import ran

PROBE = "megatron-calls"

# The scheduler asserts nothing, or the data parallel rank is another rank's.
MUTATIONS = {
    "schedule": """
import megatron.core.optimizer_param_scheduler as one
class Lenient:
    def __init__(self, *_, **__): ...
one.OptimizerParamScheduler = Lenient
""",
    "sample-collection": """
import megatron.core.parallel_state as one
one.get_tensor_model_parallel_rank = lambda: 0
""",
}
TARGETS = {
    "schedule": "megatron.core.optimizer_param_scheduler",
    "sample-collection": "megatron.core.parallel_state",
}
# Runs when the probe asks for a module after Megatron.
HOOK = """
import importlib.machinery, sys
class After:
    def find_spec(self, name, *_):
        if name == {target!r}:
            sys.meta_path.remove(self)
            module = importlib.import_module(name)
            exec({text!r})
            # The import machinery would load it anew by the specification that it has.
            module.__spec__ = importlib.machinery.ModuleSpec(name, self)
            return module.__spec__
    def create_module(self, spec):
        return sys.modules[spec.name]
    def exec_module(self, module): ...
sys.meta_path.insert(0, After())
"""


def test_the_real_megatron(forked_megatron: Path) -> None:
    run = ran(PROBE, python=str(forked_megatron), device="cpu")
    (plans,) = judge_probes(run, check="schedule")
    assert plans.level is Level.OK, plans
    assert plans.observed == (
        "6 plans tried; refused: decay 0 warm-up 0, decay 1 warm-up 1, decay 2 warm-up 2"
    )
    (samples,) = judge_probes(run, check="sample-collection")
    assert samples.observed == "TP2 PP1: 6 of 12, TP2 PP2: 3 of 12, TP1 PP1: 12 of 12"


@pytest.mark.parametrize("check", list(MUTATIONS))
def test_a_mutation_is_found(forked_megatron: Path, tmp_path: Path, check: str) -> None:
    hook = HOOK.format(target=TARGETS[check], text=MUTATIONS[check])
    (tmp_path / "sitecustomize.py").write_text(hook, "utf-8")
    run = ran(PROBE, tmp_path, python=str(forked_megatron), device="cpu")
    for name in MUTATIONS:
        (finding,) = judge_probes(run, check=name)
        assert (finding.level is Level.ERROR) is (name == check), finding


@pytest.mark.parametrize(
    ("values", "ok", "level"),
    [
        ({}, True, Level.SKIPPED),
        ({}, False, Level.UNKNOWN),
        ({"peft": {"version": "0.18.1", "error": "KeyError: 'default'"}}, True, Level.WARNING),
        ({"peft": {"version": "1.0", "error": ""}}, True, Level.OK),
        ({"peft": {"version": "1.0", "error": "", "broken": "no libhccl"}}, True, Level.UNKNOWN),
    ],
)
def test_what_peft_does(values: dict[str, object], ok: bool, level: Level) -> None:
    run = ProbeRun(
        probe=PROBE, exit_code=0, ranks=(ProbeResult(ok=ok, values={"megatron": "1", **values}),)
    )
    assert judge_probes(run, check="peft-on-megatron")[0].level is level
