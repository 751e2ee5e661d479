from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from ascend_doctor.findings import Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from tests.probes.judged import judge_probes
from tests.probes.started import start_probe


def judge_run(run: ProbeRun) -> list[tuple[Level, str]]:
    return [(finding.level, finding.title) for finding in judge_probes(run)]


def test_objects_travel_over_both_groups(forked_python: Path) -> None:
    run = start_probe(forked_python, "object-collectives", ranks=2)
    assert judge_run(run) == [(Level.OK, "Object collectives work")]
    assert [rank.values["peers"]["set"]["step"] for rank in run.ranks] == ["done"] * 2
    # Three calls over Gloo, three over the device's group; one more with megatron.core.
    more = 1 if "metrics_backend" in run.ranks[0].values else 0
    assert [rank.compared for rank in run.ranks] == [6 + more, 4 + more]


def test_an_object_of_another_rank_is_found(forked_python: Path) -> None:
    fault = "rank=1,stage=gloo,do=value"
    run = start_probe(forked_python, "object-collectives", ranks=2, fault=fault)
    wrong = {wrong.what for rank in run.ranks for wrong in rank.wrong}
    assert wrong == {"all_gather_object over a Gloo group", "gather_object over a Gloo group"}


@pytest.mark.parametrize(
    ("act", "title", "text"),
    [
        ("hang", "they never arrive", "TimeoutError: no end after 8 s"),
        ("exit", "moving them fails", "the process ended with exit code 3"),
        ("raise", "moving them fails", "RuntimeError: on purpose in inside set"),
    ],
)
def test_a_group_of_the_device_that_fails_is_named(
    forked_python: Path, act: str, title: str, text: str
) -> None:
    fault = f"rank=1,stage=inside set,do={act}"
    run = start_probe(forked_python, "object-collectives", ranks=2, fault=fault)
    (finding,) = judge_probes(run)
    assert finding.level is (Level.ERROR if run.blocks else Level.WARNING)
    assert finding.title == f"object-collectives: over the group of the device {title}"
    peer = run.ranks[1].values["peers"]["set"]
    assert peer["step"] == "objects"
    assert text in peer["error"]
    megatron = run.ranks[1].values.get("megatron")
    # Its optimizer gathers objects so.
    assert bool(run.blocks) == (megatron is not None and Version(megatron) >= Version("0.14"))


def test_a_metric_group_that_is_not_gloo_is_an_error() -> None:
    values = {"metrics_backend": "hccl"}
    run = ProbeRun(probe="object-collectives", ranks=(ProbeResult(ok=True, values=values),))
    assert (Level.ERROR, "object-collectives: Megatron's Gloo group is none") in judge_run(run)


def test_who_hangs_is_named_and_not_who_waits_for_it() -> None:
    errors = (
        "RuntimeError: EI0006: Getting socket times out.\nmore",
        "TimeoutError: no end after 150 s",
        "RuntimeError: EI0006: Getting socket times out.",
    )
    ranks = [
        ProbeResult(rank=rank, ok=True, values={"peers": {"set": {"step": "sum", "error": error}}})
        for rank, error in enumerate(errors)
    ]
    (finding,) = judge_probes(
        ProbeRun(probe="object-collectives", device="npu", ranks=tuple(ranks))
    )
    assert finding.ranks == (1,)
    assert finding.title.endswith("they never arrive")
    assert finding.observed.endswith("rank 0: RuntimeError: EI0006: Getting socket times out.")


@pytest.mark.parametrize(
    ("error", "output", "guilty"),
    [
        ("the process crashed with SIGSEGV", "EI0002: the wait times out", 1),
        ("the process crashed with SIGABRT", "HCCL watchdog thread: EI0002: the wait times out", 0),
        ("the process crashed with SIGABRT", "", 1),
        ("RuntimeError: EI0002: the wait times out", "", 0),
    ],
)
def test_whom_its_watchdog_aborts_only_waited(error: str, output: str, guilty: int) -> None:
    peers = (
        {"step": "objects", "error": "TimeoutError: no end after 150 s", "output": "EI0002"},
        {"step": "objects", "error": error, "output": output},
    )
    ranks = tuple(
        ProbeResult(rank=rank, ok=True, values={"peers": {"set": peer}})
        for rank, peer in enumerate(peers)
    )
    (finding,) = judge_probes(ProbeRun(probe="object-collectives", device="npu", ranks=ranks))
    assert finding.ranks == (guilty,)


def test_what_happens_without_set_device_is_told_but_no_fault() -> None:
    peers = {
        "set": {"step": "done", "device": 1, "seconds": 0.1},
        "unset": {"step": "objects", "device": 0, "error": "TimeoutError: no end after 150 s"},
    }
    result = ProbeResult(ok=True, values={"peers": peers})
    (finding,) = judge_probes(ProbeRun(probe="object-collectives", device="npu", ranks=(result,)))
    assert finding.level is Level.OK
    assert "Where no rank calls set_device they never arrive" in finding.because


def test_a_binding_that_gloo_does_not_know_is_seen_and_cleared(forked_python: Path) -> None:
    run = start_probe(forked_python, "bound-device-id", ranks=2)
    for rank in run.ranks:
        assert rank.values["bound"] == (
            "RuntimeError: No backend type associated with device type xpu"
        )
        assert (rank.values["unbound"], rank.values["cleared"]) == ("", "")
        # Not where it is bound: there is no group.
        assert (rank.compared, rank.wrong) == (2, ())
    title = "Gloo groups can be made unless the default group is bound"
    assert judge_run(run) == [(Level.OK, title)]


STUCK = """
import torch.distributed as dist
new_group = dist.new_group
state = []
def sticky(*arguments, **options):
    if not state:
        try:
            return new_group(*arguments, **options)
        except RuntimeError as error:
            state.append(error)
    raise state[0]
dist.new_group = sticky
"""


def test_a_binding_that_stays_is_an_error(forked_python: Path, tmp_path: Path) -> None:
    run = start_probe(forked_python, "bound-device-id", ranks=2, mutation=STUCK, folder=tmp_path)
    title = "bound-device-id: no Gloo group beside a default group whose binding was cleared"
    assert judge_run(run) == [(Level.ERROR, title)]


def test_a_sum_that_is_wrong_is_found(forked_python: Path) -> None:
    fault = "rank=1,stage=cleared,do=value"
    run = start_probe(forked_python, "bound-device-id", ranks=2, fault=fault)
    wrong = {wrong.what for rank in run.ranks for wrong in rank.wrong}
    assert wrong == {"sum in a Gloo group, cleared"}


def test_an_npu_that_refuses_is_no_fault_and_tells_the_remedy() -> None:
    values = {"unbound": "", "bound": "RuntimeError: No backend type", "cleared": ""}
    result = ProbeResult(ok=True, values=values)
    (finding,) = judge_probes(ProbeRun(probe="bound-device-id", device="npu", ranks=(result,)))
    assert finding.level is Level.OK
    assert finding.because.startswith("Leave device_id out")


def drives(rank: int, index: int, listed: str | None, **values: Any) -> ProbeResult:
    values = {"variable": listed, "started_with": listed, "index": index, **values}
    return ProbeResult(rank=rank, host="a", ok=True, values=values)


@pytest.mark.parametrize(
    ("ranks", "level"),
    [
        ([drives(0, 0, None), drives(1, 1, None)], Level.OK),
        ([drives(0, 0, "4,5"), drives(1, 1, "4,5")], Level.OK),
        ([drives(0, 0, "4"), drives(1, 0, "5")], Level.OK),
        ([drives(0, 0, "4,5"), drives(1, 0, "4,5")], Level.ERROR),
        ([drives(0, 0, "0"), drives(1, 0, "0")], Level.ERROR),
        ([drives(0, 1, "4,5"), drives(1, 0, "5")], Level.ERROR),
        ([drives(0, 0, None, identity="u"), drives(1, 1, None, identity="u")], Level.ERROR),
        ([drives(0, 0, "0", started_with="4")], Level.WARNING),
    ],
)
def test_who_drives_what(ranks: list[ProbeResult], level: Level) -> None:
    run = ProbeRun(probe="device-per-rank", device="npu", ranks=tuple(ranks))
    (finding,) = judge_probes(run)
    assert finding.level is level


def test_ranks_on_the_cpu_have_no_devices(forked_python: Path) -> None:
    run = start_probe(forked_python, "device-per-rank", ranks=2)
    title = "Each rank drives a device of its own: ranks on the CPU have no devices of their own"
    assert judge_run(run) == [(Level.SKIPPED, title)]


def test_one_process_without_torchrun(forked_megatron: Path) -> None:
    run = start_probe(forked_megatron, "single-process")
    assert judge_run(run) == [(Level.OK, "Megatron's groups work in one process")]
    values = run.ranks[0].values
    assert values["without_group"] == "AssertionError: "
    assert "environment variable RANK expected" in values["without_address"]
    assert run.ranks[0].compared == 7


def test_a_sum_over_one_process_that_is_wrong(forked_megatron: Path) -> None:
    run = start_probe(forked_megatron, "single-process", fault="rank=0,stage=groups,do=value")
    assert [wrong.what for wrong in run.ranks[0].wrong] == ["sum over one process"]
