"""MindSpeed-RL's configurations: keys that it has, and what it refuses before it trains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from ascend_doctor.checks.launch.options import NODE_SIZES, options, trains_roles
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Place, Remedy
from ascend_doctor.judging.judge import Case, check, error, unknown
from ascend_doctor.judging.spelling import slip_of

_REPOSITORY = "Ascend/MindSpeed-RL@05a90d77"
_UPDATE = f"{_REPOSITORY}:mindspeed_rl/config_cls/base_config.py:32"
_VALIDATE = f"{_REPOSITORY}:mindspeed_rl/config_cls/validate_config.py"
_WEIGHTS = f"{_REPOSITORY}:mindspeed_rl/workers/resharding/vllm_weight_container.py"
_FEATURES = "Ascend/MindSpeed@028de58c:mindspeed/features_manager"
_ROLES = ("actor", "ref", "reward", "critic")
_RESOURCES = {"ref": "reference"}
# The parts of a configuration, and the class whose keys each has.
_PARTS = {
    "megatron_training": "MegatronConfig",
    **{f"{role}_config": "MegatronConfig" for role in _ROLES},
    "rl_config": "RLConfig",
    "generate_config": "GenerateConfig",
    "profiler_config": "ProfilerConfig",
    "msprobe_config": "MsprobeConfig",
}
_PART_OF_CLASS = {"MegatronConfig": "megatron_training"}
_SAMPLING = ("generate_config", "sampling_config")
_SHOWN = 8
_INT = re.compile(r"\d{1,12}")
_OFF = {"", "false", "no", "off", "null", "none", "~", "0"}


class _Setting(msgspec.Struct, frozen=True):
    """A value that is in force, and where it is set; nowhere where it is a default."""

    text: str
    location: Place | None = None

    @property
    def there(self) -> bool:
        return self.text.lower() not in {"", "null", "none", "~"}

    @property
    def on(self) -> bool:
        return self.text.lower() not in _OFF


class _Configuration:
    """The settings of a launch, with those of its roles laid over the common ones."""

    def __init__(self, launch: Launch) -> None:
        self._values, self._places, self._partial = launch.values, launch.places, launch.partial

    def of(self, key: str, unset: str = "") -> _Setting:
        """A setting by its dotted key. Raises Unresolved where it is not known."""
        return self._first((key,), unset)

    def of_role(self, role: str, name: str, unset: str = "") -> _Setting:
        """A setting of Megatron's as a role has it."""
        before = (f"{role}_config", "megatron_training")
        model = self._first([f"{part}.model" for part in before], "").text
        parts = (*before, *((f"model.{model}",) if model else ()))
        return self._first([f"{part}.{name}" for part in parts], unset)

    def has(self, part: str) -> bool:
        """Whether a part has keys."""
        return any(key.startswith(f"{part}.") for key in self._values)

    def items(self, key: str) -> tuple[str, ...]:
        """The items of a list."""
        return tuple(
            text for name, text in self._values.items() if re.fullmatch(rf"{key}\.\d+", name)
        )

    def number(self, setting: _Setting) -> int:
        """The setting as a number; 0 where it is not given or none."""
        return int(setting.text) if _INT.fullmatch(setting.text) else 0

    def count(self, key: str, unset: int = 0) -> int:
        """The number of a dotted key."""
        return self.number(self.of(key, str(unset)))

    def size(self, role: str, name: str, unset: int = 0) -> int:
        """The number of a setting of a role."""
        return self.number(self.of_role(role, name, str(unset)))

    def parts(self, role: str) -> int:
        """TP·PP·CP of a role."""
        sizes = ("tensor_model", "pipeline_model", "context")
        product = 1
        for name in sizes:
            product *= self.size(role, f"{name}_parallel_size", 1)
        return product

    def resource(self, role: str) -> str:
        """The key of the NPUs of a role; that of the actor where they share them."""
        key = f"rl_config.{_RESOURCES.get(role, role)}_resource.num_npus"
        return key if key in self._values else "rl_config.actor_resource.num_npus"

    @property
    def integrated(self) -> bool:
        """Whether one worker has all roles."""
        return self.of("rl_config.use_integrated_worker", "true").on

    def roles(self) -> tuple[str, ...]:
        """The roles whose sizes MindSpeed-RL validates."""
        apart = [role for role in ("ref", "reward") if self.has(f"{role}_config")]
        critic = ["critic"] if self.has("rl_config.critic_resource") else []
        return ("actor", *(apart if not self.integrated else ()), *critic)

    def _first(self, keys: tuple[str, ...] | list[str], unset: str) -> _Setting:
        for key in keys:
            if key in self._values:
                if UNTOLD in self._values[key]:
                    raise Unresolved(f"{key} is known when the launch runs")
                return _Setting(self._values[key], self._places.get(key))
        if self._partial:
            raise Unresolved(f"whether {keys[0]} is given")
        return _Setting(unset)


def _configuration(case: Case) -> tuple[Launch, _Configuration]:
    """The configuration of MindSpeed-RL that is judged. Raises NotApplicable."""
    options(case)
    launch = case.need(Launch)
    if launch.program != "mindspeed-rl":
        raise NotApplicable("the launch has no configuration of MindSpeed-RL")
    return launch, _Configuration(launch)


def _refuse(
    *,
    title: str,
    observed: str,
    required: str,
    line: int,
    location: Place | None,
    ref: str = _VALIDATE,
) -> Finding:
    return error(
        title,
        observed=observed,
        required=required,
        because="MindSpeed-RL raises ValueError before it trains.",
        refs=(f"{ref}:{line}",),
        location=location,
    )


@check("run-rl-keys", "MindSpeed-RL has all keys of its configuration", scope="launch")
def run_rl_keys(case: Case) -> Iterator[Finding]:
    """MindSpeed-RL's configuration classes refuse keys that they do not have.

    Their keys are kept as data, of all branches together. One that differs from a known one by a
    slip is an error; one that none of them has could be registered by whoever uses it. The model
    that `model` names stands in the file that `defaults` names.
    """
    launch, _ = _configuration(case)
    others: list[str] = []
    for key in launch.values:
        part, *rest = key.split(".")
        owner = f"model.{rest[0]}" if part == "model" and rest else part
        named = [name.replace("-", "_") for name in (rest[1:] if part == "model" else rest)]
        known, name = _find_names(case, part, named)
        if not known or not name or name in known:
            continue
        close = slip_of(name, known)
        if not close:
            others.append(key)
            continue
        yield error(
            f"MindSpeed-RL has no key {name} in {owner}",
            observed=name,
            required=close,
            because="Its configuration class raises ValueError for what it does not have.",
            remedy=Remedy(summary=f"Write {close}"),
            refs=(_UPDATE,),
            location=launch.places.get(f"key {key}"),
        )
    yield from _find_lost_models(launch)
    if others:
        left = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        yield unknown(
            "Keys that MindSpeed-RL's classes do not have",
            observed=", ".join(others[:_SHOWN]) + left,
            because="They have to be registered there.",
            location=launch.places.get(f"key {others[0]}"),
        )


def _find_names(case: Case, part: str, names: list[str]) -> tuple[frozenset[str], str]:
    """The keys of a part, and the name of one of it that has to be among them."""
    table = case.catalog.options
    if part not in {*_PARTS, "model"}:
        parts = frozenset({*_PARTS, "model", "defaults"})
        return (parts, part) if slip_of(part, parts) else (frozenset(), "")
    if part == "profiler_config":  # profiler_config.integrated.stage
        names = names[1:]
    if not names:
        return frozenset(), ""
    own = table.of(f"MindSpeed-RL/{_PARTS.get(part, 'MegatronConfig')}")
    if part in {"generate_config", "rl_config"} and len(names) > 1 and names[0] in own:
        inner = "num_npus" if names[0].endswith("_resource") else ""
        sampled = table.of("MindSpeed-RL/GenerateConfig.sampling_config")
        if (part, names[0]) == _SAMPLING:
            return sampled, names[1]
        return (frozenset({inner}), names[1]) if inner else (frozenset(), "")
    return own | {"model"}, names[0]


def _find_lost_models(launch: Launch) -> Iterator[Finding]:
    """Parts that train a model which no file of `defaults` has."""
    models = {key.split(".")[1] for key in launch.values if re.match(r"model\.[^.]+\.", key)}
    for part in ("megatron_training", *(f"{role}_config" for role in _ROLES)):
        name = launch.values.get(f"{part}.model", "")
        if models and name and UNTOLD not in name and name not in models:
            yield error(
                f"The configuration has no model {name}",
                observed=f"{part}.model {name}",
                required=" or ".join(sorted(models)),
                because="MindSpeed-RL looks it up in the files that `defaults` names.",
                refs=(f"{_REPOSITORY}:mindspeed_rl/config_cls/base_config.py:22",),
                location=launch.places.get(f"{part}.model"),
            )


_Rule = Callable[[_Configuration], Iterator[Finding]]


def _apply(rules: tuple[_Rule, ...], configuration: _Configuration) -> Iterator[Finding]:
    """What the rules find; a value that is not known keeps only its own rule from judging."""
    lacking: list[Unresolved] = []
    for rule in rules:
        yield from _try(rule, configuration, lacking)
    for reason in lacking:
        raise reason


def _try(
    rule: _Rule, configuration: _Configuration, lacking: list[Unresolved]
) -> Iterator[Finding]:
    try:
        yield from rule(configuration)
    except Unresolved as reason:
        lacking.append(reason)


@check("run-rl-settings", "MindSpeed-RL takes the configuration", scope="launch")
def run_rl_settings(case: Case) -> Iterator[Finding]:
    """What MindSpeed-RL refuses before it trains: validate_rl_args, in a configuration.

    Precision, lengths, integrated workers, removed padding, sizes of the rollout, and what the
    switches of DAPO and of several turns need.
    """
    launch, configuration = _configuration(case)
    if not trains_roles(launch):
        raise NotApplicable("the configuration has no actor")
    rules = (
        *(_precision, _lengths, _workers, _padding, _context, _rollout_stages, _rollout_tensor),
        *(_rollout_experts, _expert_extension, _overlong, _clipping, _filter, _turns, _verifiers),
    )
    yield from _apply(rules, configuration)


def _precision(own: _Configuration) -> Iterator[Finding]:
    dtype, bf16 = own.of("generate_config.dtype", "bfloat16"), own.of_role("actor", "bf16", "true")
    if dtype.text != "bfloat16":
        observed = f"generate_config.dtype {dtype.text}"
        yield _refuse(
            title="The rollout is not in BF16",
            observed=observed,
            required="bfloat16",
            line=26,
            location=dtype.location,
        )
    if not bf16.on:
        yield _refuse(
            title="The actor does not train in BF16",
            observed="bf16 false",
            required="true",
            line=26,
            location=bf16.location,
        )


def _lengths(own: _Configuration) -> Iterator[Finding]:
    longest = own.of("generate_config.max_model_len", "2048")
    length = own.of_role("actor", "seq_length")
    if own.number(longest) and own.number(length) > own.number(longest):
        yield _refuse(
            title=f"Sequences of {length.text} are longer than the rollout takes",
            observed=f"seq_length {length.text}, generate_config.max_model_len {longest.text}",
            required="max_model_len of at least seq_length",
            line=49,
            location=longest.location or length.location,
        )


def _workers(own: _Configuration) -> Iterator[Finding]:
    if not own.integrated:
        mode = own.of("rl_config.integrated_mode_config")
        if mode.there:
            title = "integrated_mode_config without integrated workers"
            yield _refuse(
                title=title,
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
            observed = f"{name}, use_integrated_worker true"
            yield _refuse(
                title=f"Integrated workers take no {name}",
                observed=observed,
                required=f"no {name}",
                line=line,
                location=npus.location,
            )


def _padding(own: _Configuration) -> Iterator[Finding]:
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
            yield _refuse(
                title=f"use_remove_padding needs {name}",
                observed=f"{name} {setting.text}, pipeline_model_parallel_size {stages}",
                required=f"{name}: true",
                line=line,
                location=setting.location or removed.location,
            )
    if own.of("rl_config.is_multimodal", "false").on:
        title = "use_remove_padding is refused for multimodal models"
        yield _refuse(
            title=title,
            observed="is_multimodal true",
            required="false",
            line=74,
            location=removed.location,
        )


def _context(own: _Configuration) -> Iterator[Finding]:
    size = own.size("actor", "context_parallel_size", 1)
    algorithm = own.of_role("actor", "context_parallel_algo", "ulysses_cp_algo")
    if size == 1 or not algorithm.there:
        return
    if algorithm.text not in {"ulysses_cp_algo", "megatron_cp_algo"}:
        observed, required = algorithm.text, "ulysses_cp_algo or megatron_cp_algo"
        title = f"No context parallelism {observed}"
        yield _refuse(
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


def _rollout_stages(own: _Configuration) -> Iterator[Finding]:
    stages = own.of("generate_config.infer_pipeline_parallel_size", "1")
    if own.number(stages) > 1:
        observed = f"infer_pipeline_parallel_size {stages.text}"
        yield _refuse(
            title="The rollout has no pipeline",
            observed=observed,
            required="1",
            line=169,
            location=stages.location,
        )


def _rollout_tensor(own: _Configuration) -> Iterator[Finding]:
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
        required = "sizes of which one divides the other"
        line = 653 if size > tensor else 161
        yield _refuse(
            title=title,
            observed=observed,
            required=required,
            line=line,
            location=where,
            ref=_WEIGHTS,
        )
    elif ranks // stages % size:
        title = f"The rollout's TP {size} does not divide {ranks // stages} NPUs of a stage"
        yield _refuse(
            title=title,
            observed=f"{observed}, num_npus {ranks}",
            required="a divisor",
            line=169,
            location=where,
            ref=_WEIGHTS,
        )


def _rollout_experts(own: _Configuration) -> Iterator[Finding]:
    infer = own.of("generate_config.infer_expert_parallel_size", "1")
    size, trained = own.number(infer), own.size("actor", "expert_model_parallel_size", 1)
    if size and trained and size % trained:
        yield _refuse(
            title=f"The rollout's EP {size} is no multiple of the actor's EP {trained}",
            observed=f"infer_expert_parallel_size {size}, expert_model_parallel_size {trained}",
            required=f"a multiple of {trained}",
            line=157,
            location=infer.location or own.of_role("actor", "expert_model_parallel_size").location,
            ref=_WEIGHTS,
        )


def _expert_extension(own: _Configuration) -> Iterator[Finding]:
    expert = own.of_role("actor", "expert_model_parallel_size", "1")
    tensor = own.size("actor", "tensor_model_parallel_size", 1)
    extends = own.of_role("actor", "moe_tp_extend_ep", "false")
    size, experts = own.number(expert), own.size("actor", "num_experts")
    if size > 1 and not extends.on:
        yield _refuse(
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


def _overlong(own: _Configuration) -> Iterator[Finding]:
    if not own.of("rl_config.overlong_buffer_enable", "false").on:
        return
    tokens = own.of("generate_config.sampling_config.max_tokens", "128")
    buffer = own.of("rl_config.overlong_buffer", "0")
    rollout = own.of("rl_config.rollout_max_tokens", "2048")
    if own.number(buffer) >= own.number(tokens):
        observed = f"overlong_buffer {buffer.text}, max_tokens {tokens.text}"
        title = "The overlong buffer is as long as an answer"
        yield _refuse(
            title=title,
            observed=observed,
            required="less than max_tokens",
            line=480,
            location=buffer.location,
        )
    if own.number(rollout) != own.number(tokens):
        observed = f"rollout_max_tokens {rollout.text}, sampling_config.max_tokens {tokens.text}"
        where = rollout.location or tokens.location
        yield _refuse(
            title="The rollout has two lengths",
            observed=observed,
            required="the same number",
            line=484,
            location=where,
        )


def _clipping(own: _Configuration) -> Iterator[Finding]:
    low = own.of("rl_config.clip_ratio_low", "0.1")
    high = own.of("rl_config.clip_ratio_high", "0.1")
    if own.of("rl_config.clip_higher_enable", "false").on and _is_above(low.text, high.text):
        observed = f"clip_ratio_low {low.text}, clip_ratio_high {high.text}"
        where = low.location or high.location
        yield _refuse(
            title="The clip ratios are exchanged",
            observed=observed,
            required="low up to high",
            line=491,
            location=where,
        )


def _is_above(first: str, second: str) -> bool:
    try:
        return float(first) > float(second)
    except ValueError:
        return False


def _filter(own: _Configuration) -> Iterator[Finding]:
    metric = own.of("rl_config.filter_groups_metric", "acc")
    functions = own.items("rl_config.verifier_function")
    known = functions and not any(UNTOLD in name for name in functions)
    enabled = own.of("rl_config.filter_groups_enable", "false").on
    if enabled and known and metric.text not in functions:
        observed = f"filter_groups_metric {metric.text}"
        title = "Groups are filtered by a metric that nothing computes"
        yield _refuse(
            title=title,
            observed=observed,
            required=" or ".join(functions),
            line=500,
            location=metric.location,
        )


def _turns(own: _Configuration) -> Iterator[Finding]:
    parts = own.of("rl_config.partial_rollout_max_split", "1")
    order = own.of("rl_config.guarantee_order", "false")
    if own.number(parts) > 1 and order.on:
        title = "Partial rollouts keep no order"
        yield _refuse(
            title=title,
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
        observed = f"max_total_response_length {total.text}, max_tokens {tokens.text}"
        where = total.location or several.location
        yield _refuse(
            title="All turns are shorter than one",
            observed=observed,
            required="max_tokens or more",
            line=513,
            location=where,
        )
    engine = own.of("rl_config.async_engine", "false")
    if not engine.on:
        where = engine.location or several.location
        yield _refuse(
            title="Several turns need async_engine",
            observed="false",
            required="true",
            line=517,
            location=where,
        )


def _verifiers(own: _Configuration) -> Iterator[Finding]:
    functions = own.items("rl_config.verifier_function")
    weights = own.items("rl_config.verifier_weight")
    if functions and weights and len(functions) != len(weights):
        observed = f"{len(functions)} functions, {len(weights)} weights"
        where = own.of("rl_config.verifier_weight.0").location
        yield _refuse(
            title="Each verifier needs a weight",
            observed=observed,
            required="as many of both",
            line=472,
            location=where,
        )


@check("run-rl-batches", "MindSpeed-RL's batches divide", scope="launch")
def run_rl_batches(case: Case) -> Iterator[Finding]:
    """The batches of each role divide over its replicas, and into what is dispatched at a time.

    A global batch is a number of prompts: the data parallel size divides it, and its samples on a
    replica are whole micro batches. What a step dispatches divides all samples, and is no more
    than a replica has.
    """
    launch, configuration = _configuration(case)
    if not trains_roles(launch):
        raise NotApplicable("the configuration has no actor")
    yield from _apply((_role_batches, _rollout_batch, _batch_of_filter, _dispatches), configuration)


def _replicas(own: _Configuration, role: str) -> int:
    """The data parallel size of a role; 0 where its sizes do not fit."""
    ranks, parts = own.count(own.resource(role)), own.parts(role)
    return ranks // parts if parts and ranks % parts == 0 else 0


def _role_batches(own: _Configuration) -> Iterator[Finding]:
    for role in own.roles():
        batch = own.of_role(role, "global_batch_size")
        # A critic's batches are not asserted.
        if role != "critic":
            yield from _batch_divides(own, role, batch, "global_batch_size", 134)


def _batch_of_filter(own: _Configuration) -> Iterator[Finding]:
    if own.of("rl_config.filter_groups_enable", "false").on:
        name = "filter_groups_train_batch_size"
        batch = own.of(f"rl_config.{name}", "1")
        yield from _batch_divides(own, "actor", batch, name, 134)


def _batch_divides(
    own: _Configuration, role: str, batch: _Setting, name: str, line: int
) -> Iterator[Finding]:
    whole, replicas = own.number(batch), _replicas(own, role)
    samples = own.count("rl_config.n_samples_per_prompt", 1)
    micro = own.of_role(role, "micro_batch_size")
    if not whole or not replicas:
        return
    if whole % replicas:
        yield _refuse(
            title=f"{name} {whole} does not divide over {replicas} replicas",
            observed=f"{name} {whole}, data parallel size {replicas} ({role})",
            required=f"a multiple of {replicas}",
            line=line,
            location=batch.location,
        )
    elif own.number(micro) and whole // replicas * samples % own.number(micro):
        yield _refuse(
            title=f"Micro batches of {micro.text} do not divide the samples of a replica",
            observed=f"{name} {whole}, n_samples_per_prompt {samples}, "
            f"data parallel size {replicas}, micro_batch_size {micro.text} ({role})",
            required="the samples of a replica as a multiple of the micro batch",
            line=139,
            location=micro.location,
        )


def _rollout_batch(own: _Configuration) -> Iterator[Finding]:
    infer = own.of("generate_config.infer_tensor_parallel_size", "8")
    batch = own.of_role("actor", "global_batch_size")
    ranks = own.count("rl_config.actor_resource.num_npus")
    size, whole = own.number(infer), own.number(batch)
    if not (size and whole and ranks and _replicas(own, "actor")) or ranks % size:
        return
    if whole % (ranks // size):
        yield _refuse(
            title=f"global_batch_size {whole} does not divide over {ranks // size} rollouts",
            observed=f"infer_tensor_parallel_size {size}, num_npus {ranks}",
            required=f"a multiple of {ranks // size}",
            line=134,
            location=batch.location if size in NODE_SIZES else infer.location,
        )


def _dispatches(own: _Configuration) -> Iterator[Finding]:
    """What a step hands out at a time: it divides all samples, and a replica has as many."""
    samples = own.count("rl_config.n_samples_per_prompt", 1)
    filtered = own.of("rl_config.filter_groups_enable", "false").on
    batch = own.size("actor", "global_batch_size") * samples
    trained = own.count("rl_config.filter_groups_train_batch_size", 1) * samples
    trained = trained if filtered else batch
    infer = own.count("generate_config.infer_tensor_parallel_size", 8)
    ranks = own.count("rl_config.actor_resource.num_npus")
    replicas = _replicas(own, "actor")
    # Name, the samples that it divides, the most that it may be.
    rows = [
        ("actor_rollout", batch, batch * infer // ranks if ranks else 0),
        ("actor_logprob", trained, batch // replicas if replicas else 0),
        ("adv", trained, 0),
        ("actor_update", trained, batch // replicas if replicas else 0),
        ("reward", batch, 0),
    ]
    for name, whole, most in rows:
        key = f"rl_config.{name}_dispatch_size"
        dispatched = own.of(key)
        size = own.number(dispatched)
        if size and most and size > most:
            title = f"{name}_dispatch_size {size} is more than the {most} samples of a replica"
            observed, required = f"{name}_dispatch_size {size}", f"at most {most}"
            yield _refuse(
                title=title,
                observed=observed,
                required=required,
                line=377,
                location=dispatched.location,
            )
        elif size and whole and whole % size:
            title = f"{name}_dispatch_size {size} does not divide {whole} samples"
            observed = f"{name}_dispatch_size {size}, {whole} samples"
            yield _refuse(
                title=title,
                observed=observed,
                required=f"a divisor of {whole}",
                line=312,
                location=dispatched.location,
            )
    yield from _least_update(own, samples, replicas)


def _least_update(own: _Configuration, samples: int, replicas: int) -> Iterator[Finding]:
    """What an update is handed is at least a replica's part of a mini batch."""
    update = own.of("rl_config.actor_update_dispatch_size")
    mini = own.count("rl_config.mini_batch_size", 1) * samples
    if own.number(update) and replicas and own.number(update) < mini / replicas:
        yield _refuse(
            title="An update is handed less than a mini batch",
            observed=f"actor_update_dispatch_size {update.text}, mini batch {mini}, "
            f"{replicas} replicas",
            required=f"at least {-(-mini // replicas)}",
            line=367,
            location=update.location,
        )
