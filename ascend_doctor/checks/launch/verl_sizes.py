"""Sizes of verl's own trainer that fit together: devices, rollout, batches."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ascend_doctor.checks.launch.options import NODE_SIZES, options
from ascend_doctor.errors import NotApplicable, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, warning

_ACTOR = "verl-project/verl@1dda039b:verl/workers/config/actor.py"
_VALIDATE = "verl-project/verl@1dda039b:verl/utils/config.py"
_WORKERS = "verl-project/verl@1dda039b:verl/workers/engine_workers.py:658"
_MESH = "verl-project/verl@1dda039b:verl/workers/engine/fsdp/transformer_impl.py:228"
_MICRO = "verl-project/verl@1dda039b:verl/workers/engine/utils.py:125"
_FSDP = "verl-project/verl@v0.7.0:verl/workers/fsdp_workers.py:256"
_ROLES = ("actor_rollout_ref.actor.", "actor_rollout_ref.rollout.")
_ACTOR_KEY = "actor_rollout_ref.actor"
_MINI = f"{_ACTOR_KEY}.ppo_mini_batch_size"
INT = re.compile(r"[-+]?\d[\d_]*")
# verl's own trainers. Asynchronous ones and recipes have batches and devices of their own.
_TRAINERS = frozenset({"verl.trainer.main_ppo", "verl.trainer.main"})
# Trainers of projects on top of verl are called after its own.
_LIKE_VERLS = re.compile(r"(?:^|\.)main_ppo(?:_\w+)?$")
_APART = re.compile(r"async|recipe|experimental|off_policy|split")


def overriding_launch(case: Case) -> Launch:
    """The launch. Raises NotApplicable where it overrides no keys."""
    options(case)
    launch = case.need(Launch)
    if not any("." in key for key in launch.values):
        raise NotApplicable("the launch command overrides no keys")
    return launch


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
                return (key, int(bare)) if INT.fullmatch(bare) and int(bare) > 0 else ("", 0)
    return "", 0


class _Devices(NamedTuple):
    """Devices of a node, nodes, and the key whose number itself is suspect, "" where it is not."""

    each: int
    nodes: int
    suspect: str

    @property
    def whole(self) -> int:
        """Devices of all nodes, 0 where it is not said."""
        return self.each * self.nodes


def _devices(launch: Launch) -> _Devices:
    key, each = _count(launch, "trainer.n_gpus_per_node")
    _, nodes = _count(launch, "trainer.nnodes")
    return _Devices(each, nodes or 1, "" if each in NODE_SIZES else key)


def is_colocated(module: str) -> bool:
    """Whether trainer and rollout share their devices: verl's trainer, and what wraps it."""
    if module in _TRAINERS:
        return True
    return _LIKE_VERLS.search(module) is not None and not _APART.search(module)


@check("run-verl-sizes", "verl's batches and rollout fit its devices", scope="launch")
def run_verl_sizes(case: Case) -> Iterator[Finding]:
    """Verl checks its sizes when the workers start, minutes after the launch.

    Tensor, data and pipeline parallelism of the rollout divide the devices, the mini batch is no
    larger than the batch, the batch times the samples of a prompt divides over the devices, and
    what a device has of a mini batch is made of whole micro batches.
    """
    launch = overriding_launch(case)
    if launch.program != "verl":
        raise NotApplicable("the launch command does not start verl")
    if not is_colocated(launch.module):
        sized = any(key.startswith(_ROLES) for key in launch.values)
        if sized and not _APART.search(launch.module) and not launch.module.startswith("verl."):
            raise Unresolved("whether trainer and rollout share their devices")
        raise NotApplicable("trainer and rollout may have devices of their own")
    findings = (
        *_rollout_divides(launch),
        *_sequence_parallel_divides(launch),
        *_mini_batch_fits(launch),
        *(tuple(_batch_divides(launch)) or _micro_batches_divide(launch)),
    )
    # The same wrong number of devices is told once.
    seen = set()
    for finding in findings:
        if finding.location is None or finding.location not in seen:
            yield finding
        seen.add(finding.location)


def _rollout_divides(launch: Launch) -> Iterator[Finding]:
    devices = _devices(launch)
    rollout = "actor_rollout_ref.rollout"
    key, size = _count(
        launch,
        f"{rollout}.tensor_model_parallel_size",
        f"{rollout}.tensor_parallel_size",
        "worker.rollout.tensor_parallel_size",
    )
    _, replicas = _count(launch, f"{rollout}.data_parallel_size")
    _, stages = _count(launch, f"{rollout}.pipeline_model_parallel_size")
    part = size * (replicas or 1) * (stages or 1)
    if devices.whole and part and devices.whole % part:
        yield error(
            f"A rollout over {part} devices does not divide {devices.whole}",
            observed=f"{key.lstrip('+')}={size}, trainer.n_gpus_per_node={devices.each}, "
            f"trainer.nnodes={devices.nodes}",
            required="tensor times data and pipeline parallelism that divides the devices",
            because="The workers assert it when they build the rollout's mesh.",
            refs=(_WORKERS,),
            location=launch.places.get(devices.suspect or key),
        )


def _sequence_parallel_divides(launch: Launch) -> Iterator[Finding]:
    devices = _devices(launch)
    for role in ("actor", "ref"):
        key, size = _count(launch, f"actor_rollout_ref.{role}.ulysses_sequence_parallel_size")
        if devices.whole and size and devices.whole % size:
            yield error(
                f"Sequence parallelism of {size} does not divide {devices.whole} devices",
                observed=f"{key.lstrip('+')}={size}, devices {devices.whole}",
                required="a size that divides the devices",
                because="The mesh of data and sequence parallelism has to cover them.",
                refs=(_MESH,),
                location=launch.places.get(devices.suspect or key),
            )


def _is_dynamic(launch: Launch) -> bool:
    return launch.values.get("actor_rollout_ref.actor.use_dynamic_bsz", "").lower() == "true"


def _is_sharded(launch: Launch) -> bool:
    """Whether every device has samples of its own: by FSDP, not by Megatron."""
    strategy = launch.values.get("actor_rollout_ref.actor.strategy", "fsdp")
    return strategy.startswith("fsdp") and not any(".megatron." in key for key in launch.values)


def _mini_batch_fits(launch: Launch) -> Iterator[Finding]:
    _, batch = _count(launch, "data.train_batch_size")
    mini_key, mini = _count(launch, _MINI)
    dynamic = _is_dynamic(launch)
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


def _batch_divides(launch: Launch) -> Iterator[Finding]:
    batch_key, batch = _count(launch, "data.train_batch_size")
    devices, samples = _devices(launch), _samples(launch)
    if batch and devices.whole and _is_sharded(launch) and not _is_dynamic(launch):
        if not batch * samples % devices.whole:
            return
        yield error(
            f"{batch} x {samples} samples do not divide over {devices.whole} devices",
            observed=f"data.train_batch_size={batch}, rollout.n={samples}, devices {devices.whole}",
            required=f"a product that is a multiple of {devices.whole}",
            because="verl asserts it before it trains.",
            refs=(_VALIDATE,),
            location=launch.places.get(devices.suspect or batch_key),
        )


def _micro_batches_divide(launch: Launch) -> Iterator[Finding]:
    _, mini = _count(launch, _MINI)
    micro_key, micro = _count(launch, f"{_ACTOR_KEY}.ppo_micro_batch_size_per_gpu")
    _, sequence = _count(launch, f"{_ACTOR_KEY}.ulysses_sequence_parallel_size")
    devices, samples = _devices(launch).whole, _samples(launch)
    if not (mini and micro and devices and _is_sharded(launch)) or _is_dynamic(launch):
        return
    share = mini * samples // max(devices // (sequence or 1), 1)
    if share % micro or not share:
        yield error(
            f"Micro batches of {micro} do not divide the {share} samples that a device has",
            observed=f"ppo_mini_batch_size={mini}, rollout.n={samples}, devices {devices}, "
            f"{micro_key.lstrip('+').rsplit('.', maxsplit=1)[-1]}={micro}",
            required="mini batch x rollout.n / data parallel size as a multiple of the micro batch",
            because="The worker asserts it when it starts, or at the first update.",
            remedy=Remedy(summary="Choose a micro batch that divides them"),
            refs=(_FSDP, _MICRO),
            location=launch.places.get(micro_key),
        )


def _samples(launch: Launch) -> int:
    """Samples of a prompt."""
    return _count(launch, "actor_rollout_ref.rollout.n")[1] or 1
