"""Changes that take a decision: shown as a diff, judged, and not made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Command

SCRIPT = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --bf16\n"
VERL = "trainer: {n_gpus_per_node: 8, device: cuda}\nactor_rollout_ref: {hybrid_engine: true}\n"
ENTRY = (
    "import torch\nimport torch_npu\nfrom megatron.training import pretrain\n{}\n"
    'if __name__ == "__main__":\n    {}\n    pretrain()\n'
)
LATE = (
    "from megatron.core import mpu\ndef patch():\n    import mindspeed.megatron_adaptor\n"
    'if __name__ == "__main__":\n    patch()\n'
)


@pytest.mark.parametrize(
    ("name", "text", "gone", "new"),
    [
        ("a.sh", f"CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 {SCRIPT}", "CUDA_V", "ASCEND_RT_V"),
        ("a.sh", f"export HCCL_OP_EXPANSION_MODE=AIV\n{SCRIPT}", "export HCCL_OP", ""),
        ("a.sh", "python -m verl.trainer.main_ppo trainer.device=cuda\n", "cuda", "npu"),
        ("a.yaml", VERL, "device: cuda", "device: npu"),
        ("a.py", ENTRY.format("", "torch.npu.set_device(0)"), "device(0)", 'environ["LOCAL_RANK"]'),
        ("a.py", ENTRY.format("", "pass"), "", "import mindspeed.megatron_adaptor"),
        (
            *("a.py", ENTRY.format("import mindspeed.megatron_adaptor", "pass")),
            *("import mindspeed", "import mindspeed"),
        ),
        (
            *("a.py", "import torch, torch_npu\nif __name__ == '__main__':\n"),
            *("", ""),
        ),
    ],
)
def test_what_takes_a_decision_is_shown(
    doctor: Command, tmp_path: Path, name: str, text: str, gone: str, new: str
) -> None:
    file = tmp_path / name
    file.write_text(text, "utf-8")
    done = doctor("lint", "--fix", "--allow-unresolved", name, cwd=tmp_path)
    assert file.read_text("utf-8") == text
    lines = done.stderr.split("\n")
    assert ("not made" in done.stderr) is bool(gone or new)
    for sign, part in (("-", gone), ("+", new)):
        assert not part or any(line.startswith(sign) and part in line for line in lines), lines


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # Two devices for eight ranks: what is said of the names is gone, and another error comes.
        ("a.sh", f"export CUDA_VISIBLE_DEVICES=0,1\n{SCRIPT}"),
        # The line does something else, too.
        ("a.sh", f"export HCCL_OP_EXPANSION_MODE=AIV; echo started\n{SCRIPT}"),
        # A function that would be left without a body.
        ("a.py", LATE),
    ],
)
def test_what_would_break_something_else_is_not_proposed(
    doctor: Command, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    done = doctor("lint", "--fix", "--allow-unresolved", name, cwd=tmp_path)
    assert "1 warning" in done.stdout or "1 error" in done.stdout
    assert "not made" not in done.stderr


def test_slips_in_yaml_are_mended(doctor: Command, tmp_path: Path) -> None:
    file = tmp_path / "ppo.yaml"
    text = "actor_rollout_ref:\n  actor: {use_dynamic_bsz: Ture, ppo_mini_batch_sizee: 64}\n"
    file.write_text(text, "utf-8")
    doctor("lint", "--fix", "--allow-unresolved", "ppo.yaml", cwd=tmp_path)
    better = text.replace("Ture", "True").replace("sizee", "size")
    assert file.read_text("utf-8") == better
