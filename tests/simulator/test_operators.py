"""The operators of the simulated NPU, tested by scripts that run where torch_npu is."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ascend_doctor.simulator import Tree
from tests.programs import run_program
from tests.simulator.conftest import Forked

HERE = Path(__file__).parent / "operators"
DEADLINE = 600


def environment(built: Tree, *faults: str) -> dict[str, str]:
    return built.environment(
        os.environ, soc="Ascend910B3", devices=2, memory_bytes=8 << 30, faults=faults
    )


def run(python: Path, env: Mapping[str, str], script: str, *arguments: str) -> list[str]:
    """The standard output of a script, line by line."""
    done = run_program([python, HERE / script, *arguments], check=False, timeout=DEADLINE, env=env)
    return results_of(done)


def results_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def results(lines: list[str], mark: str) -> list[str]:
    return [line.removeprefix(mark) for line in lines if line.startswith(mark)]


@pytest.mark.parametrize(
    ("script", "at_least"),
    [("basics.py", 30), ("fused.py", 92), ("training.py", 12), ("mindspeed_builders.py", 7)],
)
def test_scripts_find_nothing_wrong(forked: Forked, script: str, at_least: int) -> None:
    lines = results_of(forked(HERE / script, devices=2, memory=8 << 30))
    cases = [json.loads(line) for line in results(lines, "CASE ")]
    wrong = [f"{case['case']}: {case['error']}" for case in cases if not case["ok"]]
    assert not wrong, "\n".join(wrong)
    assert len(cases) >= at_least


def test_the_operator_database_of_torch_agrees_but_for_known_differences(
    examined_python: Path, built: Tree
) -> None:
    importable = run_program([examined_python, "-c", "import expecttest"], check=False)
    if importable.returncode:
        pytest.skip("the operator database of torch wants the package expecttest")
    lines = run(examined_python, environment(built), "sweep.py")
    outcomes = dict(json.loads(x) for x in results(lines, "OP "))
    known = json.loads((HERE / "differences.json").read_text(encoding="utf-8"))
    wrong = {name: text for name, text in outcomes.items() if text != "ok" and name not in known}
    assert not wrong
    uninitialised = {name for name, reason in known.items() if reason == "not initialised"}
    assert {n for n in known if outcomes.get(n, "absent") == "ok"} <= uninitialised
    assert len(outcomes) > 600


FAULTS = {
    "kernel-missing op=mm,addmm,matmul": "Cannot find bin of op",
    "fused-softmax-missing": "call aclnnScaledMaskedSoftmax failed, error code is 561103",
    "operators-fail code=561103": "failed, error code is 561103",
    "nonzero-crash": "507018",
    "double-unsupported": "not implemented for DT_DOUBLE",
    "nan step=2": "nan at step 2",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_bites_where_it_is_declared(examined_python: Path, built: Tree, fault: str) -> None:
    lines = run(examined_python, environment(built, fault), "faults.py")
    outcomes = dict(json.loads(line) for line in results(lines, "FAULT "))
    kind = fault.partition(" ")[0]
    assert FAULTS[fault] in outcomes[kind], outcomes
    others = {name: text for name, text in outcomes.items() if name != kind}
    if kind == "operators-fail":
        assert all(text != "ok" for text in others.values())
    elif kind == "nonzero-crash":
        assert "507018" in outcomes["afterwards"], "the device works after the crash"
        assert outcomes["other device"] == "ok"
    else:
        assert set(others.values()) == {"ok"}


def test_a_fault_of_another_device_or_rank_does_not_bite(
    examined_python: Path, built: Tree
) -> None:
    for target in ("device=1", "rank=3"):
        env = environment(built, f"fused-softmax-missing {target}") | {"RANK": "0"}
        outcomes = dict(
            json.loads(x) for x in results(run(examined_python, env, "faults.py"), "FAULT ")
        )
        assert set(outcomes.values()) == {"ok"}
