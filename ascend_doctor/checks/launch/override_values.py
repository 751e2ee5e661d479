"""Hydra's overrides: values of their key's kind, and sizes of verl that fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ascend_doctor.checks.launch.options import NODE_SIZES, options
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, warning
from ascend_doctor.judging.spelling import edit_distance

_CONFIG = "verl-project/verl@1dda039b:verl/trainer/config"
_ACTOR = "verl-project/verl@1dda039b:verl/workers/config/actor.py"
_VALIDATE = "verl-project/verl@1dda039b:verl/utils/config.py"
_WORKERS = "verl-project/verl@1dda039b:verl/workers/engine_workers.py:658"
_MESH = "verl-project/verl@1dda039b:verl/workers/engine/fsdp/transformer_impl.py:228"
_SHARE = "vllm-project/vllm@v0.11.0:vllm/config/cache.py"
_TRUTH = frozenset({"true", "false"})
_INT = re.compile(r"[-+]?\d[\d_]*")
_FLOAT = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)(e[-+]?\d+)?|inf|nan", re.IGNORECASE)
_NUMERIC = re.compile(r"[-+]?\.?\d")
_STRAY = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?[a-z]", re.IGNORECASE)
# Counts that are one or more in every framework with such keys.
_COUNT = re.compile(
    r"n_gpus_per_node|num_gpus|(?:\w+_)?micro_(?:\w+_)?batch_size(?:_per_gpu)?|ppo_mini_batch_size|"
    r"policy_mini_batch_size|train_batch_size|train_global_batch_size|"
    r"tensor_(?:model_)?parallel_size|tensor_parallel_size"
)
# verl's own trainers. Asynchronous ones and recipes have batches and devices of their own.
_TRAINERS = frozenset({"verl.trainer.main_ppo", "verl.trainer.main"})
_APART = re.compile(r"async|recipe|experimental|off_policy")


def _launch(case: Case) -> Launch:
    options(case)
    launch = case.need(Launch)
    if not any("." in key for key in launch.values):
        raise NotApplicable("the launch command overrides no keys")
    return launch


@check("run-override-values", "Overridden keys have values of their kind", scope="launch")
def run_override_values(case: Case) -> Iterator[Finding]:
    """Hydra takes a word where a number or a truth value belongs, and hands it on as text.

    `use_remove_padding=Ture` is a text that counts as true; `lr=1e-6x` stops the optimizer. The
    kinds of verl's keys are kept as data; slips of True and False, counts below 1 and shares of
    memory above 1 are mistakes in every framework that is configured so.
    """
    launch = _launch(case)
    kinds = case.catalog.options.overrides if launch.program == "verl" else {}
    tails = _tails(kinds)
    for key, value in launch.values.items():
        bare = value.strip("\"'")
        if "." not in key or UNTOLD in value or not bare or bare[0] in "[{$":
            continue
        name = key.lstrip("+")
        kind = kinds.get(name) or tails.get(".".join(name.split(".")[-2:]), "")
        expected = _describe_lack(name, kind, bare, launch)
        if expected:
            yield error(
                f"{name} does not take {bare!r}",
                observed=f"{name}={bare}",
                required=expected,
                refs=(_CONFIG,),
                location=launch.places.get(key),
            )


def _tails(kinds: dict[str, str]) -> dict[str, str]:
    """The kind of the last two words of keys, where it is the same for all that end so."""
    seen: dict[str, set[str]] = {}
    for key, kind in kinds.items():
        seen.setdefault(".".join(key.split(".")[-2:]), set()).add(kind)
    return {tail: next(iter(several)) for tail, several in seen.items() if len(several) == 1}


def _describe_lack(name: str, kind: str, value: str, launch: Launch) -> str:
    """What belongs there, where the value is something else."""
    low, last = value.lower(), name.rsplit(".", maxsplit=1)[-1]
    if slip := _slip_of_truth(low):
        return slip
    if kind == "bool":
        return "" if low in {*_TRUTH, "0", "1", "null", "none"} else "True or False"
    # A whole number as a default does not say that fractions are refused.
    numeric = kind in {"int", "float"} or (last == "lr" and _NUMERIC.match(value))
    if not _FLOAT.fullmatch(value):
        # Some keys take words besides: test_freq=after_each_epoch.
        return "a number" if numeric and _STRAY.fullmatch(value) else ""
    if last == "gpu_memory_utilization" and not 0 < float(value) <= 1:
        return "a share of the memory, above 0 and at most 1"
    own = last == "train_batch_size" and not _is_colocated(launch.module)
    return "1 or more" if _COUNT.fullmatch(last) and float(value) < 1 and not own else ""


def _slip_of_truth(value: str) -> str:
    """True or False where a letter is missing, too many, or exchanged with the next; else ""."""
    for word in _TRUTH:
        same = len(value) != len(word) or sorted(value) == sorted(word)
        if value != word and same and edit_distance(value, word) == 1:
            return word.capitalize()
    return ""


def _count(launch: Launch, *endings: str) -> tuple[str, int]:
    """Key and number of the first of these keys that is overridden; ("", 0) without one.

    Raises Unresolved where only the running shell knows it.
    """
    for ending in endings:
        for key, value in launch.values.items():
            if key.lstrip("+") == ending:
                if UNTOLD in value:
                    raise Unresolved(f"{ending} is known when the launch runs")
                bare = value.strip("\"'")
                return (key, int(bare)) if _INT.fullmatch(bare) and int(bare) > 0 else ("", 0)
    return "", 0


def _is_colocated(module: str) -> bool:
    """Whether trainer and rollout share their devices: verl's trainer, and what wraps it."""
    if module in _TRAINERS:
        return True
    return module.endswith("main_ppo") and not _APART.search(module)


@check("run-verl-sizes", "verl's batches and rollout fit its devices", scope="launch")
def run_verl_sizes(case: Case) -> Iterator[Finding]:
    """Verl checks its sizes when the workers start, minutes after the launch.

    Tensor, data and pipeline parallelism of the rollout divide the devices, the mini batch is no
    larger than the batch, and the batch times the samples of a prompt divides over the devices.
    """
    launch = _launch(case)
    if launch.program != "verl":
        raise NotApplicable("the launch command does not start verl")
    if not _is_colocated(launch.module):
        raise NotApplicable("trainer and rollout may have devices of their own")
    # The same wrong number of devices is told once.
    yield from (
        tuple(_rollout_divides(launch))
        or tuple(_sequence_parallel_divides(launch))
        or _batches_fit(launch)
    )


def _rollout_divides(launch: Launch) -> Iterator[Finding]:
    each_key, each = _count(launch, "trainer.n_gpus_per_node")
    _, nodes = _count(launch, "trainer.nnodes")
    rollout = "actor_rollout_ref.rollout"
    key, size = _count(
        launch,
        f"{rollout}.tensor_model_parallel_size",
        f"{rollout}.tensor_parallel_size",
        "worker.rollout.tensor_parallel_size",
    )
    _, replicas = _count(launch, f"{rollout}.data_parallel_size")
    _, stages = _count(launch, f"{rollout}.pipeline_model_parallel_size")
    whole, part = each * (nodes or 1), size * (replicas or 1) * (stages or 1)
    if whole and part and whole % part:
        odd = each not in NODE_SIZES
        yield error(
            f"A rollout over {part} devices does not divide {whole}",
            observed=f"{key.lstrip('+')}={size}, trainer.n_gpus_per_node={each}, "
            f"trainer.nnodes={nodes or 1}",
            required="tensor times data and pipeline parallelism that divides the devices",
            because="The workers assert it when they build the rollout's mesh.",
            refs=(_WORKERS,),
            location=launch.places.get(each_key if odd else key),
        )


def _sequence_parallel_divides(launch: Launch) -> Iterator[Finding]:
    _, each = _count(launch, "trainer.n_gpus_per_node")
    _, nodes = _count(launch, "trainer.nnodes")
    whole = each * (nodes or 1)
    for role in ("actor", "ref"):
        key, size = _count(launch, f"actor_rollout_ref.{role}.ulysses_sequence_parallel_size")
        if whole and size and whole % size:
            yield error(
                f"Sequence parallelism of {size} does not divide {whole} devices",
                observed=f"{key.lstrip('+')}={size}, devices {whole}",
                required="a size that divides the devices",
                because="The mesh of data and sequence parallelism has to cover them.",
                refs=(_MESH,),
                location=launch.places.get(
                    key if each in NODE_SIZES else "trainer.n_gpus_per_node"
                ),
            )


def _batches_fit(launch: Launch) -> Iterator[Finding]:
    batch_key, batch = _count(launch, "data.train_batch_size")
    mini_key, mini = _count(launch, "actor_rollout_ref.actor.ppo_mini_batch_size")
    dynamic = launch.values.get("actor_rollout_ref.actor.use_dynamic_bsz", "").lower() == "true"
    if batch and mini > batch:
        raised = warning if dynamic else error
        yield raised(
            f"The mini batch of {mini} is larger than the batch of {batch}",
            observed=f"data.train_batch_size={batch}, ppo_mini_batch_size={mini}",
            required=f"at most {batch}",
            because="A batch makes no whole update." if dynamic else "verl raises ValueError.",
            remedy=Remedy(summary="Lower the mini batch, or raise the batch"),
            refs=(_ACTOR,),
            location=launch.places.get(mini_key),
        )
    _, each = _count(launch, "trainer.n_gpus_per_node")
    _, nodes = _count(launch, "trainer.nnodes")
    _, samples = _count(launch, "actor_rollout_ref.rollout.n")
    devices = each * (nodes or 1)
    samples = samples or 1
    sharded = not any(".megatron." in key for key in launch.values)
    if batch and devices and sharded and not dynamic and batch * samples % devices:
        yield error(
            f"{batch} x {samples} samples do not divide over {devices} devices",
            observed=f"data.train_batch_size={batch}, rollout.n={samples}, devices {devices}",
            required=f"a product that is a multiple of {devices}",
            because="verl asserts it before it trains.",
            refs=(_VALIDATE,),
            location=launch.places.get(
                batch_key if each in NODE_SIZES else "trainer.n_gpus_per_node"
            ),
        )
