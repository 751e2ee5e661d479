"""Batches of MindSpeed-RL's roles: what has to divide what."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.checks.launch.options import NODE_SIZES
from ascend_doctor.checks.launch.rl_roles import RoleSettings, RoleValue, apply_rules, refuse
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check


@check("run-rl-batches", "MindSpeed-RL's batches divide", scope="launch")
def run_rl_batches(case: Case) -> Iterator[Finding]:
    """The batches of each role divide over its replicas, and into what is dispatched at a time.

    A global batch is a number of prompts: the data parallel size divides it, and its samples on a
    replica are whole micro batches. What a step dispatches divides all samples, and is no more
    than a replica has.
    """
    rules = (_role_batches, _rollout_batch, _batch_of_filter, _dispatches)
    yield from apply_rules(case, rules)


def _replicas(own: RoleSettings, role: str) -> int:
    """The data parallel size of a role; 0 where its sizes do not fit."""
    ranks, parts = own.count(own.resource(role)), own.parts(role)
    return ranks // parts if parts and ranks % parts == 0 else 0


def _role_batches(own: RoleSettings) -> Iterator[Finding]:
    for role in own.roles():
        batch = own.of_role(role, "global_batch_size")
        # A critic's batches are not asserted.
        if role != "critic":
            yield from _batch_divides(own, role, batch, "global_batch_size", 134)


def _batch_of_filter(own: RoleSettings) -> Iterator[Finding]:
    if own.of("rl_config.filter_groups_enable", "false").on:
        name = "filter_groups_train_batch_size"
        batch = own.of(f"rl_config.{name}", "1")
        yield from _batch_divides(own, "actor", batch, name, 134)


def _batch_divides(
    own: RoleSettings, role: str, batch: RoleValue, name: str, line: int
) -> Iterator[Finding]:
    whole, replicas = own.number(batch), _replicas(own, role)
    samples = own.count("rl_config.n_samples_per_prompt", 1)
    micro = own.of_role(role, "micro_batch_size")
    if not whole or not replicas:
        return
    if whole % replicas:
        yield refuse(
            title=f"{name} {whole} does not divide over {replicas} replicas",
            observed=f"{name} {whole}, data parallel size {replicas} ({role})",
            required=f"a multiple of {replicas}",
            line=line,
            location=batch.location,
        )
    elif own.number(micro) and whole // replicas * samples % own.number(micro):
        yield refuse(
            title=f"Micro batches of {micro.text} do not divide the samples of a replica",
            observed=f"{name} {whole}, n_samples_per_prompt {samples}, "
            f"data parallel size {replicas}, micro_batch_size {micro.text} ({role})",
            required="the samples of a replica as a multiple of the micro batch",
            line=139,
            location=micro.location,
        )


def _rollout_batch(own: RoleSettings) -> Iterator[Finding]:
    infer = own.of("generate_config.infer_tensor_parallel_size", "8")
    batch = own.of_role("actor", "global_batch_size")
    ranks = own.count("rl_config.actor_resource.num_npus")
    size, whole = own.number(infer), own.number(batch)
    if not (size and whole and ranks and _replicas(own, "actor")) or ranks % size:
        return
    if whole % (ranks // size):
        yield refuse(
            title=f"global_batch_size {whole} does not divide over {ranks // size} rollouts",
            observed=f"infer_tensor_parallel_size {size}, num_npus {ranks}",
            required=f"a multiple of {ranks // size}",
            line=134,
            location=batch.location if size in NODE_SIZES else infer.location,
        )


def _dispatches(own: RoleSettings) -> Iterator[Finding]:
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
            observed, required = f"{name}_dispatch_size {size}", f"at most {most}"
            yield refuse(
                title=f"{name}_dispatch_size {size} is more than the {most} samples of a replica",
                observed=observed,
                required=required,
                line=377,
                location=dispatched.location,
            )
        elif size and whole and whole % size:
            yield refuse(
                title=f"{name}_dispatch_size {size} does not divide {whole} samples",
                observed=f"{name}_dispatch_size {size}, {whole} samples",
                required=f"a divisor of {whole}",
                line=312,
                location=dispatched.location,
            )
    yield from _least_update(own, samples, replicas)


def _least_update(own: RoleSettings, samples: int, replicas: int) -> Iterator[Finding]:
    """What an update is handed is at least a replica's part of a mini batch."""
    update = own.of("rl_config.actor_update_dispatch_size")
    mini = own.count("rl_config.mini_batch_size", 1) * samples
    if own.number(update) and replicas and own.number(update) < mini / replicas:
        yield refuse(
            title="An update is handed less than a mini batch",
            observed=f"actor_update_dispatch_size {update.text}, mini batch {mini}, "
            f"{replicas} replicas",
            required=f"at least {-(-mini // replicas)}",
            line=367,
            location=update.location,
        )
