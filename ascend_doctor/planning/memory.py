"""Device memory of the most loaded rank, in bytes, by what it is for.

Mixed precision as Megatron trains: BF16 weights, FP32 gradients, FP32 master weights and two
moments that the distributed optimizer shares out. Activations are the tensors that backward needs
with flash attention and sequence parallelism (on where TP > 1). docs/records/plan.md compares the
sums with Megatron's own estimate and with measured runs.
"""

import msgspec

from ascend_doctor.matrix.models import Model
from ascend_doctor.planning.layout import Layout, communicators
from ascend_doctor.planning.weights import (
    RankParameters,
    adapters,
    largest_shard,
    rank_parameters,
    stages,
    vocabulary,
)

GIB = 1 << 30
_BF16, _FP32 = 2, 4
# accumulate_allreduce_grads_in_fp32, which Megatron sets with --bf16.
_GRADIENT = _FP32
_OPTIMIZER = 3 * _FP32
# Logits stay in BF16 until the loss has made an FP32 copy, which backward needs.
_LOGIT = _BF16 + _FP32
# HCCL_BUFFSIZE defaults to 200 MB, and a communicator takes it twice
# (hicann/hccl@09300b70:docs/zh/user_guide/hccl_env).
_COMMUNICATOR = 2 * 200 * 1000 * 1000
# --swap-optimizer restores the states in this many parts by default
# (Ascend/MindSpeed@core_r0.15.3:mindspeed/features_manager/optimizer/swap_optimizer_feature.py).
_SWAPPED = 16
# Launches: docs/records/plan.md; comparison: tests/planning/test_peaks.py.
NEARNESS = (
    "GiB: without HCCL buffers 5% below to 14% above what 13 published launches allocated on NPUs; "
    "64k tokens under CP4 took twice as much"
)

MEMORY_PARTS = (
    *("weights", "gradients", "optimizer", "activations", "update of the weights"),
    "HCCL buffers, at most",
)


class TrainingRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is trained: ``sequence`` tokens by ``micro_batch`` samples; ``lora`` 0 is full.

    A step has ``global_batch`` samples, 0 if unknown; with ``swap`` the optimizer's states are on
    the host.
    """

    sequence: int = 4096
    micro_batch: int = 1
    global_batch: int = 0
    swap: bool = False
    lora: int = 0


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the most loaded rank. ``recompute``: recomputes activations, per layer.

    ``update``: the optimizer's brief need to update one parameter.
    """

    stage: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    update: float
    communication: float
    recompute: bool

    @property
    def parts(self) -> dict[str, float]:
        """Its uses in words; of activations and the update the larger one."""
        weights, gradients, optimizer, activations, update, buffers = MEMORY_PARTS
        last = activations if self.activations >= self.update else update
        return {
            weights: self.weights,
            gradients: self.gradients,
            optimizer: self.optimizer,
            last: max(self.activations, self.update),
            buffers: self.communication,
        }

    @property
    def states(self) -> float:
        """Memory that stays between steps."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        """At its peak: activations are gone when the optimizer updates the weights."""
        return self.states + max(self.activations, self.update) + self.communication


def estimate(model: Model, layout: Layout, run: TrainingRun, *, recompute: bool) -> Memory:
    """The memory of the pipeline stage that needs the most."""
    stages = (
        stage_memory(model, layout, run, stage, recompute=recompute) for stage in range(layout.pp)
    )
    return max(stages, key=lambda memory: memory.total)


def stage_memory(
    model: Model, layout: Layout, run: TrainingRun, stage: int, *, recompute: bool
) -> Memory:
    whole = rank_parameters(model, layout, stage)
    trained = adapters(model, layout, stage, run.lora) if run.lora else whole
    # Peaks of launches with small activations exceed the permanent memory by FP32 of the largest
    # parameter part (tests/planning/peaks.yaml: Llama-2-7B, Phi-3.5-MoE, InternLM3, GLM-4).
    update = 0.0 if run.lora else largest_shard(model, layout, stage) * _FP32
    frozen = whole if run.lora else RankParameters()
    shared_out = trained.dense / (layout.dp * layout.cp) + trained.expert / layout.edp
    optimizer = shared_out * _OPTIMIZER
    if run.swap:
        update, optimizer = max(update, optimizer / _SWAPPED), 0.0
    return Memory(
        stage=stage,
        weights=(frozen.total + trained.total) * _BF16,
        gradients=trained.total * _GRADIENT,
        optimizer=optimizer,
        activations=activations(model, layout, run, stage, recompute=recompute),
        update=update,
        communication=communicators(layout) * _COMMUNICATOR,
        recompute=recompute,
    )


def activations(
    model: Model, layout: Layout, run: TrainingRun, stage: int, *, recompute: bool
) -> float:
    """Bytes that backward needs on a rank of this stage.

    As many micro-batches are in flight as in the schedule without interleaving.
    """
    tokens = run.sequence * run.micro_batch / layout.cp
    layers = stages(model, layout)[stage]
    each = [_BF16 * tokens / layout.tp * per_token(model, layout, layer) for layer in layers]
    # For the layer in backward: gradients of its network, and recomputed activations.
    wide = max((3 * _network(model, layer) for layer in layers), default=0.0)
    once = _BF16 * tokens / layout.tp * wide + (max(each, default=0.0) if recompute else 0.0)
    # A recomputed layer keeps only its input.
    held = _BF16 * tokens / layout.tp * model.hidden * len(layers) if recompute else sum(each)
    flight = layout.pp - stage
    if stage == layout.pp - 1:
        # The loss is done with its logits before backward reaches a layer.
        final = 2 * _BF16 * tokens / layout.tp * model.hidden
        once = max(once, tokens * vocabulary(model, layout) * _LOGIT + final)
    return flight * held + once


def _network(model: Model, layer: int) -> float:
    """Elements between the two halves of a layer's network, per token."""
    if not model.has_experts(layer):
        return model.ffn
    return model.top_k * model.expert_ffn + model.shared_ffn


def per_token(model: Model, layout: Layout, layer: int) -> float:
    """Elements of BF16 that a layer keeps per token, over all ranks of a TP group.

    Twice the input and the result of a norm, then the mixing, then the network. Assumes an even
    load of experts.
    """
    mixing = _delta(model, layout) if model.is_delta(layer) else _attention(model)
    if not model.has_experts(layer):
        return 4 * model.hidden + mixing + 3 * _network(model, layer)
    # Every expert tensor parallel rank has all tokens of its group, of which it computes a part.
    gathered = model.top_k * model.hidden * layout.expert_tensor
    network = gathered + 3 * _network(model, layer)
    return 4 * model.hidden + mixing + network


def _attention(model: Model) -> float:
    if model.latent is not None:
        latent = model.latent
        query = model.heads * (latent.nope_dim + latent.rope_dim)
        values = model.heads * latent.value_dim
        small = 2 * (latent.q_rank + latent.kv_rank) + latent.rope_dim
        # Queries before and after the rotary embedding, keys and values whole, and the result.
        return small + 2 * query + model.heads * latent.nope_dim + values + query + values
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    gate = 2 * queries if model.gated_attention else 0
    # The projection's result, queries and keys after a norm and the rotary embedding, the result.
    normed = queries + keys if model.qk_norm else 0
    return (queries + 2 * keys) + normed + (queries + keys) + queries + gate


def _delta(model: Model, layout: Layout) -> float:
    delta = model.delta
    assert delta is not None  # noqa: S101 - for the type checker
    keys, values = delta.key_heads * delta.key_dim, delta.value_heads * delta.value_dim
    spread = 2 * delta.value_heads * delta.key_dim
    # The projection, the convolution, queries and keys for every value head, result and norm.
    each = (2 * keys + 2 * values) + (2 * keys + values) + spread + 2 * values
    return each * (layout.tp if delta.whole else 1)
