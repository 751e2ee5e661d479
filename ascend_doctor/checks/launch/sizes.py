"""Sizes of a launch that have to divide."""

import re
from collections.abc import Iterator

from ascend_doctor.checks.launch.options import (
    ARGUMENTS,
    CONFIG,
    GROUPS,
    STAGE_ENDS,
    VALIDATED,
    at,
    flag,
    is_given,
    megatron_options,
    number,
    part_sizes,
    trains_roles,
    version,
    world,
)
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error
from ascend_doctor.judging.layout_rules import (
    splits_groups,
    splits_layers,
    splits_sequence,
)

_LAYERS = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/tensor_parallel/layers.py"
# Each takes another way of giving layers to stages, so that they need not divide.
_UNEVEN = (
    *("pipeline_model_parallel_layout", "num_layer_list", "spec", "noop_layers"),
    *("pipeline_num_transformer_layers", "hybrid_layer_pattern", "hybrid_override_pattern"),
    *("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"),
)


def _must_divide(case: Case, name: str, size: int, what: str, option: str, ref: str) -> Finding:
    whole = number(case, name)
    # An odd number of heads, experts or tokens is the slip, rather than a size of 2, 4 or 8.
    odd = whole % 2 == 1 and size & (size - 1) == 0 and name != "num_layers"
    return error(
        f"{what} {size} does not divide {name.replace('_', ' ')} {whole}",
        observed=f"{name} {whole}, {option} {size}",
        required=f"{name} as a multiple of {size}",
        because="Megatron splits it evenly and stops otherwise.",
        remedy=Remedy(summary=f"Change {option}"),
        refs=(ref,),
        location=at(case, *((name, option) if odd else (option, name))),
    )


@check("run-experts-divide", "Expert parallelism fits the experts", scope="launch")
def run_experts_divide(case: Case) -> Iterator[Finding]:
    """The expert parallel size divides the experts, and there are experts to split.

    Megatron-LM's scripts need --num-experts for an expert parallel size above 1, and a router that
    chooses at most as many experts as there are.
    """
    megatron_options(case)
    size = part_sizes(case)["EP"]
    validated = case.need(Launch).program in VALIDATED
    if size > 1 and not is_given(case, "num_experts") and validated:
        yield error(
            f"Expert parallel size {size} without experts",
            observed=f"expert_model_parallel_size {size}, no num_experts",
            required="--num-experts",
            because="Megatron asserts it.",
            refs=(f"{ARGUMENTS}:1038",),
            location=at(case, "expert_model_parallel_size"),
        )
    if not is_given(case, "num_experts"):
        return
    experts = number(case, "num_experts")
    if experts % size:
        option = "expert_model_parallel_size"
        yield _must_divide(case, "num_experts", size, "EP", option, f"{ARGUMENTS}:1039")
    split = number(case, "expert_tensor_parallel_size", 1)
    if is_given(case, "moe_ffn_hidden_size") and number(case, "moe_ffn_hidden_size") % split:
        option = "expert_tensor_parallel_size"
        yield _must_divide(case, "moe_ffn_hidden_size", split, "ETP", option, _LAYERS)
    chosen = number(case, "moe_router_topk", 1)
    if chosen > experts:
        yield error(
            f"The router chooses {chosen} of {experts} experts",
            observed=f"moe_router_topk {chosen}, num_experts {experts}",
            required=f"at most {experts}",
            location=at(case, "moe_router_topk"),
        )


@check("run-heads-divide", "Tensor parallelism divides the attention heads", scope="launch")
def run_heads_divide(case: Case) -> Iterator[Finding]:
    """TP divides the attention heads and the key and value heads.

    From megatron-core 0.16 the key and value heads may divide TP instead. Without --kv-channels the
    heads must divide the hidden size. MindSpeed's --unaligned-linear splits what does not divide.
    """
    megatron_options(case)
    if flag(case, "unaligned_linear"):
        raise NotApplicable("--unaligned-linear splits heads that TP does not divide")
    size = part_sizes(case)["TP"]
    option = "tensor_model_parallel_size"
    if is_given(case, "num_attention_heads") and number(case, "num_attention_heads") % size:
        yield _must_divide(case, "num_attention_heads", size, "TP", option, f"{CONFIG}:743")
    elif _has_uneven_groups(case):
        where = "num_query_groups"
        groups = number(case, where)
        yield _must_divide(case, "num_attention_heads", groups, "query groups", where, GROUPS)
    elif (
        is_given(case, "num_query_groups")
        and flag(case, "group_query_attention")
        # What depends on the version is no ground for an error where that is not known.
        and splits_groups(number(case, "num_query_groups"), size, version(case)) is False
    ):
        yield _must_divide(case, "num_query_groups", size, "TP", option, f"{CONFIG}:758")
    both = is_given(case, "num_attention_heads") and is_given(case, "hidden_size")
    if both and not is_given(case, "kv_channels"):
        heads = number(case, "num_attention_heads")
        if number(case, "hidden_size") % heads and not flag(case, "multi_latent_attention"):
            where = "num_attention_heads"
            yield _must_divide(case, "hidden_size", heads, "heads", where, f"{ARGUMENTS}:840")


def _has_uneven_groups(case: Case) -> bool:
    """Whether the attention heads are no multiple of the query groups."""
    both = is_given(case, "num_query_groups") and is_given(case, "num_attention_heads")
    return both and number(case, "num_attention_heads") % number(case, "num_query_groups") != 0


@check("run-layers-divide", "Pipeline parallelism divides the layers", scope="launch")
def run_layers_divide(case: Case) -> Iterator[Finding]:
    """The pipeline parallel size divides the layers, unless a layout of stages is given.

    --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers and
    --pipeline-model-parallel-layout give stages different numbers of layers; virtual stages need a
    pipeline of at least two.
    """
    launch_options, size = megatron_options(case), part_sizes(case)["PP"]
    virtual = "num_layers_per_virtual_pipeline_stage"
    if size == 1 and number(case, virtual, 0, least=0):
        yield error(
            "Virtual pipeline stages without a pipeline",
            observed=f"{virtual} {launch_options[virtual]}, pipeline_model_parallel_size 1",
            required="a pipeline parallel size of 2 or more",
            refs=(f"{ARGUMENTS}:604",),
            location=at(case, virtual),
        )
    if not is_given(case, "num_layers"):
        return
    yield from _misses_layers(case, size)
    if any(is_given(case, name) for name in _UNEVEN):
        return
    layers = number(case, "num_layers")
    ends = {name: number(case, name, least=0) for name in STAGE_ENDS if is_given(case, name)}
    if ends:
        if not splits_layers(layers, size, *(ends.get(name) for name in STAGE_ENDS)):
            yield error(
                f"{layers} layers cannot be split over {size} stages with these ends",
                observed=", ".join(f"{name} {count}" for name, count in ends.items()),
                required="layers in each stage, the same number in those between the ends",
                refs=(CONFIG,),
                location=at(case, *ends),
            )
    elif not splits_layers(layers, size, None, None):
        option = "pipeline_model_parallel_size"
        yield _must_divide(case, "num_layers", size, "PP", option, f"{ARGUMENTS}:572")


def _misses_layers(case: Case, stages: int) -> Iterator[Finding]:
    """A list of MindSpeed-LLM's with other than a number for each stage, or of other layers."""
    if not is_given(case, "num_layer_list") or case.need(Launch).program not in VALIDATED:
        return
    listed, layers = case.need(Launch).options["num_layer_list"], number(case, "num_layers")
    if UNTOLD in listed:
        raise Unresolved("num_layer_list is known when the launch runs")
    # Stages of a disaggregated training are one more.
    apart = any(name.startswith("layerwise-disaggregated") for name in case.need(Launch).flags)
    if apart or not re.fullmatch(r"\d{1,4}(,\d{1,4})*", listed):
        return
    counts = [int(count) for count in listed.split(",")]
    if len(counts) != stages or sum(counts) != layers:
        yield error(
            f"The list of layers has {sum(counts)} on {len(counts)} stages",
            observed=f"num_layer_list {listed}",
            required=f"{layers} layers on {stages} stages",
            because="MindSpeed-LLM adds them up and stops.",
            refs=("Ascend/MindSpeed-LLM@c77308a1:mindspeed_llm/training/arguments.py:147",),
            location=at(case, "num_layer_list"),
        )


@check(
    "run-sequence-divides", "Context and tensor parallelism divide the sequences", scope="launch"
)
def run_sequence_divides(case: Case) -> Iterator[Finding]:
    """Twice CP divides the sequence length, TP the part of a rank under sequence parallelism.

    The position embeddings of a Megatron-LM script must reach as far as its sequences.
    """
    launch_options, size = megatron_options(case), part_sizes(case)
    if not is_given(case, "seq_length") or case.need(Launch).program not in {*VALIDATED, ""}:
        return
    length = number(case, "seq_length")
    if not splits_sequence(length, size["CP"]):
        option = "context_parallel_size"
        ref = f"{ARGUMENTS}:844"
        yield _must_divide(case, "seq_length", 2 * size["CP"], "2·CP", option, ref)
    elif flag(case, "sequence_parallel") and length // size["CP"] % size["TP"]:
        option = "tensor_model_parallel_size"
        yield _must_divide(case, "seq_length", size["TP"], "TP", option, CONFIG)
    if (
        is_given(case, "max_position_embeddings")
        and number(case, "max_position_embeddings") < length
    ):
        yield error(
            f"Sequences of {length} are longer than the position embeddings",
            observed=f"max_position_embeddings {launch_options['max_position_embeddings']}",
            required=f"at least {length}",
            refs=(f"{ARGUMENTS}:856",),
            location=at(case, "max_position_embeddings"),
        )


@check(
    "run-batch-divides",
    "The global batch divides into micro-batches",
    scope="launch",
)
def run_batch_divides(case: Case) -> Iterator[Finding]:
    """The global batch size is a multiple of the micro-batch size times the data parallel size."""
    launch_options, size = megatron_options(case), part_sizes(case)
    if not (is_given(case, "global_batch_size") and is_given(case, "micro_batch_size")):
        raise NotApplicable("the launch command does not give both batch sizes")
    if trains_roles(case.need(Launch)):
        raise NotApplicable("MindSpeed-RL counts prompts, whose batches run-rl-batches judges")
    plain, ranks = size["TP"] * size["PP"] * size["CP"], world(case)
    each = number(case, "micro_batch_size") * (ranks // plain)
    if ranks % plain == 0 and number(case, "global_batch_size") % each:
        yield error(
            f"The global batch is no multiple of {each}",
            observed=f"global_batch_size {launch_options['global_batch_size']}, micro_batch_size "
            f"{launch_options['micro_batch_size']}, data parallel size {ranks // plain}",
            required=f"a multiple of {each}",
            because="Megatron's calculator of micro-batches asserts it.",
            refs=("NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/num_microbatches_calculator.py",),
            location=at(case, "global_batch_size", "micro_batch_size"),
        )
