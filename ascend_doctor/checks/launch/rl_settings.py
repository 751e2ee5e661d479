"""What MindSpeed-RL refuses of its configuration before it trains."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.checks.launch.rl_roles import MINDSPEED_RL, RoleSettings, apply_rules, refuse
from ascend_doctor.facts import UNTOLD
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, error

_WEIGHTS = f"{MINDSPEED_RL}:mindspeed_rl/workers/resharding/vllm_weight_container.py"
_FEATURES = "Ascend/MindSpeed@028de58c:mindspeed/features_manager"


@check("run-rl-settings", "MindSpeed-RL takes the configuration", scope="launch")
def run_rl_settings(case: Case) -> Iterator[Finding]:
    """What MindSpeed-RL refuses before it trains: validate_rl_args, in a configuration.

    Precision, lengths, integrated workers, removed padding, sizes of the rollout, and what the
    switches of DAPO and of several turns need.
    """
    rules = (
        *(_precision, _lengths, _workers, _padding, _context, _rollout_stages, _rollout_tensor),
        *(_rollout_experts, _expert_extension, _overlong, _clipping, _filter, _turns, _verifiers),
    )
    yield from apply_rules(case, rules)


def _precision(own: RoleSettings) -> Iterator[Finding]:
    dtype, bf16 = own.of("generate_config.dtype", "bfloat16"), own.of_role("actor", "bf16", "true")
    if dtype.text != "bfloat16":
        yield refuse(
            title="The rollout is not in BF16",
            observed=f"generate_config.dtype {dtype.text}",
            required="bfloat16",
            line=26,
            location=dtype.location,
        )
    if not bf16.on:
        yield refuse(
            title="The actor does not train in BF16",
            observed="bf16 false",
            required="true",
            line=26,
            location=bf16.location,
        )


def _lengths(own: RoleSettings) -> Iterator[Finding]:
    longest = own.of("generate_config.max_model_len", "2048")
    length = own.of_role("actor", "seq_length")
    if own.number(longest) and own.number(length) > own.number(longest):
        yield refuse(
            title=f"Sequences of {length.text} are longer than the rollout takes",
            observed=f"seq_length {length.text}, generate_config.max_model_len {longest.text}",
            required="max_model_len of at least seq_length",
            line=49,
            location=longest.location or length.location,
        )


def _workers(own: RoleSettings) -> Iterator[Finding]:
    if not own.integrated:
        mode = own.of("rl_config.integrated_mode_config")
        if mode.there:
            yield refuse(
                title="integrated_mode_config without integrated workers",
                observed="use_integrated_worker false",
                required="true",
                line=43,
                location=mode.location,
            )
        return
    for part, line in (("rl_config.reference_resource", 33), ("rl_config.reward_resource", 38)):
        npus = own.of(f"{part}.num_npus")
        if npus.there:
            name = part.rpartition(".")[2]
            yield refuse(
                title=f"Integrated workers take no {name}",
                observed=f"{name}, use_integrated_worker true",
                required=f"no {name}",
                line=line,
                location=npus.location,
            )


def _padding(own: RoleSettings) -> Iterator[Finding]:
    removed = own.of("rl_config.use_remove_padding", "false")
    if not removed.on:
        return
    stages = own.size("actor", "pipeline_model_parallel_size", 1)
    needs = [("reset_attention_mask", 70)]
    if stages > 1:
        needs.append(("no_pad_to_seq_lengths", 64))
    for name, line in needs:
        setting = own.of_role("actor", name, "false")
        if not setting.on:
            yield refuse(
                title=f"use_remove_padding needs {name}",
                observed=f"{name} {setting.text}, pipeline_model_parallel_size {stages}",
                required=f"{name}: true",
                line=line,
                location=setting.location or removed.location,
            )
    if own.of("rl_config.is_multimodal", "false").on:
        yield refuse(
            title="use_remove_padding is refused for multimodal models",
            observed="is_multimodal true",
            required="false",
            line=74,
            location=removed.location,
        )


def _context(own: RoleSettings) -> Iterator[Finding]:
    size = own.size("actor", "context_parallel_size", 1)
    algorithm = own.of_role("actor", "context_parallel_algo", "ulysses_cp_algo")
    if size == 1 or not algorithm.there:
        return
    if algorithm.text not in {"ulysses_cp_algo", "megatron_cp_algo"}:
        observed, required = algorithm.text, "ulysses_cp_algo or megatron_cp_algo"
        title = f"No context parallelism {observed}"
        yield refuse(
            title=title, observed=observed, required=required, line=56, location=algorithm.location
        )
    heads, tensor = (
        own.size("actor", "num_attention_heads"),
        own.size("actor", "tensor_model_parallel_size", 1),
    )
    if algorithm.text == "ulysses_cp_algo" and heads % (size * tensor):
        yield error(
            f"CP·TP {size * tensor} does not divide {heads} attention heads",
            observed=f"context_parallel_size {size}, tensor_model_parallel_size {tensor}",
            required="a product that divides the heads",
            because="Ulysses gives each rank heads of its own; MindSpeed asserts it.",
            refs=(f"{_FEATURES}/context_parallel/ulysses_context_parallel.py:33",),
            location=own.of_role("actor", "context_parallel_size").location,
        )


def _rollout_stages(own: RoleSettings) -> Iterator[Finding]:
    stages = own.of("generate_config.infer_pipeline_parallel_size", "1")
    if own.number(stages) > 1:
        yield refuse(
            title="The rollout has no pipeline",
            observed=f"infer_pipeline_parallel_size {stages.text}",
            required="1",
            line=169,
            location=stages.location,
        )


def _rollout_tensor(own: RoleSettings) -> Iterator[Finding]:
    infer = own.of("generate_config.infer_tensor_parallel_size", "8")
    npus = own.of("rl_config.actor_resource.num_npus")
    size, ranks = own.number(infer), own.number(npus)
    tensor = own.size("actor", "tensor_model_parallel_size", 1)
    stages = own.size("actor", "pipeline_model_parallel_size", 1)
    if not size or not ranks or not tensor or not stages:
        return
    where = infer.location or npus.location
    observed = f"infer_tensor_parallel_size {size}, tensor_model_parallel_size {tensor}"
    smaller, larger = sorted((size, tensor))
    if larger % smaller:
        title = (
            f"The rollout's TP {size} and the actor's TP {tensor} are no multiples of each other"
        )
        yield refuse(
            title=title,
            observed=observed,
            required="sizes of which one divides the other",
            line=653 if size > tensor else 161,
            location=where,
            ref=_WEIGHTS,
        )
    elif ranks // stages % size:
        yield refuse(
            title=f"The rollout's TP {size} does not divide {ranks // stages} NPUs of a stage",
            observed=f"{observed}, num_npus {ranks}",
            required="a divisor",
            line=169,
            location=where,
            ref=_WEIGHTS,
        )


def _rollout_experts(own: RoleSettings) -> Iterator[Finding]:
    infer = own.of("generate_config.infer_expert_parallel_size", "1")
    size, trained = own.number(infer), own.size("actor", "expert_model_parallel_size", 1)
    if size and trained and size % trained:
        yield refuse(
            title=f"The rollout's EP {size} is no multiple of the actor's EP {trained}",
            observed=f"infer_expert_parallel_size {size}, expert_model_parallel_size {trained}",
            required=f"a multiple of {trained}",
            line=157,
            location=infer.location or own.of_role("actor", "expert_model_parallel_size").location,
            ref=_WEIGHTS,
        )


def _expert_extension(own: RoleSettings) -> Iterator[Finding]:
    expert = own.of_role("actor", "expert_model_parallel_size", "1")
    tensor = own.size("actor", "tensor_model_parallel_size", 1)
    extends = own.of_role("actor", "moe_tp_extend_ep", "false")
    size, experts = own.number(expert), own.size("actor", "num_experts")
    if size > 1 and not extends.on:
        yield refuse(
            title="Expert parallelism needs moe_tp_extend_ep",
            observed=f"expert_model_parallel_size {size}",
            required="moe_tp_extend_ep: true",
            line=159,
            location=extends.location or expert.location,
            ref=_WEIGHTS,
        )
    elif extends.on and size and tensor and experts % (size * tensor):
        yield error(
            f"TP·EP {size * tensor} does not divide {experts} experts",
            observed=f"tensor_model_parallel_size {tensor}, expert_model_parallel_size {size}",
            required="a product that divides the experts",
            because="moe_tp_extend_ep gives each rank whole experts; MindSpeed asserts it.",
            refs=(f"{_FEATURES}/moe/tp_extend_ep.py:23",),
            location=expert.location,
        )


def _overlong(own: RoleSettings) -> Iterator[Finding]:
    if not own.of("rl_config.overlong_buffer_enable", "false").on:
        return
    tokens = own.of("generate_config.sampling_config.max_tokens", "128")
    buffer = own.of("rl_config.overlong_buffer", "0")
    rollout = own.of("rl_config.rollout_max_tokens", "2048")
    if own.number(buffer) >= own.number(tokens):
        yield refuse(
            title="The overlong buffer is as long as an answer",
            observed=f"overlong_buffer {buffer.text}, max_tokens {tokens.text}",
            required="less than max_tokens",
            line=480,
            location=buffer.location,
        )
    if own.number(rollout) != own.number(tokens):
        yield refuse(
            title="The rollout has two lengths",
            observed=f"rollout_max_tokens {rollout.text}, sampling_config.max_tokens {tokens.text}",
            required="the same number",
            line=484,
            location=rollout.location or tokens.location,
        )


def _clipping(own: RoleSettings) -> Iterator[Finding]:
    low = own.of("rl_config.clip_ratio_low", "0.1")
    high = own.of("rl_config.clip_ratio_high", "0.1")
    if own.of("rl_config.clip_higher_enable", "false").on and _is_above(low.text, high.text):
        yield refuse(
            title="The clip ratios are exchanged",
            observed=f"clip_ratio_low {low.text}, clip_ratio_high {high.text}",
            required="low up to high",
            line=491,
            location=low.location or high.location,
        )


def _is_above(first: str, second: str) -> bool:
    try:
        return float(first) > float(second)
    except ValueError:
        return False


def _filter(own: RoleSettings) -> Iterator[Finding]:
    metric = own.of("rl_config.filter_groups_metric", "acc")
    functions = own.items("rl_config.verifier_function")
    known = functions and not any(UNTOLD in name for name in functions)
    enabled = own.of("rl_config.filter_groups_enable", "false").on
    if enabled and known and metric.text not in functions:
        yield refuse(
            title="Groups are filtered by a metric that nothing computes",
            observed=f"filter_groups_metric {metric.text}",
            required=" or ".join(functions),
            line=500,
            location=metric.location,
        )


def _turns(own: RoleSettings) -> Iterator[Finding]:
    parts = own.of("rl_config.partial_rollout_max_split", "1")
    order = own.of("rl_config.guarantee_order", "false")
    if own.number(parts) > 1 and order.on:
        yield refuse(
            title="Partial rollouts keep no order",
            observed="guarantee_order true",
            required="false",
            line=506,
            location=order.location,
        )
    several = own.of("rl_config.multi_turn_enable", "false")
    if not several.on:
        return
    tokens = own.of("generate_config.sampling_config.max_tokens", "128")
    total = own.of("rl_config.max_total_response_length", "0")
    if own.number(total) < own.number(tokens):
        yield refuse(
            title="All turns are shorter than one",
            observed=f"max_total_response_length {total.text}, max_tokens {tokens.text}",
            required="max_tokens or more",
            line=513,
            location=total.location or several.location,
        )
    engine = own.of("rl_config.async_engine", "false")
    if not engine.on:
        yield refuse(
            title="Several turns need async_engine",
            observed="false",
            required="true",
            line=517,
            location=engine.location or several.location,
        )


def _verifiers(own: RoleSettings) -> Iterator[Finding]:
    functions = own.items("rl_config.verifier_function")
    weights = own.items("rl_config.verifier_weight")
    if functions and weights and len(functions) != len(weights):
        yield refuse(
            title="Each verifier needs a weight",
            observed=f"{len(functions)} functions, {len(weights)} weights",
            required="as many of both",
            line=472,
            location=own.of("rl_config.verifier_weight.0").location,
        )
