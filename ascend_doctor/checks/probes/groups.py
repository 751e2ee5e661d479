"""Devices of ranks, and what groups are made of, judged by what their probes measured."""

from collections import defaultdict

from ascend_doctor.checks.probes.probe_culprit import suffers
from ascend_doctor.checks.probes.run_failures import failures, ran, ran_well, ranks_text, story
from ascend_doctor.judging import Case, Finding, Findings, Texts, Unknown, error, note, warning
from ascend_doctor.judging.judge import ConcludedError
from ascend_doctor.probe_records.common import ProbeRecord
from ascend_doctor.probe_records.device import DevicePerRankRecord
from ascend_doctor.probe_records.groups import (
    BoundDeviceRecord,
    LargeGroupsRecord,
    ObjectsRecord,
    PeerOutcome,
)
from ascend_doctor.probe_results import ProbeResult, ProbeRun

TEXTS = Texts("groups")

_LINE = "\n"
_OPTIMIZER = "NVIDIA/Megatron-LM@core_v0.14.0:megatron/core/optimizer/__init__.py"
_CURRENT = "https://github.com/pytorch/pytorch/issues/75619"
_BINDING = (
    "Ascend/pytorch@v2.7.1-7.3.0:torch_npu/distributed/distributed_c10d.py:646",
    "https://github.com/modelscope/twinkle/pull/153",
)
_VARIABLES = {"npu": "ASCEND_RT_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}


@TEXTS.check("device-per-rank", level=3, probe="device-per-rank")
def _device_per_rank(case: Case) -> Findings:
    run = ran(case, "device-per-rank")
    yield from failures(run)
    owners: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in run.ranks:
        if (device := _physical(rank)) is not None:
            owners[rank.host, device].append(rank.rank)
        yield from _find_changes(run, rank)
    for (_, device), ranks in owners.items():
        if len(ranks) > 1:
            yield TEXTS.finding(
                "shared-device", on_ranks=tuple(ranks), listed=ranks_text(ranks), device=device
            )
    yield note(
        observed=", ".join(f"rank {ranks[0]}: {name}" for (_, name), ranks in owners.items())
    )


def _physical(result: ProbeResult) -> str | None:
    record = result.record(DevicePerRankRecord)
    if record.identity:
        return record.identity
    if record.index is None:
        return None
    parts = record.variable.split(",") if record.variable else []
    return parts[record.index] if record.index < len(parts) else str(record.index)


def _find_changes(run: ProbeRun, probe_result: ProbeResult) -> Findings:
    record = probe_result.record(DevicePerRankRecord)
    if record.variable != record.started_with:
        yield TEXTS.finding(
            "once-torch",
            title=f"device-per-rank: {_VARIABLES.get(run.device)} is changed while rank "
            f"{probe_result.rank} runs",
            observed=str(record.variable),
            required=str(record.started_with),
            on_ranks=(probe_result.rank,),
        )


@TEXTS.check("object-collectives", level=3, probe="object-collectives")
def _object_collectives(case: Case) -> Findings:
    run = ran(case, "object-collectives")
    yield from failures(run)
    records = [rank.record(ObjectsRecord) for rank in run.ranks]
    backends = {record.metrics_backend for record in records if record.metrics_backend is not None}
    if backends - {"gloo"}:
        yield TEXTS.finding("no-gloo", backends=", ".join(sorted(backends)))
    yield from _peers(run, "set")
    yield note(
        observed=f"{run.world_size} ranks, over gloo and over the group of {run.device}",
        because=_unset(run),
    )


def _peer(result: ProbeResult, name: str) -> PeerOutcome:
    return result.record(ObjectsRecord).peers.get(name, PeerOutcome())


def _peers(run: ProbeRun, name: str) -> Findings:
    failed = {
        probe_result.rank: peer
        for probe_result in run.ranks
        if (peer := _peer(probe_result, name)).error
    }
    if not failed:
        return
    # First who failed alone, then who still waited, last who suffered from others.
    least = min(map(_innocence, failed.values()))
    guilty = [rank for rank, outcome in failed.items() if _innocence(outcome) == least]
    earliest = min(guilty, key=lambda rank: _count_reached(failed[rank]))
    first = failed[earliest]
    lines = [
        f"\nrank {rank}: {outcome.error.partition(_LINE)[0]}"
        for rank, outcome in failed.items()
        if _innocence(outcome) == _SUFFERS > least
    ]
    devices = {probe_result.rank: _peer(probe_result, name).device for probe_result in run.ranks}
    table = "\ncurrent devices: " + ", ".join(f"rank {rank}: {at}" for rank, at in devices.items())
    yield (error if run.blocks else warning)(
        f"object-collectives: over the group of the device {_ends(first)}",
        observed=f"rank {earliest} in step {first.step}: {story(first)}{''.join(lines[:1])}"
        + (table if any(at is not None for at in devices.values()) else ""),
        required="the objects of all ranks, as over Gloo",
        because="Jobs that gather metrics this way stand still. From 0.14.0 on Megatron's own "
        "optimizer gathers its parameter groups so, and no training starts.",
        remedy="Pass group= with a Gloo group (Megatron: get_data_parallel_group_gloo), and "
        "call set_device before the first collective",
        refs=(_CURRENT, _OPTIMIZER),
        ranks=tuple(guilty),
    )


_STEPS = ("import", "rendezvous", "objects")


def _count_reached(outcome: PeerOutcome) -> int:
    """How far a child came; the first to stop is guilty."""
    return _STEPS.index(outcome.step) if outcome.step in _STEPS else len(_STEPS)


_FAILED, _WAITED, _SUFFERS = range(3)


def _innocence(outcome: PeerOutcome) -> int:
    """Who remained at the end may only have waited for another; who suffers did so.

    For a process that its watchdog aborted, its output decides.
    """
    if outcome.is_late:
        return _WAITED
    message = outcome.output if outcome.error.endswith("SIGABRT") else outcome.error
    return _SUFFERS if suffers(message) else _FAILED


def _ends(outcome: PeerOutcome) -> str:
    return "they never arrive" if outcome.is_late else "moving them fails"


def _unset(run: ProbeRun) -> str:
    failed = [peer for rank in run.ranks if (peer := _peer(rank, "unset")).error]
    if not failed:
        return ""
    return f"Where no rank calls set_device {_ends(failed[0])}: all drive device 0."


@TEXTS.check("bound-device-id", level=3, probe="bound-device-id")
def _bound_device_id(case: Case) -> Findings:
    run = ran_well(case, "bound-device-id")
    records = {rank.rank: rank.record(BoundDeviceRecord) for rank in run.ranks}
    refused = [record.bound for record in records.values() if record.bound]
    faults = [
        _no_gloo(state, *refusal)
        for state, refusals in (
            ("that is not bound", {rank: row.unbound for rank, row in records.items()}),
            ("whose binding was cleared", {rank: row.cleared for rank, row in records.items()}),
        )
        if (refusal := next(((rank, text) for rank, text in refusals.items() if text), None))
    ]
    if faults:
        raise ConcludedError(faults)
    if not run.ranks:
        raise Unknown("the probe recorded nothing")
    if any(None in (row.unbound, row.bound, row.cleared) for row in records.values()):
        raise Unknown("the probe bound-device-id recorded no end of a state")
    bound = f"bound to {run.first_record(BoundDeviceRecord).bound_to} "
    # Torch behaves so on every machine: not a fault of this one.
    yield note(
        "Gloo groups can be made unless the default group is bound"
        if refused
        else "Gloo groups can be made beside a bound default group",
        observed=bound + (f"torch refuses: {refused[0]}" if refused else "they work"),
        because=_UNBIND if refused else "",
        refs=_BINDING if refused else (),
    )


def _no_gloo(state: str, rank: int, text: str) -> Finding:
    return TEXTS.finding("no-gloo-beside", on_ranks=(rank,), state=state, rank=rank, text=text)


_UNBIND = (
    "Leave device_id out of init_process_group, or set bound_device_id of the default group to "
    "None right after it; both were seen to work here."
)


@TEXTS.check("single-process", level=2, probe="single-process")
def _single_process(case: Case) -> Findings:
    run = ran_well(case, "single-process")
    megatron = run.first_record(ProbeRecord).megatron
    yield note(observed=f"megatron.core {megatron} on {run.device}, at a tcp:// address")


@TEXTS.check("large-groups", level=3, probe="large-groups")
def _large_groups(case: Case) -> Findings:
    run = ran_well(case, "large-groups")
    listed = ", ".join(run.first_record(LargeGroupsRecord).layouts)
    yield note(observed=f"{listed} ranks")
