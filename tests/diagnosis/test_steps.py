from __future__ import annotations

import pytest

from ascend_doctor.diagnosis.steps import TrainingSteps, read_steps

# As core_v0.15.3 prints them, with a prefix of torchrun and without.
MEGATRON = (
    b"iteration        1/      10 | lm loss: 6.698804E+00 | load_balancing_loss: 1.0E+00 |\n",
    b"[default3]: iteration        2/      10 | consumed samples:            8 | lm loss: nan |\n",
    b"[default2]: iteration        2/      10 | consumed samples:            8 | lm loss: 6.5 |\n",
)
TRAINER = (
    b"{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}\n",
    b"{'loss': '1.5', 'epoch': 0.2}\n",
    b"{'eval_loss': 9.0, 'epoch': 0.2}\n",
)


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        (MEGATRON, TrainingSteps(logged=2, name="lm loss", first=6.698804, last=6.5)),
        (TRAINER, TrainingSteps(logged=2, name="loss", first=2.5, last=1.5)),
        ((b"validation loss at iteration 10 | lm loss value: 6.6\n", b"\xff\xfe\n"), None),
    ],
)
def test_steps_are_read(lines: tuple[bytes, ...], steps: TrainingSteps | None) -> None:
    assert read_steps(lines) == steps
