from pathlib import Path

from ascend_doctor.shrinking.ms_swift import end_early
from ascend_doctor.shrinking.words import split_launch


def words(launcher: str, text: str) -> str:
    small = end_early(split_launch(launcher, text.split()).options, launcher, Path("/scratch"))
    return " ".join(word for option in small for word in option.words())


def test_steps_that_are_given_stay() -> None:
    arguments = "--max_steps 3 --model a --logging_steps 1"
    assert words("swift", f"sft {arguments}") == arguments


def test_other_launchers_keep_their_options() -> None:
    assert words("torchrun", "train.py --num_train_epochs 5") == "--num_train_epochs 5"
