import pytest

from ascend_doctor.diagnosis.steps import TrainingSteps, read_steps

# As core_v0.15.3 prints them, with and without torchrun's prefix.
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


def test_steps_of_verl_are_read() -> None:
    lines = [
        b"Epoch 1/1:  25%| 2/8 [00:10<00:28]step:3 - train/loss:11.5 - train/lr(1e-3):0.06\n",
        b"step:3 - val/loss:11.8\n",
        b"step:4 - global_seqlen/min:9 - actor/entropy:0.3 - actor/pg_loss:-0.25 - perf/mfu:0\n",
    ]
    steps = read_steps(lines)
    assert steps == TrainingSteps(logged=2, name="train/loss", first=11.5, last=-0.25)
