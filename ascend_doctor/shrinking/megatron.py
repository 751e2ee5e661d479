"""Options of Megatron-LM, MindSpeed-LLM and ms-swift made small.

Sources: NVIDIA/Megatron-LM@core_v0.15.3:megatron/training/arguments.py,
Ascend/MindSpeed-LLM@2.3.0:mindspeed_llm/features_manager,
Ascend/MindSpeed@d0d5809d:mindspeed/features_manager/pipeline_parallel/unaligned_pineline_feature.py,
modelscope/ms-swift@3602360a:swift/megatron,
flagos-ai/Megatron-LM-FL@175ae90ec:megatron/core/ssm/mamba_hybrid_layer_allocation.py.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from ascend_doctor.shrinking.sizes import (
    MODEL,
    PARALLEL,
    SEQUENCE,
    STEPS,
    TRAINER,
    VOCABULARY,
    SmallLayout,
    read_sizes,
)
from ascend_doctor.shrinking.words import Option

_SEQUENCES = {
    *("seq-length", "max-position-embeddings", "max-length", "decoder-seq-length"),
    *("max-seq-length", "max-prompt-length", "block-size"),
}
# A layer a letter, in place of a number of layers; multi-token prediction follows a slash, and a
# bar begins a pipeline stage.
_PATTERN = "hybrid-layer-pattern"
# The share of layers of a kind, rounded to whole ones: of four, a quarter is one.
_RATIOS = {"hybrid-attention-ratio", "hybrid-mlp-ratio"}
_RATIO = "0.25"
# Layers of each stage, and in it of each virtual one, as [[0,1],[1,1]*2,[3,0]].
_STAGES = "pipeline-num-transformer-layers"
_VIRTUAL = {"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"}
_UNEVEN = {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"}
# What a launch with another layout does not keep, beside the sizes that it has.
OF_LAYOUT = {
    *_VIRTUAL,
    *_UNEVEN,
    *("num-layer-list", "expert-tensor-parallel-size", "sequence-parallel"),
    *("recompute-granularity", "recompute-method", "recompute-num-layers"),
    "enable-recompute-layers-per-pp-rank",
}
_STEPS = {"train-iters", "lr-decay-iters", "max-steps", "max-train-steps"}
_SAMPLES = {"train-samples", "lr-decay-samples"}
# Files and folders that a rehearsal lacks.
PLACES = {
    *("load", "save", "pretrained-checkpoint", "tensorboard-dir", "data-cache-path"),
    *("wandb-project", "wandb-exp-name", "wandb-save-dir"),
    *("enable-hf2mg-convert", "model-type-hf"),  # MindSpeed-LLM reads one of Hugging Face
}
_LEFT_OUT = {
    *PLACES,
    "rampup-batch-size",
    *_UNEVEN,
    *("lr-warmup-samples", "noop-layers", "num-layer-list", "exit-duration-in-mins"),
}
_DATA = {"data-path", "train-data-path", "valid-data-path", "test-data-path", "split", "mock-data"}
TOKENIZER = {
    *("tokenizer-type", "tokenizer-model", "tokenizer-name-or-path", "vocab-file", "merge-file"),
    *("vocab-size", "tiktoken-pattern", "tokenizer-not-use-fast"),
}
_SMALL = read_sizes(Path(__file__).with_suffix(".txt"))
_INSTRUCTIONS = {"is-instruction-dataset", "is-pairwise-dataset"}
# Without --use-flash-attn MindSpeed makes its mask of the sequence's length, and attention takes
# only this one (MindSpeed@d0d5809d:mindspeed/core/transformer/flash_attention/generate_mask).
_MASK = 2048


def is_pretraining(options: Sequence[Option]) -> bool:
    """Whether they are Megatron-LM's own pretraining, which has mock data."""
    names = {option.name for option in options}
    return "seq-length" in names and bool({"num-layers", _PATTERN} & names)


def shrink_options(
    options: Sequence[Option], layout: SmallLayout, write_instructions: Callable[[int, int], str]
) -> list[Option]:
    """The options with small sizes, stand-ins for data and tokenizer, and no checkpoints.

    ``write_instructions`` is that of `choose_inputs`.
    """
    gone = _LEFT_OUT | _DATA | TOKENIZER if is_pretraining(options) else _LEFT_OUT
    remaining = [option for option in options if option.name not in gone]
    sequence = _MASK if _needs_mask(remaining) else SEQUENCE
    if any(_is_part(option) for option in remaining):
        layout = msgspec.structs.replace(layout, layers_of_stage=4)
    if any(option.name in _VIRTUAL for option in remaining):
        layout = msgspec.structs.replace(layout, virtual_stages=2)
    small = [_shrink(option, layout, sequence) for option in remaining]
    if not is_pretraining(options):
        return small
    length = next(option.number for option in small if option.name == "seq-length")
    data, tokenizer = choose_inputs(options, length or sequence, VOCABULARY + 1, write_instructions)
    return [*small, *data, *tokenizer, *_additions(options)]


def choose_inputs(
    options: Sequence[Option],
    length: int,
    words: int,
    write_instructions: Callable[[int, int], str],
) -> tuple[list[Option], list[Option]]:
    """Stand-ins for data and for a tokenizer of so many words.

    For fine-tuning ``write_instructions`` makes a folder with both, documents of ``length``.
    """
    if not _INSTRUCTIONS & {option.name for option in options}:
        null = Option("--tokenizer-type", ("NullTokenizer",))
        return [Option("--mock-data")], [null, Option("--vocab-size", (str(words - 1),))]
    folder = write_instructions(length, words)
    data = Option("--data-path", (f"{folder}/documents-of-{length}",))
    kind = Option("--tokenizer-type", ("PretrainedFromHF",))
    return [data], [kind, Option("--tokenizer-name-or-path", (folder,))]


def describe(before: Sequence[Option], after: Sequence[Option]) -> Iterator[str]:
    new = {option.typed: option.arguments for option in after}
    words = {word for option in before if not option.typed for word in option.arguments}
    for option in before:
        values = new.get(option.typed)
        if not option.typed:
            continue
        if values is None:
            yield f"{option.typed} is left out"
        elif values != option.arguments:
            yield f"{option.typed} {' '.join(option.arguments)} to {' '.join(values)}"
    old = {option.typed for option in before}
    for option in after:
        if not option.typed:
            yield from (f"{word} is added" for word in option.arguments if word not in words)
        elif option.typed not in old:
            yield f"{' '.join(option.words())} is added"


def _needs_mask(options: Sequence[Option]) -> bool:
    sizes = {option.name: option.number for option in options}
    return sizes.get("seq-length") == _MASK and "use-flash-attn" not in sizes


def _shrink(option: Option, layout: SmallLayout, sequence: int) -> Option:
    if option.name == _PATTERN:
        return _shrink_pattern(option, layout)
    if option.name == _STAGES:
        return Option(option.typed, (_uneven_stages(layout),))
    if _is_part(option):
        return Option(option.typed, (_RATIO,))
    size = option.number
    limit = sequence if option.name in _SEQUENCES else _limit(option.name, layout)
    if size is None or limit is None or size <= limit:
        return option
    return Option(option.typed, (str(limit),))


def _uneven_stages(layout: SmallLayout) -> str:
    """The first has a layer less than its part, and the last one more."""
    each = layout.layers_of_stage // layout.virtual_stages
    stages = [[each] * layout.virtual_stages for _ in range(layout.pipeline)]
    stages[0][0] -= 1
    stages[-1][-1] += 1
    return str(stages).replace(" ", "")


def _is_part(option: Option) -> bool:
    if option.name not in _RATIOS or len(option.arguments) != 1:
        return False
    with contextlib.suppress(ValueError):
        return 0 < float(option.arguments[0]) < 1
    return False


def _shrink_pattern(option: Option, layout: SmallLayout) -> Option:
    pattern = "".join(option.arguments).strip("'\"").partition("/")[0].replace("|", "")
    small = "".join(dict.fromkeys(pattern)) * layout.pipeline
    return option if len(small) >= len(pattern) else Option(option.typed, (small,))


def _limit(name: str, layout: SmallLayout) -> int | None:
    if name in MODEL:
        return MODEL[name]
    if name in PARALLEL:
        return 2
    if name in _STEPS:
        return STEPS
    if name in _SAMPLES:
        return STEPS * layout.batch
    return {
        **TRAINER,
        **_SMALL,
        "num-layers": layout.layers,
        "global-batch-size": layout.batch,
        # The number of a document's end follows the vocabulary.
        "padded-vocab-size": VOCABULARY + 120,
    }.get(name)


def _additions(options: Sequence[Option]) -> Iterator[Option]:
    names = {option.name for option in options}
    if not {"train-iters", "train-samples"} & names:
        yield Option("--train-iters", (str(STEPS),))
    if "fp16" in names and not {"loss-scale", "initial-loss-scale"} & names:
        # Megatron-LM begins with 2 ** 32 and would skip every step.
        yield Option("--initial-loss-scale", ("4096",))
