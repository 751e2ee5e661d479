import pytest

from ascend_doctor.shrinking import megatron
from ascend_doctor.shrinking.megatron import describe
from ascend_doctor.shrinking.sizes import SmallLayout
from ascend_doctor.shrinking.words import Option, split_launch

LAYOUT = SmallLayout(tensor=2, pipeline=2, context=1, ranks=4)
PRETRAINING = (
    "--num-layers 96 --hidden-size 12288 --seq-length 4096 --micro-batch-size 1 --lr 6e-5"
    " --num-query-groups 1 --rampup-batch-size 16 16 5859375 --train-samples 1953125 --fp16"
    " --global-batch-size 1536 --load your model path --tokenizer-model a --data-path b"
)


def options(text: str) -> tuple[Option, ...]:
    return split_launch("python", ["train.py", *text.split()]).options


def shrink_options(before: tuple[Option, ...]) -> list[Option]:
    return megatron.shrink_options(before, LAYOUT, lambda length, words: f"/made/{length}/{words}")


def words(small: list[Option]) -> str:
    return " ".join(word for option in small for word in option.words())


def test_sizes_are_small_and_what_is_no_size_stays() -> None:
    assert words(shrink_options(options(PRETRAINING))) == (
        "--num-layers 4 --hidden-size 64 --seq-length 128 --micro-batch-size 1 --lr 6e-5"
        " --num-query-groups 1 --train-samples 20 --fp16 --global-batch-size 4"
        " --mock-data --tokenizer-type NullTokenizer --vocab-size 5000 --initial-loss-scale 4096"
    )


def test_a_sequence_that_a_mask_is_made_of_stays() -> None:
    text = "--num-layers 4 --seq-length 2048 --max-position-embeddings 4096"
    lengths, flash = "--seq-length 2048 --max-position-embeddings 2048", "--use-flash-attn"
    assert lengths in words(shrink_options(options(text)))
    assert "--seq-length 128" in words(shrink_options(options(f"{text} {flash}")))


def test_a_pattern_of_layers_keeps_every_kind() -> None:
    text = "--hybrid-layer-pattern M-M-M--M|-*M-M-/MM/MM --seq-length 4096"
    small = words(shrink_options(options(text)))
    assert small.startswith("--hybrid-layer-pattern M-*M-* --seq-length 128 --mock-data")
    assert "--hybrid-layer-pattern M* " in words(
        shrink_options(options("--hybrid-layer-pattern M* --seq-length 64"))
    )


def test_ratios_of_layers_keep_every_kind() -> None:
    text = "--num-layers 56 --hybrid-attention-ratio 0.08 --hybrid-mlp-ratio {} --seq-length 64"
    small = words(shrink_options(options(text.format("0.5"))))
    ratios = "--hybrid-attention-ratio 0.25 --hybrid-mlp-ratio 0.25"
    assert small.startswith(f"--num-layers 8 {ratios} --seq-length 64")
    assert "--hybrid-mlp-ratio 0.0 " in words(shrink_options(options(text.format("0.0"))))


@pytest.mark.parametrize(
    ("virtual", "stages"),
    [("", "[[1],[3]]"), ("--num-layers-per-virtual-pipeline-stage 2", "[[0,1],[1,2]]")],
)
def test_uneven_stages_stay_uneven(virtual: str, stages: str) -> None:
    text = f"--pipeline-num-transformer-layers [[0,1],[1,1]*2,[3,0]] {virtual} --num-layers 8"
    small = words(shrink_options(options(text)))
    assert small.startswith(f"--pipeline-num-transformer-layers {stages} ")
    assert small.endswith("--num-layers 4")


def test_what_changed_is_listed() -> None:
    before = options("--num-layers 96 --seq-length 64 --load x")
    lines = list(describe(before, shrink_options(before)))
    assert lines[:2] == ["--num-layers 96 to 4", "--load is left out"]
    assert lines[2:] == [
        "--mock-data is added",
        "--tokenizer-type NullTokenizer is added",
        "--vocab-size 5000 is added",
        "--train-iters 5 is added",
    ]


@pytest.mark.parametrize(("before", "after"), [(4096, 128), (64, 64)])
def test_fine_tuning_has_documents_that_fit(before: int, after: int) -> None:
    tuned = "--num-layers 4 --is-instruction-dataset --seq-length"
    text = f"{tuned} {before} --data-path a --tokenizer-name-or-path b --train-iters 2"
    assert words(shrink_options(options(text))) == (
        f"{tuned} {after} --train-iters 2 --data-path /made/{after}/5001/documents-of-{after}"
        f" --tokenizer-type PretrainedFromHF --tokenizer-name-or-path /made/{after}/5001"
    )


def test_ms_swift_keeps_its_own_words() -> None:
    text = "--model a --tensor_model_parallel_size 8 --max_length 4096 --tuner_type lora"
    assert words(shrink_options(options(text))) == (
        "--model a --tensor_model_parallel_size 2 --max_length 128 --tuner_type lora"
    )
