from pathlib import Path

import pytest

from ascend_doctor.shrinking.inputs import place_inputs
from ascend_doctor.shrinking.words import split_launch

SAVED = "/scratch/saved"
VERL = f"trainer.total_training_steps=3 trainer.default_local_dir={SAVED}"
TRAINER = "--max_steps 3 --logging_steps 1 --report_to none"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "swift/cli/_megatron/sft.py --model here --dataset d --num_train_epochs 5",
            "--model copy --dataset d --train_iters 3 --logging_steps 1",
        ),
        (
            "swift/cli/sft.py --model full --dataset d --output_dir o --max_steps 900",
            f"--model full --dataset d --output_dir {SAVED} --max_steps 3 --logging_steps 1",
        ),
        (
            "-m verl.trainer.sft_trainer model.path=here trainer.nnodes=1",
            f"model.path=copy trainer.nnodes=1 {VERL}",
        ),
        (
            "train.py config.yaml",
            f"config.yaml max_steps=3 output_dir={SAVED} model_name_or_path=copy",
        ),
        (
            "script.py --model_name here --num_train_epochs 2 --output_dir o",
            f"--model_name copy --output_dir {SAVED} {TRAINER}",
        ),
        ("own.py --model here", "--model copy"),
    ],
)
def test_a_launch_ends_early_and_reads_what_is_here(
    words: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("here/config.json", "full/config.json", "full/model.safetensors"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    Path("config.yaml").write_text("stage: sft\nmodel_name_or_path: here\n")
    Path("script.py").write_text("parser = HfArgumentParser(Arguments)\n")
    launch = split_launch("torchrun", words.split())
    options = place_inputs(launch, Path("/scratch"), 3, lambda _: "copy")
    assert [word for option in options for word in option.words()] == expected.split()
