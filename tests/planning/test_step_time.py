"""Relative step times against published ones of pipelines on NPUs."""

import pytest

from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import TrainingRun
from ascend_doctor.planning.step_time import relative_step_time

# Floating point operations of a sample (6 for each weight and token, and attention's), seconds of a
# step and its samples: Ascend/MindSpeed-LLM@c77308a1:tests/pipeline/legacy/baseline,
# llama2_tp1_pp8_patch_gloo_ptd.json and chatglm3_tp1_pp2_rope.json.
PIPELINES = [
    (Layout(npus=8, pp=8), 1, 1.756e14, 0.8955),
    (Layout(npus=8, pp=2), 8, 3.398e14, 2.7245),
]


def test_pipelines_do_the_same_arithmetic_each_second_but_for_what_they_wait() -> None:
    done, useful = [], []
    for layout, batch, operations, seconds in PIPELINES:
        step = relative_step_time(layout, TrainingRun(global_batch=batch), recompute=False)
        done.append(operations * batch / seconds / layout.npus * step)
        useful.append(operations * batch / seconds / layout.npus)
    assert max(done) / min(done) < 1.05
    # Without the formula they are far apart.
    assert max(useful) / min(useful) > 4


@pytest.mark.parametrize(
    ("layout", "batch", "recompute", "times"),
    [
        (Layout(npus=8), 256, False, 1.0),
        (Layout(npus=8), 256, True, 4 / 3),
        (Layout(npus=8, pp=4), 2, False, 4.0),
        (Layout(npus=8, pp=8), 8, False, 15 / 8),
    ],
)
def test_by_hand(layout: Layout, batch: int, recompute: bool, times: float) -> None:
    run = TrainingRun(global_batch=batch)
    assert relative_step_time(layout, run, recompute=recompute) == pytest.approx(times)
