from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.shrinking.programs import ProgramSettings, start_ranks
from ascend_doctor.shrinking.true_size import TrueSize, choose_ranks, place_stand_ins
from ascend_doctor.shrinking.words import split_launch

SIZES = (
    "--num-layers 96 --seq-length 4096 --hidden-size 8192 --decoder-first-pipeline-num-layers 20 "
    "--decoder-last-pipeline-num-layers 28 --rampup-batch-size 16 16 1000"
)
SETTINGS = ProgramSettings(npus=8, python="/venv/bin/python", size=TrueSize())


def placed(words: str) -> list[str]:
    launch = split_launch("torchrun", ["train.py", *words.split()])
    options = place_stand_ins(launch.options, lambda length, words: f"/made/{length}/{words}")
    return [word for option in options for word in option.words()]


def test_sizes_stay_and_what_is_not_here_has_a_stand_in() -> None:
    words = (
        f"{SIZES} --data-path /no/data --tokenizer-model /no/t --padded-vocab-size 32000 --save /x"
    )
    assert placed(words) == [
        *SIZES.split(),
        *("--padded-vocab-size", "32000", "--mock-data", "--num-workers", "0"),
        *("--tokenizer-type", "NullTokenizer", "--vocab-size", "31999", "--exit-interval", "3"),
    ]


def test_what_is_here_is_read(tmp_path: Path) -> None:
    (tmp_path / "data.idx").touch()
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").touch()
    words = (
        f"{SIZES} --data-path 0.5 {tmp_path}/data --tokenizer-name-or-path {tmp_path}/tokenizer "
        "--train-iters 2"
    )
    assert placed(words) == words.split()


def test_fine_tuning_has_made_up_documents(tmp_path: Path) -> None:
    tuned = f"{SIZES} --padded-vocab-size 32000 --is-instruction-dataset --train-iters 2"
    data = f"--data-path {tmp_path}/"
    documents = "--data-path /made/4096/32000/documents-of-4096 --num-workers 0"
    tokenizer = "--tokenizer-type PretrainedFromHF --tokenizer-name-or-path /made/4096/32000"
    assert placed(f"{tuned} {data} --tokenizer-name-or-path /no/t") == (
        f"{tuned} {documents} {tokenizer}".split()
    )
    (tmp_path / "_packed_labels_document.idx").touch()
    assert placed(f"{tuned} {data}") == f"{tuned} {data}".split()


def test_an_unknown_vocabulary_is_asked_for() -> None:
    with pytest.raises(DataError, match="add --padded-vocab-size"):
        placed(f"{SIZES} --tokenizer-model /no/t")


@pytest.mark.parametrize(
    ("options", "world", "each", "expected"),
    [
        ("", 8, None, [*range(8)]),
        ("", 8, 1, [0]),
        ("", 64, None, [0]),
        ("--pipeline-model-parallel-size 4", 64, None, [0, 16, 32, 48]),
        ("--pipeline-model-parallel-size 3", 64, None, [0]),
        ("--pipeline-model-parallel-size 2", 64, 2, [0, 1, 32, 33]),
        ("--tensor-model-parallel-size 4 --context-parallel-size 2", 64, 4, [0, 1, 2, 8]),
        ("--context-parallel-size 2", 64, 2, [0, 2]),
        ("--tensor-model-parallel-size 2", 2, 9, [0, 1]),
    ],
)
def test_ranks_of_each_stage_have_a_process(
    options: str, world: int, each: int | None, expected: list[int]
) -> None:
    launch = split_launch("torchrun", ["train.py", *options.split()])
    assert choose_ranks(launch, world, each) == expected


def test_torchrun_becomes_the_start_of_its_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    launch = "--nnodes 16 --nproc_per_node 16 train.py --pipeline-model-parallel-size 2"
    words = launch.split()
    assert start_ranks("torchrun", words, SETTINGS) == [
        *("/venv/bin/python", "-m", "ascend_simulator.ranks", "256", "16", "0,128"),
        *("train.py", "--pipeline-model-parallel-size", "2"),
    ]
    assert "2 of 256 ranks have a process: 0,128" in capsys.readouterr().err
    assert start_ranks("python", ["train.py"], SETTINGS) is None


def test_options_of_another_layout_take_the_place_of_the_launch_s() -> None:
    size = TrueSize(words=("--pipeline-model-parallel-size", "2"), without=("recompute-method",))
    launch = "--nproc-per-node 16 train.py --pipeline-model-parallel-size 1 --recompute-method x"
    settings = ProgramSettings(npus=16, python="python", size=size)
    assert start_ranks("torchrun", [*launch.split(), "--bf16"], settings) == [
        *("python", "-m", "ascend_simulator.ranks", "16", "16", "0,8", "train.py", "--bf16"),
        *("--pipeline-model-parallel-size", "2"),
    ]


def test_a_rank_that_the_launch_lacks_is_refused() -> None:
    settings = ProgramSettings(npus=8, python="python", size=TrueSize(real=(0, 9)))
    with pytest.raises(DataError, match="--real 0,9: the launch has 8 ranks, from 0"):
        start_ranks("torchrun", ["--nproc-per-node", "8", "train.py"], settings)
