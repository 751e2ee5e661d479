"""The memory that a launch needs as it is, against that of its chip."""

import contextlib

import msgspec
from msgspec.structs import replace

from ascend_doctor.checks.launch.options import at, flag, is_given, megatron_options, number, world
from ascend_doctor.errors import DataError, NotApplicable, Unknown
from ascend_doctor.facts import Launch
from ascend_doctor.judging import Case, Findings, Level, Texts, note
from ascend_doctor.matrix.models import Latent, Model, every, find_named
from ascend_doctor.patterns import defer
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import GIB, Memory, TrainingRun, stage_memory
from ascend_doctor.planning.ranking import MARGIN, RankBudget, rank_budget

TEXTS = Texts("launches")

_TRAINS = defer(r"(?:^|\.)(?:pre|post)train_\w+$|\b_megatron\.(?:pt|sft|rlhf)$")
_TUNERS = frozenset({"lora", "full"})
USUAL_SOC = "Ascend910B3"
# No error of the formulas explains an estimate this many times the chip's memory.
_CERTAIN = 1.5
# megatron/training/arguments.py: without --ffn-hidden-size, and with --swiglu.
_WIDE, _GATED_WIDE = 4, 8 / 3
_GATED_MULTIPLE = 64
# Bytes per score that attention without a fused kernel keeps: softmax and dropout in half
# precision, and a mask (arXiv 2205.05198, section 4.1).
_SCORE = 5
# Megatron's names for the parts of a head, and those of MindSpeed-LLM before 2.3.
_MLA = (
    ("kv_lora_rank",),
    ("qk_pos_emb_head_dim", "qk_rope_head_dim"),
    ("qk_head_dim", "qk_nope_head_dim"),
    ("v_head_dim",),
)
# Changes the memory, but is in no formula (MindSpeed core_r0.15.3: features_manager).
_NOT_COUNTED = (
    "reuse_fp32_param", "optimizer_cpu_offload", "swap_attention", "recompute_activation_function",
    "moe_zero_memory", "use_torch_fsdp2", "use_custom_fsdp", "use_megatron_fsdp", "cpu_offloading",
    "qlora", "tp_2d", "adaptive_recompute_device_size", "smart_swap", "moe_fb_overlap",
    "no_pad_to_seq_lengths", "variable_seq_lengths", "noop_layers", "recompute_mla_up_proj",
    "mla_swap_core_attn_out", "muon_momentum", "optimizer_offload_fraction",
)  # fmt: skip

UNSEEN = "options that the file does not show"


class LaunchedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a launch trains, and how.

    ``memory``: that of the pipeline stage that needs most. ``assumed``: values that the launch
    does not give. ``not_counted``: its options that change the memory and are in no formula.
    """

    model: Model
    layout: Layout
    run: TrainingRun
    memory: Memory
    assumed: tuple[str, ...] = ()
    not_counted: tuple[str, ...] = ()

    def fits(self, where: RankBudget) -> bool | None:
        """None if the estimate is nearer than its error, or options are not counted."""
        if UNSEEN in self.not_counted or (self.not_counted and where.memory < self.memory.total):
            return None
        if where.memory / (1 + MARGIN) < self.memory.total <= where.memory * (1 + MARGIN):
            return None
        return self.memory.total <= where.memory


@TEXTS.check("launch-memory")
def _launch_memory(case: Case) -> Findings:
    try:
        plan = plan_launch(case)
    except Unknown as reason:  # other checks say what is not known
        raise NotApplicable(str(reason)) from reason
    where, chip = budget(case)
    needed, has = plan.memory.total / GIB, where.memory / GIB
    shown = f"{needed:.1f} GiB an NPU of {has:.1f} GiB ({chip})"
    # ms-swift's samples are as long as they are, up to max_length.
    short = case.need(Launch).program == "megatron-swift" and plan.memory.states <= where.memory
    if short or plan.fits(where) is not False:
        yield note(f"The launch needs about {shown}")
        return
    spot = at(case, "num_layers", "model", "micro_batch_size")
    level = Level.ERROR if needed > _CERTAIN * has else Level.WARNING
    yield TEXTS.finding(
        "too-much-memory", spot, level=level, needed=needed, has=has, plan=plan, shown=shown
    )


def plan_launch(case: Case) -> LaunchedPlan:
    """What a launch of Megatron trains. Raises Unknown or NotApplicable if it does not say."""
    options = megatron_options(case)
    launch = case.need(Launch)
    if launch.program == "verl" or "mm_model" in options:
        raise NotApplicable("several models, or parts of one, share the NPUs")
    swift = launch.program == "megatron-swift"
    if swift and options.get("train_type", options.get("tuner_type", "full")) not in _TUNERS:
        raise Unknown("what the tuner trains")
    if not _TRAINS.search(launch.module):
        raise NotApplicable("the launch command does not train")
    names = {*options, *(flag.replace("-", "_") for flag in launch.flags)}
    assumed: list[str] = []
    model = _model(case, assumed)
    sizes = {
        "tp": number(case, "tensor_model_parallel_size", 1),
        "pp": number(case, "pipeline_model_parallel_size", 1),
        "cp": number(case, "context_parallel_size", 1),
        "ep": number(case, "expert_model_parallel_size", 1) if model.experts else 1,
        # Unset, ms-swift's is 1, and Megatron-LM's the tensor parallel size.
        "etp": (_optional(case, "expert_tensor_parallel_size") or int(swift)) * bool(model.experts),
    }
    layout = Layout(npus=world(case), **sizes)
    if not layout.divides or layout.pp > model.layers:
        raise NotApplicable("its parallel sizes are not legal")
    run = TrainingRun(
        sequence=number(case, "max_length" if swift else "seq_length", 2048 if swift else None),
        micro_batch=number(case, "micro_batch_size", 1),
        global_batch=_optional(case, "global_batch_size"),
        swap=flag(case, "swap_optimizer"),
        lora=_lora_rank(case, swift=swift),
    )
    memory = max(
        (_stage(case, model, layout, run, stage, swift=swift) for stage in range(layout.pp)),
        key=lambda each: each.total,
    )
    return LaunchedPlan(
        model=model, layout=layout, run=run, memory=memory, assumed=tuple(assumed),
        not_counted=tuple(name for name in _NOT_COUNTED if name in names),
    )  # fmt: skip


def budget(case: Case) -> tuple[RankBudget, str]:
    """The chip's memory and name; for an unknown chip, those of Atlas A2 with 64 GB."""
    npus = case.facts.npus
    name = next((npu.name for npu in npus.devices if npu.name), "") if npus is not None else ""
    for soc_name, shown in ((name, name), (USUAL_SOC, f"{USUAL_SOC} assumed")):
        where = rank_budget(case.catalog, soc_name)
        if where and where.memory:
            return where, shown
    raise Unknown("how much memory an NPU has")


def _optional(case: Case, name: str) -> int:
    value = case.need(Launch).options.get(name, "").lower()
    return 0 if value in {"-1", "none"} else number(case, name, 0, least=0)


def _lora_rank(case: Case, *, swift: bool) -> int:
    options = case.need(Launch).options
    if swift:
        lora = "lora" in {options.get("train_type", ""), options.get("tuner_type", "")}
        return number(case, "lora_rank", 8) if lora else 0
    return _optional(case, "lora_r")


def _model(case: Case, assumed: list[str]) -> Model:
    launch = case.need(Launch)
    if launch.model_name:
        named = None
        with contextlib.suppress(DataError):
            named = find_named(case.catalog, launch.model_name)
        if named is None:
            raise Unknown(f"the sizes of {launch.model_name}")
        return named
    hidden, heads = number(case, "hidden_size"), number(case, "num_attention_heads")
    grouped = flag(case, "group_query_attention")
    gated = flag(case, "swiglu")
    ffn = _optional(case, "ffn_hidden_size")
    if not ffn and gated:
        ffn = int(_GATED_WIDE * hidden / _GATED_MULTIPLE) * _GATED_MULTIPLE
    # Without a gate, a network has two matrices instead of three.
    wide = (ffn or _WIDE * hidden) if gated else (ffn or _WIDE * hidden) * 2 // 3
    experts = _optional(case, "num_experts")
    name = "moe_ffn_hidden_size"
    # MindSpeed-LLM's older name (mindspeed_llm/features_manager/arguments/deprecated_args.py:75).
    name = name if is_given(case, name) else "moe_intermediate_size"
    expert_ffn = number(case, name, wide) if experts else 0
    shared = _optional(case, "moe_shared_expert_intermediate_size")
    shared = shared or _optional(case, "n_shared_experts") * expert_ffn
    model = Model(
        schema=1, id="launch", title="the launch's model",
        layers=number(case, "num_layers"), hidden=hidden, heads=heads,
        kv_heads=number(case, "num_query_groups", 1) if grouped else heads,
        head_dim=number(case, "kv_channels", max(hidden // heads, 1)),
        ffn=wide, vocabulary=1,
        tied=not flag(case, "untie_embeddings_and_output_weights"),
        experts=experts, top_k=number(case, "moe_router_topk", 2) if experts else 0,
        expert_ffn=expert_ffn, shared_ffn=shared if experts else 0,
        dense_layers=_optional(case, "first_k_dense_replace") if experts else 0,
        latent=_latent(case),
    )  # fmt: skip
    return replace(model, vocabulary=_vocabulary(case, model, assumed))


def _vocabulary(case: Case, model: Model, assumed: list[str]) -> int:
    for name in ("padded_vocab_size", "vocab_size"):
        if size := _optional(case, name):
            return size
    like = [
        row
        for row in every(case.catalog)
        if (row.hidden, row.heads) == (model.hidden, model.heads)
        and (row.ffn == model.ffn or row.expert_ffn == model.expert_ffn > 0)
    ]
    if not like:
        raise Unknown("how many words its tokenizer has")
    row = min(like, key=lambda each: abs(each.layers - model.layers))
    assumed.append(f"a vocabulary of {row.vocabulary}, as {row.title} has it")
    return row.vocabulary


def _latent(case: Case) -> Latent | None:
    if not flag(case, "multi_latent_attention"):
        return None
    kv_rank, rope, nope, value = (
        next((size for name in names if (size := _optional(case, name))), 0) for names in _MLA
    )
    if not (kv_rank and rope and nope and value):
        raise Unknown("the sizes of latent attention")
    q_rank = _optional(case, "q_lora_rank")
    return Latent(kv_rank=kv_rank, q_rank=q_rank, nope_dim=nope, rope_dim=rope, value_dim=value)


def _stage(
    case: Case, model: Model, layout: Layout, run: TrainingRun, stage: int, *, swift: bool
) -> Memory:
    whole = stage_memory(model, layout, run, stage, recompute=False)
    again = stage_memory(model, layout, run, stage, recompute=True)
    share = _recomputation_share(case, model, layout)
    activations = whole.activations * (1 - share) + again.activations * share
    activations += (1 - share) * _scores(case, model, layout, run, stage, swift=swift)
    activations *= _virtual_penalty(case, model, layout)
    gradients, optimizer = whole.gradients, whole.optimizer
    if flag(case, "fp16") and not flag(case, "accumulate_allreduce_grads_in_fp32"):
        gradients /= 2
    distributed = swift or flag(case, "use_distributed_optimizer")
    if not (distributed or run.swap):
        # Each parameter has 4 bytes of gradients and 12 of optimizer states.
        optimizer = whole.gradients * 3
    return replace(
        whole, activations=activations, gradients=gradients, optimizer=optimizer,
        recompute=share > 0,
    )  # fmt: skip


def _recomputation_share(case: Case, model: Model, layout: Layout) -> float:
    options = case.need(Launch).options
    if options.get("recompute_granularity", "") != "full":
        return 0.0
    if options.get("recompute_method", "") != "block":
        return 1.0
    layers = -(-model.layers // layout.pp)
    return min(number(case, "recompute_num_layers", layers) / layers, 1.0)


def _virtual_penalty(case: Case, model: Model, layout: Layout) -> float:
    """How many times more is in flight with an interleaved schedule (Megatron's own penalty)."""
    each = _optional(case, "num_layers_per_virtual_pipeline_stage")
    if not each or layout.pp == 1:
        return 1.0
    chunks = max(model.layers // layout.pp // each, 1)
    return 1 + (layout.pp - 1) / (layout.pp * chunks)


def _scores(
    case: Case, model: Model, layout: Layout, run: TrainingRun, stage: int, *, swift: bool
) -> float:
    options = case.need(Launch).options
    if swift or {"use_flash_attn", "use_fused_attn", "attention_backend"} & options.keys():
        return 0.0
    layers = model.layers / layout.pp * (layout.pp - stage)
    each = run.micro_batch * run.sequence**2 / layout.cp * model.heads / layout.tp
    return layers * each * _SCORE
