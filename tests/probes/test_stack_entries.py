from pathlib import Path

import pytest

from ascend_doctor.findings import Level
from tests.probes.judged import judge_probes
from tests.probes.standins import ran, write_files

pytestmark = pytest.mark.slow

PROBE = "entry-points"
FIRST = "import mindspeed.megatron_adaptor\n"
LATE = "import megatron.core.optimizer\n"
ENGINE = "verl/workers/engine/mindspeed/transformer_impl.py"
FRAMEWORKS = {
    "mcore_bridge/__init__.py": LATE,
    "swift/__init__.py": "",
    "swift/megatron/__init__.py": FIRST + LATE,
    "twinkle/__init__.py": "",
    "twinkle/model/megatron/__init__.py": "",
    "twinkle/model/megatron/megatron.py": FIRST + LATE,
    "verl/__init__.py": "",
    ENGINE: FIRST + LATE,
}
FLA = {"fla/__init__.py": "", "fla/ops/gated_delta_rule.py": "def chunk_gated_delta_rule(): ...\n"}


def test_frameworks_that_import_in_the_right_order(tmp_path: Path) -> None:
    run = ran(PROBE, write_files(tmp_path, FRAMEWORKS))
    (imports,) = judge_probes(run, check="framework-imports")
    assert (imports.level, imports.observed) == (Level.OK, "mcore_bridge, swift, twinkle, verl")
    assert [finding.level for finding in judge_probes(run, check="framework-order")] == [Level.OK]
    assert [finding.level for finding in judge_probes(run, check="registry")] == [Level.OK]
    absent = run.ranks[0].values["absent"]
    assert absent["verl-actor"] == "this verl has no verl.workers.actor.megatron_actor"
    assert absent["verl-engine"] == "not for npu"
    assert absent["megatron-adaptor"] == "megatron_adaptor is not installed"


@pytest.mark.parametrize("file", ["swift/megatron/__init__.py", ENGINE])
def test_a_framework_that_imports_megatron_first_is_found(tmp_path: Path, file: str) -> None:
    run = ran(PROBE, write_files(tmp_path, {**FRAMEWORKS, file: LATE + FIRST}))
    (finding,) = judge_probes(run, check="framework-order")
    assert finding.level is Level.ERROR
    assert finding.title.startswith(("ms-swift", "verl-engine-npu"))
    assert f"{file}:1" in finding.observed
    assert "optimizer.USING_PYTORCH_OPTIMIZER is True" in finding.observed


def test_a_framework_that_cannot_be_imported_is_found(tmp_path: Path) -> None:
    run = ran(PROBE, write_files(tmp_path, {**FRAMEWORKS, ENGINE: "import ray_of_light\n"}))
    rest, finding = judge_probes(run, check="framework-imports")
    assert finding.level is Level.ERROR
    assert finding.observed == "ModuleNotFoundError: No module named 'ray_of_light'"
    assert rest.level is Level.OK
    cpu = {"swift/__init__.py": "", "swift/megatron/__init__.py": "import nothing_there\n"}
    run = ran(PROBE, write_files(tmp_path, cpu), device="cpu")
    *_, finding = judge_probes(run, check="framework-imports")
    assert finding.level is Level.WARNING


def test_a_registry_that_imports_megatron_is_found(tmp_path: Path) -> None:
    early = {"twinkle/model/megatron/__init__.py": "import megatron.core\n"}
    run = ran(PROBE, write_files(tmp_path, {**FRAMEWORKS, **early}))
    (named,) = judge_probes(run, check="registry")
    assert named.level is Level.WARNING
    assert "twinkle/model/megatron/__init__.py:1" in named.observed
    (order,) = judge_probes(run, check="framework-order")
    assert order.title == "twinkle imports Megatron before MindSpeed"


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ("", Level.OK),
        (
            "import fla.ops.gated_delta_rule as rule\nrule.chunk_gated_delta_rule = repatch\n",
            Level.WARNING,
        ),
    ],
)
def test_who_owns_the_rule(tmp_path: Path, more: str, level: Level) -> None:
    folder = write_files(tmp_path, FLA)
    adaptor = folder / "mindspeed" / "megatron_adaptor.py"
    adaptor.write_text(adaptor.read_text() + more)
    (finding,) = judge_probes(ran(PROBE, folder), check="fla-owner")
    assert finding.level is level


def test_without_frameworks_it_is_skipped(tmp_path: Path) -> None:
    run = ran(PROBE, write_files(tmp_path), device="cpu")
    assert run.ranks[0].skipped == "no framework that brings in Megatron is installed"
