from pathlib import Path

from ascend_doctor.shrinking.ms_swift import end_early
from ascend_doctor.shrinking.words import split_launch

WORDS = "sft --model a --num_train_epochs 5 --output_dir here --lr 1e-5"


def words(launcher: str, text: str) -> str:
    small = end_early(split_launch(launcher, text.split()).options, launcher, Path("/scratch"))
    return " ".join(word for option in small for word in option.words())


def test_epochs_become_steps_and_what_is_saved_goes() -> None:
    small = "--model a --output_dir /scratch/saved --lr 1e-5"
    assert words("megatron", WORDS) == f"{small} --train_iters 5 --logging_steps 1"
    assert words("swift", WORDS) == f"{small} --max_steps 5 --logging_steps 1"


def test_steps_that_are_given_stay() -> None:
    arguments = "--max_steps 3 --model a --logging_steps 1"
    assert words("swift", f"sft {arguments}") == arguments


def test_other_launchers_keep_their_options() -> None:
    assert words("torchrun", "train.py --num_train_epochs 5") == "--num_train_epochs 5"
