"""The launch that a plan prints: bash reads it, and lint has nothing to say of it."""

import subprocess

import pytest

from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.shellcheck import run_shellcheck
from ascend_doctor.matrix.models import Model, every, find
from ascend_doctor.planning.launches import environment, launch
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import TrainingRun
from ascend_doctor.planning.ranking import RankBudget, choices
from ascend_doctor.planning.rules import LayoutQuery, fit_delta
from ascend_doctor.planning.weights import rank_parameters
from tests.linting.judged import CATALOG, judge_inputs, mistakes

RUN = TrainingRun(sequence=4096, micro_batch=1, lora=0)
MODELS = every(CATALOG)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=[model.id for model in MODELS])
def test_the_launch_of_a_plan_is_clean(model: Model) -> None:
    asked = LayoutQuery(model=model, run=RUN, megatron="0.16.1")
    ranked = choices(asked, 16, RankBudget(per_node=8))[0]
    text = "#!/bin/bash\n" + "\n".join(launch(asked, ranked, 8)) + "\n"
    subprocess.run(["bash", "-n", "-c", text], check=True, timeout=20)
    inputs = subjects("train.sh", text.encode(), CATALOG, run_shellcheck)
    assert any(each.launch is not None and each.launch.model_sizes for each in inputs)
    judged = mistakes(judge_inputs(inputs, "0.16.1"))
    # No memory is known.
    assert [each for each in judged if each.check != "launch-memory"] == []


def test_gated_delta_nets_are_whole_where_megatron_has_none() -> None:
    model = find(CATALOG, "qwen3-next-80b-a3b")
    new, old = (
        fit_delta(LayoutQuery(model=model, run=RUN, megatron=version))
        for version in ("0.16.1", "0.15.3")
    )
    assert list(environment(new)) == ["export USE_MCORE_GDN=1"]
    assert list(environment(old)) == ["export USE_MCORE_GDN=0"]
    assert list(environment(LayoutQuery(model=find(CATALOG, "qwen3-8b"), run=RUN))) == []
    assert old.model.note.endswith("Every rank of TP has the gated delta nets whole, without CP.")
    split = Layout(npus=16, tp=2, pp=2, ep=4, etp=1)
    alone = Layout(npus=16, pp=2, ep=4, etp=1)

    def dense(asked: LayoutQuery, layout: Layout) -> float:
        return rank_parameters(asked.model, layout, 0).dense

    assert dense(old, alone) == dense(new, alone)
    assert dense(old, split) > dense(new, split)


def test_what_a_node_has_is_asked_for_where_it_is_not_known() -> None:
    asked = LayoutQuery(model=find(CATALOG, "qwen3-8b"), run=RUN)
    ranked = choices(asked, 16, RankBudget())[0]
    assert "export NPROC_PER_NODE=${NPROC_PER_NODE:?}" in launch(asked, ranked, 0)


@pytest.mark.parametrize("name", ["Qwen3-8B", "Qwen/Qwen3-8B", "/data/models/qwen3-8b/"])
def test_a_model_is_found_by_the_last_part_of_its_name(name: str) -> None:
    assert find(CATALOG, name).id == "qwen3-8b"
