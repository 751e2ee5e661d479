"""How large what is left of a layout and a model is: every kind stays, at its smallest size."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.patterns import read_patterns


def read_sizes(file: Path) -> dict[str, int]:
    return {name: int(size) for name, (size,) in read_patterns(file).items()}


STEPS = 5
SEQUENCE = 128
# Documents of Megatron-LM's mock data have tokens up to 4096 (MockGPTLowLevelDataset).
VOCABULARY = 5000
_BATCHES = 2  # micro batches of a rank or stage, so that gradients are accumulated
MODEL = read_sizes(Path(__file__).with_suffix(".txt"))
# Of Hugging Face's TrainingArguments, also in ms-swift and LLaMA-Factory.
TRAINER = read_sizes(Path(__file__).with_name("trainer.txt"))
PARALLEL = (
    *("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size"),
    *("expert-model-parallel-size", "expert-tensor-parallel-size"),
)


class SmallLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Parallel sizes, each 1 or 2, and the number of ranks."""

    tensor: int
    pipeline: int
    context: int
    ranks: int
    layers_of_stage: int = 2
    virtual_stages: int = 1

    @property
    def data(self) -> int:
        return self.ranks // (self.tensor * self.pipeline * self.context)

    @property
    def layers(self) -> int:
        return self.layers_of_stage * self.pipeline

    @property
    def batch(self) -> int:
        """Sequences of a step."""
        return self.data * self.pipeline * _BATCHES


def shrink_layout(sizes: Mapping[str, int], ranks: int | None, npus: int) -> SmallLayout:
    """The layout with 2 for each size above 1; data parallelism stays if enough NPUs are left.

    ``sizes`` are a launch's of PARALLEL, ``ranks`` are those it starts. Raises DataError if
    ``npus`` are too few.
    """
    tensor, pipeline, context = (min(2, sizes.get(name, 1)) for name in PARALLEL[:3])
    expert, expert_tensor = (min(2, sizes.get(name, 1)) for name in PARALLEL[3:])
    dense = tensor * pipeline * context
    if PARALLEL[4] not in sizes:
        expert_tensor = tensor
    least = max(dense, expert * expert_tensor * pipeline)
    if least > npus:
        raise DataError(
            f"--npus {npus}: this launch needs {least} to keep its kinds of parallelism"
        )
    before = 1
    for name in PARALLEL[:3]:
        before *= sizes.get(name, 1)
    replicated = ranks is not None and ranks >= 2 * before
    needed = max(least, 2 * dense) if replicated and 2 * dense <= npus else least
    return SmallLayout(tensor=tensor, pipeline=pipeline, context=context, ranks=needed)
