"""How much longer a step takes under a layout than its arithmetic alone would.

All layouts of a model share out the same arithmetic. What a pipeline waits at both ends of a step
(arXiv 2104.04473, section 2.2: stages - 1 over the micro-batches) and what recomputation repeats
(the forward pass, a third of forward and backward) differ. What communication takes is not counted.
"""

import math

from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import TrainingRun

_RECOMPUTED = 4 / 3
# docs/plan.md has the launches.
STEP_NEARNESS = (
    "step: times the arithmetic alone, for pipelines and recomputation; two published pipelines on "
    "NPUs agree within 5%, TP2 and CP4 took 1.7 and 1.4 times as long (communication)"
)


def relative_step_time(layout: Layout, run: TrainingRun, *, recompute: bool) -> float:
    """1 if no NPU waits for another stage and nothing is recomputed."""
    micro_batches = max(1, math.ceil(run.global_batch / (run.micro_batch * layout.dp)))
    waiting = (micro_batches + layout.pp - 1) / micro_batches
    return waiting * (_RECOMPUTED if recompute else 1.0)
