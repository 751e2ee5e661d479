"""A launch command by itself: sizes that do not divide, and options that exclude each other."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator

from ascend_doctor.checks.launch.options import (
    NODE_SIZES,
    at,
    flag,
    is_given,
    nodes,
    number,
    options,
    trains_roles,
    unseen,
    version,
    world,
)
from ascend_doctor.errors import NotApplicable, Unknown, Unresolved
from ascend_doctor.facts import LOOPBACK, UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, warning
from ascend_doctor.judging.layout_rules import (
    splits_groups,
    splits_layers,
    splits_ranks,
    splits_sequence,
)
from ascend_doctor.matrix.versions import satisfies

_ARGUMENTS = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/training/arguments.py"
_CONFIG = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/transformer/transformer_config.py"
_GROUPS = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/transformer/attention.py:1073"
_STATE = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/parallel_state.py"
_LAYERS = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/tensor_parallel/layers.py"
_MOE = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/transformer/moe/moe_layer.py"
_MEGATRON = frozenset({"megatron", "megatron-swift", "verl", "mindspeed-rl"})
# They train by Megatron-LM's own arguments, which it validates.
_VALIDATED = frozenset({"megatron", "mindspeed-rl"})
# Each takes another way of giving layers to stages, so that they need not divide.
_UNEVEN = (
    *("pipeline_model_parallel_layout", "num_layer_list", "spec", "noop_layers"),
    *("pipeline_num_transformer_layers", "hybrid_layer_pattern", "hybrid_override_pattern"),
    *("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"),
)

_LAST_PORT = 65535
# Devices of a node, where there are several nodes.
_NODE = 8
_ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
# Megatron-LM up to 0.12 gives an encoder ranks beside those of the decoder.
_ENCODER = ("encoder_tensor_model_parallel_size", "encoder_pipeline_model_parallel_size")


def _megatron_options(case: Case) -> dict[str, str]:
    """The options of a command that Megatron reads. Raises NotApplicable for another one."""
    launch_options = options(case)
    if case.need(Launch).program not in _MEGATRON | {""}:
        raise NotApplicable("the launch command does not start Megatron")
    if any(name in launch_options for name in _ENCODER):
        raise NotApplicable("the encoder has parallel sizes of its own")
    return launch_options


def _parts(case: Case) -> dict[str, int]:
    """Sizes of parallelism by their short names."""
    names = {"TP": "tensor", "PP": "pipeline", "EP": "expert"}
    sizes = {short: number(case, f"{name}_model_parallel_size", 1) for short, name in names.items()}
    return {**sizes, "CP": number(case, "context_parallel_size", 1)}


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


@check("run-world-size", "The parallel sizes divide the number of ranks", scope="launch")
def run_world_size(case: Case) -> Iterator[Finding]:
    """Megatron spreads the ranks over TP·PP·CP, and those of the experts over ETP·EP·PP.

    Both products must divide the number of ranks, which is nproc_per_node times nnodes of torchrun,
    NPROC_PER_NODE times NNODES of ms-swift, or trainer.n_gpus_per_node times trainer.nnodes of
    verl. Unset, the expert tensor parallel size is the tensor parallel size.
    """
    _megatron_options(case)
    ranks = world(case)
    yield from _too_many_parts(case, ranks)
    size = _parts(case)
    tensor = size["TP"]
    if ranks % (tensor * size["PP"] * size["CP"]):
        return
    unset = 1 if case.need(Launch).program == "megatron-swift" else tensor
    split = number(case, "expert_tensor_parallel_size", unset)
    if not splits_ranks(ranks, split, size["EP"], size["PP"]):
        yield error(
            f"ETP·EP·PP is {split * size['EP'] * size['PP']}, which does not divide {ranks} ranks",
            observed=f"EP {size['EP']}, PP {size['PP']}, ETP {split}",
            required="sizes whose product divides the number of ranks",
            because="Unset, the expert tensor parallel size is the tensor parallel size.",
            remedy=Remedy(summary="`ascend-doctor plan` lists layouts that fit"),
            refs=(_STATE,),
            location=at(case, "expert_model_parallel_size", "expert_tensor_parallel_size"),
        )


def _too_many_parts(case: Case, ranks: int) -> Iterator[Finding]:
    """What the known sizes alone do not divide, whatever the others are."""
    names = {"TP": "tensor_model", "PP": "pipeline_model", "CP": "context"}
    size: dict[str, int] = {}
    for short, name in names.items():
        with contextlib.suppress(Unknown):
            size[short] = number(case, f"{name}_parallel_size", 1)
    product = math.prod(size.values())
    if ranks % product:
        # First the size that divides nothing by itself, then the largest.
        order = sorted(size, key=lambda short: (ranks % size[short] == 0, -size[short]))
        devices = ("nproc_per_node", "trainer.n_gpus_per_node")
        # No node has three devices, so that this number is the slip.
        values = case.need(Launch).options
        odd = [name for name in devices if values.get(name, "1") not in map(str, NODE_SIZES)]
        if ranks not in NODE_SIZES and ranks % _NODE:
            odd.append("worker_num")
        yield error(
            f"{'·'.join(size)} is {product}, which does not divide {ranks} ranks",
            observed=", ".join(f"{name} {dimension}" for name, dimension in size.items()),
            required="sizes whose product divides the number of ranks",
            because="Megatron stops when it builds its groups.",
            remedy=Remedy(summary="`ascend-doctor plan` lists layouts that fit"),
            refs=(_STATE,),
            location=at(
                case, *odd, *(f"{names[short]}_parallel_size" for short in order), *devices
            ),
        )


@check("run-node-rank", "The node rank is below the number of nodes", scope="launch")
def run_node_rank(case: Case) -> Iterator[Finding]:
    """Torchrun counts nodes from 0, so that the last one has the rank nnodes - 1.

    With another rank the rendezvous waits for a node that never comes.
    """
    options(case)
    rank, nodes = number(case, "node_rank", 0, least=0), number(case, "nnodes", 1)
    if rank >= nodes:
        yield error(
            f"Node rank {rank} of {nodes} nodes",
            observed=f"node_rank {rank}, nnodes {nodes}",
            required=f"0 to {nodes - 1}",
            because="The rendezvous never completes.",
            remedy=Remedy(summary="Count node ranks from 0"),
            location=at(case, "node_rank", "nnodes"),
        )


@check("run-master-port", "The rendezvous port is valid", scope="launch")
def run_master_port(case: Case) -> Iterator[Finding]:
    """Ports go from 1 to 65535. Rank 0 can listen on no other, so the ranks cannot meet."""
    options(case)
    port = number(case, "master_port", least=0)
    if port > _LAST_PORT:
        yield error(
            f"Port {port} does not exist",
            observed=f"master_port {port}",
            required=f"1 to {_LAST_PORT}",
            because="Rank 0 cannot listen there, and the rendezvous fails.",
            refs=("https://www.rfc-editor.org/rfc/rfc9293#section-3.1",),
            location=at(case, "master_port"),
        )


@check("run-master-address", "Several nodes meet at an address of one of them", scope="launch")
def run_master_address(case: Case) -> Iterator[Finding]:
    """With several nodes master_addr is an address of the first that the others reach.

    At localhost each node waits for itself, until the rendezvous times out. ms-swift takes it from
    MASTER_ADDR, and the number of nodes from NNODES.
    """
    launch_options, nodes = options(case), number(case, "nnodes", 1)
    address = launch_options.get("master_addr", "")
    if case.need(Launch).program.endswith("swift") and case.facts.environment is not None:
        values = case.facts.environment.variables
        master = values.get("MASTER_ADDR", "")
        address, nodes = master if master in LOOPBACK else "", _nodes(values.get("NNODES", ""))
    if nodes > 1 and address:
        yield warning(
            f"{nodes} nodes meet at {address}",
            observed=f"master_addr {address}, nnodes {nodes}",
            required="an address of the first node that the others reach",
            because="Each node waits for itself, until the rendezvous times out.",
            remedy=Remedy(summary="Give every node the address of the first"),
            refs=("https://pytorch.org/docs/stable/elastic/run.html",),
            location=at(case, "master_addr", "MASTER_ADDR"),
        )


def _nodes(text: str) -> int:
    return int(text[:6]) if text.isdecimal() else 1


@check("run-mesh-size", "Device meshes have no more ranks than there are", scope="launch")
def run_mesh_size(case: Case) -> Iterator[Finding]:
    """The sizes of a device mesh multiply to at most the number of ranks.

    Read are the meshes of plain numbers in the Python file that is launched, where it stands beside
    the script or in the current folder.
    """
    options(case)
    meshes = case.need(Launch).meshes
    if not meshes:
        raise NotApplicable("the file that is launched was not read, or makes no mesh of numbers")
    ranks = world(case)
    for spot in meshes:
        size = math.prod(map(int, re.findall(r"\d{1,6}", spot.argument)))
        if size > ranks:
            yield error(
                f"A mesh of {size} ranks where there are {ranks}",
                observed=spot.argument,
                required=f"sizes that multiply to {ranks}",
                because="init_device_mesh raises RuntimeError.",
                refs=("pytorch/pytorch@v2.7.1:torch/distributed/device_mesh.py",),
                location=spot.location,
            )


@check("run-visible-devices", "Every rank of a node has a visible device", scope="launch")
def run_visible_devices(case: Case) -> Iterator[Finding]:
    """ASCEND_RT_VISIBLE_DEVICES lists at least as many devices as a node starts ranks.

    A rank without a device stops at set_device (107001).
    """
    options(case)
    values = case.facts.environment.variables if case.facts.environment is not None else {}
    listed = values.get("ASCEND_RT_VISIBLE_DEVICES", "")
    if "ASCEND_RT_VISIBLE_DEVICES" in unseen(case):
        raise Unresolved("ASCEND_RT_VISIBLE_DEVICES is known when the launch runs")
    if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", listed):
        raise NotApplicable("the launch lists no visible devices")
    count = len(set(listed.split(",")))
    each = number(case, "nproc_per_node", 0) or world(case) // nodes(case)
    if each > count and count == len(listed.split(",")):
        yield error(
            f"{each} ranks on a node, and {count} visible devices",
            observed=f"ASCEND_RT_VISIBLE_DEVICES={listed}",
            required=f"at least {each} devices, or fewer ranks",
            because="A rank without a device stops at set_device (107001).",
            location=at(case, "ASCEND_RT_VISIBLE_DEVICES", "nproc_per_node"),
        )


@check("run-experts-divide", "Expert parallelism fits the experts", scope="launch")
def run_experts_divide(case: Case) -> Iterator[Finding]:
    """The expert parallel size divides the experts, and there are experts to split.

    Megatron-LM's scripts need --num-experts for an expert parallel size above 1, and a router that
    chooses at most as many experts as there are.
    """
    _megatron_options(case)
    size = _parts(case)["EP"]
    validated = case.need(Launch).program in _VALIDATED
    if size > 1 and not is_given(case, "num_experts") and validated:
        yield error(
            f"Expert parallel size {size} without experts",
            observed=f"expert_model_parallel_size {size}, no num_experts",
            required="--num-experts",
            because="Megatron asserts it.",
            refs=(f"{_ARGUMENTS}:1038",),
            location=at(case, "expert_model_parallel_size"),
        )
    if not is_given(case, "num_experts"):
        return
    experts = number(case, "num_experts")
    if experts % size:
        option = "expert_model_parallel_size"
        yield _must_divide(case, "num_experts", size, "EP", option, f"{_ARGUMENTS}:1039")
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
    _megatron_options(case)
    if flag(case, "unaligned_linear"):
        raise NotApplicable("--unaligned-linear splits heads that TP does not divide")
    size = _parts(case)["TP"]
    option = "tensor_model_parallel_size"
    if is_given(case, "num_attention_heads") and number(case, "num_attention_heads") % size:
        yield _must_divide(case, "num_attention_heads", size, "TP", option, f"{_CONFIG}:743")
    elif _has_uneven_groups(case):
        where = "num_query_groups"
        groups = number(case, where)
        yield _must_divide(case, "num_attention_heads", groups, "query groups", where, _GROUPS)
    elif (
        is_given(case, "num_query_groups")
        and flag(case, "group_query_attention")
        # What depends on the version is no ground for an error where that is not known.
        and splits_groups(number(case, "num_query_groups"), size, version(case)) is False
    ):
        yield _must_divide(case, "num_query_groups", size, "TP", option, f"{_CONFIG}:758")
    both = is_given(case, "num_attention_heads") and is_given(case, "hidden_size")
    if both and not is_given(case, "kv_channels"):
        heads = number(case, "num_attention_heads")
        if number(case, "hidden_size") % heads and not flag(case, "multi_latent_attention"):
            where = "num_attention_heads"
            yield _must_divide(case, "hidden_size", heads, "heads", where, f"{_ARGUMENTS}:840")


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
    launch_options, size = _megatron_options(case), _parts(case)["PP"]
    virtual = "num_layers_per_virtual_pipeline_stage"
    if size == 1 and number(case, virtual, 0, least=0):
        yield error(
            "Virtual pipeline stages without a pipeline",
            observed=f"{virtual} {launch_options[virtual]}, pipeline_model_parallel_size 1",
            required="a pipeline parallel size of 2 or more",
            refs=(f"{_ARGUMENTS}:604",),
            location=at(case, virtual),
        )
    if not is_given(case, "num_layers"):
        return
    yield from _misses_layers(case, size)
    if any(is_given(case, name) for name in _UNEVEN):
        return
    layers = number(case, "num_layers")
    ends = {name: number(case, name, least=0) for name in _ENDS if is_given(case, name)}
    if ends:
        if not splits_layers(layers, size, *(ends.get(name) for name in _ENDS)):
            yield error(
                f"{layers} layers cannot be split over {size} stages with these ends",
                observed=", ".join(f"{name} {count}" for name, count in ends.items()),
                required="layers in each stage, the same number in those between the ends",
                refs=(_CONFIG,),
                location=at(case, *ends),
            )
    elif not splits_layers(layers, size, None, None):
        option = "pipeline_model_parallel_size"
        yield _must_divide(case, "num_layers", size, "PP", option, f"{_ARGUMENTS}:572")


def _misses_layers(case: Case, stages: int) -> Iterator[Finding]:
    """A list of MindSpeed-LLM's with other than a number for each stage, or of other layers."""
    if not is_given(case, "num_layer_list") or case.need(Launch).program not in _VALIDATED:
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
    launch_options, size = _megatron_options(case), _parts(case)
    if not is_given(case, "seq_length") or case.need(Launch).program not in {*_VALIDATED, ""}:
        return
    length = number(case, "seq_length")
    if not splits_sequence(length, size["CP"]):
        option = "context_parallel_size"
        ref = f"{_ARGUMENTS}:844"
        yield _must_divide(case, "seq_length", 2 * size["CP"], "2·CP", option, ref)
    elif flag(case, "sequence_parallel") and length // size["CP"] % size["TP"]:
        option = "tensor_model_parallel_size"
        yield _must_divide(case, "seq_length", size["TP"], "TP", option, _CONFIG)
    if (
        is_given(case, "max_position_embeddings")
        and number(case, "max_position_embeddings") < length
    ):
        yield error(
            f"Sequences of {length} are longer than the position embeddings",
            observed=f"max_position_embeddings {launch_options['max_position_embeddings']}",
            required=f"at least {length}",
            refs=(f"{_ARGUMENTS}:856",),
            location=at(case, "max_position_embeddings"),
        )


@check(
    "run-batch-divides",
    "The global batch divides into micro-batches",
    scope="launch",
)
def run_batch_divides(case: Case) -> Iterator[Finding]:
    """The global batch size is a multiple of the micro-batch size times the data parallel size."""
    launch_options, size = _megatron_options(case), _parts(case)
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


@check(
    "run-moe-needs-sp",
    "Experts with tensor parallelism train with sequence parallelism",
    scope="launch",
)
def run_moe_needs_sp(case: Case) -> Iterator[Finding]:
    """Megatron-core 0.12 to 0.16 refuse to train experts with TP above 1 without it.

    The layer of experts raises ValueError in its first forward pass.
    """
    launch_options, size = _megatron_options(case), _parts(case)["TP"]
    launch = case.need(Launch)
    if launch.program not in _VALIDATED or not is_given(case, "num_experts") or size == 1:
        return
    if "deepspeed" in launch.flags:
        raise NotApplicable("the experts are those of DeepSpeed")
    if not flag(case, "sequence_parallel") and not is_given(case, "tp_2d"):
        yield error(
            "Experts with tensor parallelism need --sequence-parallel",
            observed=f"num_experts {launch_options['num_experts']}, "
            f"tensor_model_parallel_size {size}",
            required="--sequence-parallel",
            because="The layer raises ValueError in training.",
            refs=(_MOE,),
            location=at(case, "num_experts", "tensor_model_parallel_size"),
        )


@check("run-precision", "Only one precision is set", scope="launch")
def run_precision(case: Case) -> Iterator[Finding]:
    """FP16 and BF16 exclude each other, and Megatron-LM's experts are not trained in FP16."""
    _megatron_options(case)
    if flag(case, "fp16") and flag(case, "bf16"):
        yield error(
            "FP16 and BF16 exclude each other",
            observed="fp16 and bf16",
            required="one of them; BF16 on Atlas A2 and later",
            refs=(f"{_ARGUMENTS}:724",),
            location=at(case, "fp16", "bf16"),
        )
    elif flag(case, "fp16") and _parts(case)["EP"] > 1:
        yield error(
            "Expert parallelism is refused in FP16",
            observed=f"fp16, expert_model_parallel_size {_parts(case)['EP']}",
            required="bf16",
            refs=(f"{_ARGUMENTS}:1041",),
            location=at(case, "fp16"),
        )


@check("run-recompute", "Recomputation options fit together", scope="launch")
def run_recompute(case: Case) -> Iterator[Finding]:
    """Full recomputation needs a method and a number of layers.

    Selective recomputation takes neither.
    """
    launch_options = _megatron_options(case)
    kind, method = (
        launch_options.get("recompute_granularity"),
        launch_options.get("recompute_method"),
    )
    if not is_given(case, "recompute_granularity") or kind is None:
        return
    if UNTOLD in kind + (method or ""):
        raise Unresolved("how it recomputes is known when the launch runs")
    if kind not in {"full", "selective", "none", "null"}:
        yield error(
            f"There is no recompute granularity {kind!r}",
            observed=f"recompute_granularity {kind}",
            required="full or selective",
            refs=(_ARGUMENTS,),
            location=at(case, "recompute_granularity"),
        )
    elif kind == "full" and not is_given(case, "recompute_method"):
        yield error(
            "Full recomputation without a method",
            observed="recompute_granularity full",
            required="recompute_method uniform or block, and recompute_num_layers",
            refs=(_CONFIG,),
            location=at(case, "recompute_granularity"),
        )
    elif kind == "selective" and method not in {None, "none", "null"}:
        yield error(
            "Selective recomputation takes no method",
            observed=f"recompute_granularity selective, recompute_method {method}",
            required="no recompute_method",
            refs=(f"{_ARGUMENTS}:915",),
            location=at(case, "recompute_method"),
        )


@check("run-overlap", "Overlapped gathering uses the distributed optimizer", scope="launch")
def run_overlap(case: Case) -> Iterator[Finding]:
    """--overlap-param-gather needs the distributed optimizer and --overlap-grad-reduce."""
    _megatron_options(case)
    if case.need(Launch).program not in _VALIDATED or not flag(case, "overlap_param_gather"):
        return
    sharded = ("use_torch_fsdp2", "use_megatron_fsdp", "use_custom_fsdp")
    if any(is_given(case, option) for option in sharded):
        return
    missing = [
        name
        for name in ("use_distributed_optimizer", "overlap_grad_reduce")
        if not flag(case, name)
    ]
    if missing:
        yield error(
            "--overlap-param-gather lacks what it needs",
            observed=f"no {', no '.join(missing)}",
            required="--use-distributed-optimizer --overlap-grad-reduce",
            refs=(f"{_ARGUMENTS}:626",),
            location=at(case, "overlap_param_gather"),
        )


@check(
    "run-swift-parallel", "Megatron's sizes are given to `megatron`, not to `swift`", scope="launch"
)
def run_swift_parallel(case: Case) -> Iterator[Finding]:
    """`swift sft` trains with transformers and knows none of Megatron's parallel sizes."""
    launch_options = options(case)
    if case.need(Launch).program != "swift":
        raise NotApplicable("the launch command does not start swift")
    wrong = [name for name in launch_options if name.endswith("_model_parallel_size")]
    if wrong:
        yield error(
            f"swift does not know {wrong[0]}",
            observed=", ".join(f"--{name}" for name in wrong),
            required="`megatron sft` instead of `swift sft`",
            refs=("modelscope/ms-swift@3602360a:swift/megatron/arguments/megatron_args.py",),
            location=at(case, *wrong),
        )


@check("verl-on-npu", "verl's configuration suits NPUs", scope="launch")
def verl_on_npu(case: Case) -> Iterator[Finding]:
    """Verl's device, checkpoint engine and router replay on NPUs.

    The HCCL checkpoint engine is registered as nccl; router replay needs symbols that megatron-core
    has from 0.14 on; a device other than npu is overruled with a warning by newer releases only.
    """
    launch_options = options(case)
    if case.need(Launch).program not in {"verl", ""}:
        raise NotApplicable("the launch command does not start verl")
    if launch_options.get("checkpoint_engine.backend") == "hccl":
        yield error(
            "verl has no checkpoint engine that is called hccl",
            observed="checkpoint_engine.backend hccl",
            required="nccl, under which name the HCCL engine is registered on NPUs",
            refs=(
                "verl-project/verl@1dda039b:verl/checkpoint_engine/hccl_checkpoint_engine.py:103",
            ),
            location=at(case, "checkpoint_engine.backend"),
        )
    if launch_options.get("trainer.device") in {"cuda", "gpu"}:
        yield warning(
            f"verl is told to train on {launch_options['trainer.device']}",
            observed=f"trainer.device {launch_options['trainer.device']}",
            required="trainer.device=npu",
            because="Newer releases take the NPU with a warning; older ones stop.",
            refs=("verl-project/verl@1dda039b:verl/utils/device.py:150",),
            location=at(case, "trainer.device"),
        )
    replay, newest = launch_options.get("router_replay.mode", ""), version(case)
    if replay in {"R2", "R3"} and newest and not satisfies("pep440", newest, ">=0.14"):
        yield error(
            f"Router replay needs megatron-core 0.14; this is {newest}",
            observed=f"router_replay.mode {replay}",
            required="megatron-core 0.14 or newer, or no replay",
            because="verl prints that NPUs do not support it, and trains without.",
            refs=("verl-project/verl@main:verl/utils/megatron/router_replay_patch.py",),
            location=at(case, "router_replay.mode"),
        )
