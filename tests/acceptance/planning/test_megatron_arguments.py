"""What `plan` takes passes Megatron-LM's parser and validation, and what it refuses does not."""

import random
from collections import Counter
from pathlib import Path

import pytest

from ascend_doctor.judging.layout_rules import splits_sequence
from ascend_doctor.matrix.catalog import folder
from ascend_doctor.planning.memory import TrainingRun
from ascend_doctor.planning.rules import LayoutQuery, broken
from tests.acceptance import clones
from tests.planning.interpreters import run
from tests.planning.test_agreement import COUNT, command, random_layout, random_model

HERE = Path(__file__).parent
# No argument check of Megatron-LM demands these: layers assert them when they are built;
# MindSpeed limits experts.
BEYOND_ARGUMENTS = ("ETP divides the width", "the attention heads are", "a rank holds at most")
BEYOND_CONTEXT = (*BEYOND_ARGUMENTS, "2·CP divides the sequence")
REST = (
    "--max-position-embeddings 8192 --train-iters 1 --lr 1e-4 --transformer-impl local "
    "--untie-embeddings-and-output-weights --disable-bias-linear --global-batch-size"
)


@pytest.mark.parametrize("release", ["0.12.1", "0.15.3", "0.16.1"])
def test_plan_and_megatron_agree(release: str, examined_python: Path, tmp_path: Path) -> None:
    megatron = clones.unpack(tmp_path, "NVIDIA/Megatron-LM", f"core_v{release}", "megatron")
    dice = random.Random(f"2026-11-23 {release}")
    cases, expected = [], []
    for _ in range(COUNT // 8):
        model = random_model(dice)
        run_ = TrainingRun(sequence=dice.choice((4096, 4096, 8192, 1000, 6144)))
        asked = LayoutQuery(model=model, run=run_, megatron=release)
        layout = random_layout(dice, model)
        words = command(asked, layout)[4:]
        size = f"--hidden-size {model.hidden} {REST} {layout.dp or 1}"
        cases.append({"ranks": layout.npus, "words": [*words, *size.split()]})
        # TP divides what CP leaves of a sequence: the layers find out.
        late = BEYOND_ARGUMENTS if not splits_sequence(run_.sequence, layout.cp) else BEYOND_CONTEXT
        refused = [rule.text for rule in broken(asked, layout)]
        expected.append([text for text in refused if not text.startswith(late)])
    arguments = (str(megatron), str(folder("probes")))
    answers = run(examined_python, HERE / "megatron_acceptance.py", cases, arguments=arguments)
    differ = [
        (case, refused, answer)
        for case, refused, answer in zip(cases, expected, answers, strict=True)
        if bool(refused) != bool(answer)
    ]
    count = Counter(map(bool, expected))
    print(release, dict(count), len(differ))  # noqa: T201
    assert min(count.values()) >= COUNT // 50
    assert differ == []
