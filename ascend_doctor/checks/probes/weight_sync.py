"""Weights that go from a trainer to its rollouts, judged."""

from collections.abc import Iterator

from ascend_doctor.checks.probes.run_failures import ran_well
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, note
from ascend_doctor.probe_records.common import ProbeRecord

_THROUGH = {
    "plain": "torch's stores and backend",
    "vllm": "vllm-ascend's StatelessProcessGroup and PyHcclCommunicator",
}


@check("weight-sync", "Weights reach the rollouts", level=3, probe="weight-sync")
def weight_sync(case: Case) -> Iterator[Finding]:
    """Rank 0 sends weights to all other ranks through a group beside the default one.

    Asynchronous trainers send new weights to rollouts that belong to no common process group: both
    sides meet at a store of their own. Receivers hold something else before, so that weights that
    never came show; both sides are tried as the first to come, and all ranks must agree whether
    they have NPUs.

    Four things are told about this, and two are true. True: vllm-ascend's PyHcclCommunicator
    swallows a missing HCCL library, sets disabled, and its broadcast then returns without doing
    anything, so that receivers keep whatever was in their memory. True: if one side looks at the
    configuration and the other at what is installed, one makes no group, and the other fails. Not
    true: that a rollout that comes before the actor fails; a client of the store waits until its
    time-out, 300 s. Not true: that stripping brackets breaks addresses; they are those of IPv6.
    What does hang is an actor whose futures nobody awaits: its error is lost, and the rollouts
    wait. verl had this code between 2026-01-27 and 2026-02-26; its checkpoint engines replace it.
    """
    run = ran_well(case, "weight-sync")
    through = _THROUGH.get(run.first_record(ProbeRecord).through or "", "an unknown way")
    yield note(
        observed=f"{run.world_size - 1} receivers on {run.device}, through {through}, with "
        "either side first"
    )
