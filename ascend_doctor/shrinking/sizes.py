"""How large what is left of a layout and a model is: every kind stays, at its smallest size."""

from collections.abc import Mapping

import msgspec

from ascend_doctor.errors import DataError

STEPS = 5
SEQUENCE = 128
# Documents of Megatron-LM's mock data have tokens up to 4096 (MockGPTLowLevelDataset).
VOCABULARY = 5000
_BATCHES = 2  # micro batches of a rank or stage, so that gradients are accumulated
MODEL = {
    "hidden-size": 64,
    "ffn-hidden-size": 128,
    "intermediate-size": 128,
    "num-attention-heads": 4,
    "num-query-groups": 2,
    "num-key-value-heads": 2,
    "kv-channels": 16,
    "head-dim": 16,
    "num-experts": 4,
    "n-routed-experts": 4,
    "num-local-experts": 4,
    "moe-router-topk": 2,
    "num-experts-per-tok": 2,
    "moe-router-num-groups": 2,
    "n-group": 2,
    "moe-router-group-topk": 1,
    "topk-group": 1,
    "moe-ffn-hidden-size": 32,
    "moe-intermediate-size": 32,
    "shared-expert-intermediate-size": 32,
    "moe-shared-expert-intermediate-size": 32,
    "first-k-dense-replace": 1,
    "q-lora-rank": 32,
    "kv-lora-rank": 16,
    "qk-head-dim": 16,
    "qk-nope-head-dim": 16,
    "qk-pos-emb-head-dim": 8,
    "qk-rope-head-dim": 8,
    "v-head-dim": 16,
    # Of a state space model: 2 groups, each with heads for two tensor parallel ranks.
    "mamba-num-groups": 2,
    "mamba-head-dim": 16,
    "mamba-state-dim": 16,
}
# Of Hugging Face's TrainingArguments, also in ms-swift and LLaMA-Factory.
TRAINER = {
    "per-device-train-batch-size": 1,
    "per-device-eval-batch-size": 1,
    "gradient-accumulation-steps": _BATCHES,
    "logging-steps": 1,
    "dataloader-num-workers": 1,
}
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
