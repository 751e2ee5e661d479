import re
from collections.abc import Sequence

import pytest

from ascend_doctor.matrix.schema import KnownFailure
from tests.diagnosis.forms import SUMMARY
from tests.diagnosis.logs import catalog, guilty_of, of_files, of_text
from tests.present import present

WAITED = (
    "EI0006: 2026-03-01-10:0{minute}:05.000.000 Getting socket times out. Reason: Remote Rank did"
    " not send the data in time. Please check the reason for the rank being stuck"
)
SLOW = (
    "EI0002: 2026-03-01-10:{minute:02}:05.648 The wait execution of the Notify register times out."
    " Reason: The Notify register has not received the Notify record from remote rank [unknown]."
)
OOM = "RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60.97 GiB total capacity"
RAISED = (
    'Traceback (most recent call last):\n  File "t.py", line 3\nValueError: sample 7 has no label'
)
STEP = "iteration 10/ 100 | lm loss: 2.3"


def interleave(lines: dict[int, str], prefix: str = "[rank{}]: ") -> str:
    """One log: a step of each rank, then what each says, line by line."""
    rows = [f"{prefix.format(rank)}{STEP}" for rank in lines]
    parts = {rank: text.split("\n") for rank, text in lines.items()}
    for number in range(max(map(len, parts.values()))):
        for rank, texts in parts.items():
            if number < len(texts) and texts[number]:
                rows.append(prefix.format(rank) + texts[number])
    return "\n".join(rows) + "\n"


def torchrun(lines: dict[int, str]) -> dict[str, str]:
    return {
        f"job_1/attempt_0/{rank}/stderr.log": f"{STEP}\n{text}\n" for rank, text in lines.items()
    }


WAITING = WAITED.format(minute=2)


@pytest.mark.parametrize(
    "prefix",
    ["[rank{}]: ", "[default{}]:", "[1,{}]<stderr>:", "{}: ", "(Worker rank={} pid=77) "],
)
def test_a_rank_with_an_error_of_its_own_is_guilty_of_the_others_time_outs(prefix: str) -> None:
    lines = dict.fromkeys(range(8), WAITING)
    diagnosis = of_text(interleave({**lines, 5: OOM}, prefix))
    assert diagnosis.causes[0].id == "npu-oom-torch"
    assert [consequence.id for consequence in diagnosis.causes[0].consequences] == [
        "hccl-connect-timeout-ei0006"
    ]
    assert guilty_of(diagnosis).ranks == (5,)
    assert diagnosis.ranks == tuple(range(8))


def test_it_may_be_an_error_that_nobody_knows() -> None:
    lines = dict.fromkeys(range(8), WAITING)
    for diagnosis in (
        of_text(interleave({**lines, 3: RAISED})),
        of_files(torchrun({**lines, 3: RAISED})),
    ):
        assert diagnosis.causes[0].id == "hccl-connect-timeout-ei0006"
        assert guilty_of(diagnosis).ranks == (3,)
        assert present(guilty_of(diagnosis).evidence).text == "ValueError: sample 7 has no label"
        assert diagnosis.unexplained[0].evidence.rank == 3
        assert diagnosis.exit_code == 1


def test_the_rank_that_does_not_report_the_time_out_is_the_one_that_is_missing() -> None:
    lines = dict.fromkeys(range(8), WAITING)
    diagnosis = of_text(interleave({**lines, 6: ""}))
    assert guilty_of(diagnosis).ranks == (6,)
    assert not guilty_of(diagnosis).sure


def test_a_rank_that_never_wrote_is_missed_where_the_world_size_is_known() -> None:
    log = "using world size: 8, data-parallel size: 4\n"
    log += interleave(dict.fromkeys((0, 1, 2, 3, 4, 6, 7), WAITING))
    diagnosis = of_text(log)
    assert diagnosis.world_size == 8
    assert guilty_of(diagnosis).ranks == (5,)


def test_the_last_to_time_out_came_last() -> None:
    lines = {rank: SLOW.format(minute=31 if rank != 2 else 36) for rank in range(4)}
    diagnosis = of_text(interleave(lines))
    assert diagnosis.causes[0].id == "hccl-notify-timeout-ei0002"
    assert guilty_of(diagnosis).ranks == (2,)
    assert "300 s apart" in guilty_of(diagnosis).reason


def test_all_at_once_leave_nobody_guilty() -> None:
    diagnosis = of_text(interleave(dict.fromkeys(range(4), SLOW.format(minute=31))))
    assert diagnosis.causes[0].id == "hccl-notify-timeout-ei0002"
    assert diagnosis.guilty is None


def test_hccl_names_who_never_connected() -> None:
    log = interleave(
        {
            0: "topo exchange server get socket timeout! timeout[120 s]\n"
            'TopoDetect ERROR occur !!! fault_info["Failed to connect agent[1,3,]"]',
            2: 'TopoDetect ERROR occur !!! fault_info["Failed to connect agent[1,3,]"]',
        }
    )
    diagnosis = of_text(log)
    assert diagnosis.causes[0].id == "hccl-topo-negotiation-timeout-ei0015"
    assert guilty_of(diagnosis).ranks == (1, 3)
    assert not guilty_of(diagnosis).sure


@pytest.mark.parametrize(
    "lost",
    [
        (
            "Cluster Exception Location[IP/ID]:[192.0.2.7/1], "
            "Arrival Time:[Fri Jan  2 10:00:00 2026],"
            " Discoverer:[192.0.2.7/0], ExceptionType:[Heartbeat Lost Occurred]"
        ),
        "        serverId[192.0.2.7], deviceId[1], Heartbeat Lost Occurred, Possible Reason: 1.",
    ],
)
def test_a_lost_heartbeat_names_the_node(lost: str) -> None:
    diagnosis = of_text(
        interleave({0: f"{SLOW.format(minute=31)}\n{lost}", 2: SLOW.format(minute=31)})
    )
    assert guilty_of(diagnosis).nodes == ("192.0.2.7/1",)


def test_links_are_followed_to_the_rank_that_waits_for_nobody() -> None:
    def link(local: int, remote: int) -> str:
        return (
            f"{WAITING}\n"
            "Transport init error. Reason: [Create][DestLink]Create Dest error! createLink para:"
            f"rank[{local}]-localUserrank[{local}]-localIpAddr[192.0.2.1], "
            f"dst_rank[{remote}]-remoteUserrank[{remote}]-remote_ip_addr[192.0.2.1]"
        )

    diagnosis = of_text(interleave({0: link(0, 1), 1: link(1, 2), 2: STEP, 3: link(3, 0)}))
    assert guilty_of(diagnosis).ranks == (2,)


def test_torchrun_names_the_first_process_that_failed() -> None:
    summary = SUMMARY.replace("exitcode  : 1", "exitcode  : -9")
    diagnosis = of_text(summary)
    assert diagnosis.outcome == "unknown error"
    assert diagnosis.exit_code == 3
    assert (guilty_of(diagnosis).ranks, guilty_of(diagnosis).nodes) == ((11,), ("atlas-17",))
    assert "signal 9" in guilty_of(diagnosis).reason
    with_others = of_text(interleave(dict.fromkeys(range(8), WAITING)) + summary)
    assert with_others.causes[0].id == "hccl-connect-timeout-ei0006"
    assert guilty_of(with_others).ranks == (11,)


def test_a_failure_of_all_ranks_is_common_to_them() -> None:
    missing = "ModuleNotFoundError: No module named 'mindspeed'"
    diagnosis = of_text(interleave(dict.fromkeys(range(4), missing)))
    assert diagnosis.guilty is None
    assert "every rank shows it" in diagnosis.undecided
    some = of_text(interleave({**dict.fromkeys(range(4), missing), 4: "loading", 5: "loading"}))
    assert some.guilty is None
    assert "most ranks show it" in some.undecided


def test_a_failure_after_the_time_out_of_the_same_rank_follows_from_it() -> None:
    after = "RuntimeError: AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 507018"
    diagnosis = of_text(interleave({0: f"{WAITING}\n{after}", 1: WAITING}))
    assert diagnosis.causes[0].id == "hccl-connect-timeout-ei0006"
    assert "aicpu-exception-507018" in [
        consequence.id for consequence in diagnosis.causes[0].consequences
    ]


@pytest.mark.parametrize("ends", [("a",), ("a", "b")])
def test_nodes_are_told_where_ranks_are_not(ends: Sequence[str]) -> None:
    lines = [f"(WorkerDict pid=1{n}, ip=192.0.2.{n}) {WAITING}" for n in range(4)]
    lines += [f"(WorkerDict pid=2{n}, ip=192.0.2.9) {OOM}" for n in range(len(ends))]
    diagnosis = of_text("\n".join(lines))
    assert diagnosis.causes[0].id == "npu-oom-torch"
    assert guilty_of(diagnosis).nodes == ("192.0.2.9",)
    assert "192.0.2.3" in diagnosis.nodes


@pytest.mark.slow
@pytest.mark.parametrize(
    "failure",
    [
        failure
        for failure in catalog().failures.values()
        if failure.severity == "fatal" and not failure.secondary and not failure.victim
    ],
    ids=lambda failure: failure.id,
)
def test_every_failure_of_one_rank_is_the_cause_of_the_others_time_outs(
    failure: KnownFailure,
) -> None:
    example = re.sub(r"^\[rank\d+\]: ", "", failure.example)
    lines = dict.fromkeys(range(4), WAITING)
    for diagnosis in (
        of_files(torchrun({**lines, 2: example})),
        of_text(interleave({**lines, 2: example})),
    ):
        assert diagnosis.causes[0].id == failure.id
        assert guilty_of(diagnosis).ranks == (2,)


WATCHED = (
    "[E1122 09:01:59.000000000 ProcessGroupHCCL.cpp:7] [Rank {group}] Watchdog caught collective "
    "operation timeout: WorkHCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=8000) ran for 8400 milliseconds before timing out."
)
ENDED = """  time      : 2026-11-22_09:01:59
  host      : node-1
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 1119{rank})
  error_file: <N/A>
"""


def watchdog_log(waited: dict[int, int], codes: dict[int, int], more: str = "") -> str:
    """Waits by collective, and exit codes; torchrun saw the first of these fail."""
    rows = [f"[rank{rank}]:{WATCHED.format(group=rank, number=n)}" for rank, n in waited.items()]
    first, *others = codes
    summary = [ENDED.format(rank=rank, code=codes[rank]) for rank in others]
    root = ENDED.format(rank=first, code=codes[first])
    text = "\n".join([*rows, more, "Failures:", *summary])
    return f"{text}\nRoot Cause (first observed failure):\n{root}"


def test_a_watchdog_that_aborts_its_process_accuses_nobody() -> None:
    diagnosis = of_text(watchdog_log({0: 2}, {0: -6, 1: -15, 2: -15, 3: -15}))
    assert diagnosis.causes[0].id == "hccl-watchdog-timeout"
    assert diagnosis.guilty is None
    assert "ranks 1, 2, 3 were ended before they said anything" in diagnosis.undecided
    assert "ascend-doctor run -- COMMAND" in diagnosis.undecided


def test_who_was_ended_in_silence_may_have_waited_too() -> None:
    diagnosis = of_text(watchdog_log({0: 2, 1: 2, 2: 2}, {0: -6, 1: -6, 2: -6, 3: -15}))
    assert diagnosis.guilty is None
    assert "3" in diagnosis.undecided


def test_who_is_silent_and_was_not_ended_did_not_come() -> None:
    lines = "\n".join(f"[rank{rank}]:{WATCHED.format(group=rank, number=2)}" for rank in (0, 1, 3))
    diagnosis = of_text(f"using world size: 4\n{lines}\n")
    assert guilty_of(diagnosis).ranks == (2,)


def test_ranks_in_different_collectives_accuse_nobody() -> None:
    lines = "\n".join(
        f"[rank{rank}]:{WATCHED.format(group=rank, number=rank)}" for rank in (0, 1, 3)
    )
    diagnosis = of_text(f"using world size: 4\n{lines}\n")
    assert diagnosis.guilty is None
    assert "not all in the same collective" in diagnosis.undecided


def test_who_did_not_end_on_sigterm_was_stopped() -> None:
    diagnosis = of_text(watchdog_log({0: 2}, {0: -6, 1: -15, 2: -9, 3: -15}))
    assert guilty_of(diagnosis).ranks == (2,)
    assert "stopped" in guilty_of(diagnosis).reason
    assert of_text(watchdog_log({0: 2}, {0: -6, 1: -9, 2: -9, 3: -9})).guilty is None


def test_a_rank_that_crashed_by_itself_is_guilty_of_the_watchdogs_of_others() -> None:
    diagnosis = of_text(watchdog_log({0: 2, 2: 2}, {1: -11, 0: -6, 2: -6, 3: -15}))
    assert guilty_of(diagnosis).ranks == (1,)
    assert "killed by signal 11" in guilty_of(diagnosis).reason


OUT_OF_STEP = """[rank0]:[E1122 09:14:08.000000000 ProcessGroupHCCL.cpp:7]
[rank0]: 	 - [0] Timeout at collective: ALLREDUCE, #3
[rank0]: 	 - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
[rank0]: 	     [{late}] finished collective #2, but didn't join collective #3 (count from 1)
[rank0]: 	   #2 finished ranks:
[rank0]: 	     [{late}] finished {last}
[rank0]: 	   #3 started ranks:
[rank0]: 	     [{others}] started ALLREDUCE
"""


def test_the_watchdog_s_report_names_who_did_not_join() -> None:
    codes = {0: -6, 1: -15, 2: -15, 3: -15}
    complaint = OUT_OF_STEP.format(late="1", last="ALLREDUCE", others="0, 2, 3")
    diagnosis = of_text(watchdog_log({0: 3}, codes, complaint))
    assert guilty_of(diagnosis).ranks == (1,)
    for late, last, others in (
        ("1, 2", "ALLREDUCE", "0, 3"),  # one may wait for the other elsewhere
        ("1", "RECV", "0, 2, 3"),  # it may wait for its peer in a pipeline
        ("1", "ALLREDUCE", "0"),  # a group of two numbers its ranks itself
    ):
        report = OUT_OF_STEP.format(late=late, last=last, others=others)
        assert of_text(watchdog_log({0: 3}, codes, report)).guilty is None


def test_a_watchdog_of_another_library_is_not_hccl_s() -> None:
    text = f"[rank0]:{WATCHED.format(group=0, number=3)}".replace("HCCL", "NCCL")
    diagnosis = of_text(text)
    assert diagnosis.outcome == "unknown error"
    assert not diagnosis.causes


ID = (
    "RuntimeError: [{rank}] is setting up HCCL communicator and retrieving hcclUniqueId from [0] "
    "via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 8000ms"
)


def test_who_waits_for_the_id_of_a_communicator_waits_for_the_group_s_first_rank() -> None:
    diagnosis = of_text("\n".join(f"[rank{rank}]: {ID.format(rank=rank)}" for rank in (1, 2, 3)))
    assert diagnosis.causes[0].id == "hccl-unique-id-timeout"
    assert (guilty_of(diagnosis).ranks, guilty_of(diagnosis).sure) == ((0,), False)
    # Rank 0 waits in another collective: one of them is wrong.
    lines = watchdog_log(
        {0: 2, 1: 2}, {0: -6, 1: -6, 2: -15, 3: 1}, f"[rank3]: {ID.format(rank=3)}"
    )
    assert of_text(lines).guilty is None


SETTING_UP = ID.format(rank=3)
ABORTED = "terminate called after throwing an instance of 'std::runtime_error'"


def test_who_was_ended_in_silence_is_not_accused_by_one_that_sets_up_another_group() -> None:
    """Rank 3 took the wrong group; rank 0 waited, and torchrun ended it."""
    codes = {2: -6, 0: -15, 1: -6, 3: -15}
    diagnosis = of_text(watchdog_log({1: 4, 2: 4}, codes, f"[rank3]: {SETTING_UP}"))
    assert diagnosis.guilty is None
    assert "ranks 1, 2, 3 report a time-out, not all in the same collective" in diagnosis.undecided
    # All others wait for it.
    alone = "\n".join(f"[rank{rank}]: {ID.format(rank=rank)}" for rank in (1, 2, 3))
    diagnosis = of_text(watchdog_log({}, {1: 1, 2: 1, 3: 1, 0: -15}, alone))
    assert guilty_of(diagnosis).ranks == (0,)


def test_a_process_that_its_watchdog_aborts_has_no_error_of_its_own() -> None:
    """Rank 1 took the wrong group; rank 2 waited and prints its watchdog's words."""
    codes = {2: -6, 0: -15, 1: -15, 3: -15}
    more = f"[rank2]: {ABORTED}\n[rank1]: {ID.format(rank=1)}"
    assert of_text(watchdog_log({2: 2}, codes, more)).guilty is None


def test_local_ranks_become_ranks_by_what_tells_both() -> None:
    log = interleave({2: OOM, 3: STEP}, "[default{}]:")
    diagnosis = of_text(f"{log}[default3]:[rank11]: x\n")
    assert (guilty_of(diagnosis).ranks, guilty_of(diagnosis).local_ranks) == ((10,), (2,))


def test_a_rank_that_is_not_known_is_not_told() -> None:
    log = interleave({0: STEP, 1: STEP, 2: OOM, 3: STEP}, "[default{}]:")
    for more in ("using world size: 8", "[default0]:[rank4]: x\n[default1]:[rank1]: x"):
        diagnosis = of_text(f"{more}\n{log}")
        assert (guilty_of(diagnosis).ranks, guilty_of(diagnosis).local_ranks) == ((), (2,))
        assert diagnosis.causes[0].evidence[0].local_rank == 2


def test_two_nodes_of_unknown_numbers_are_not_mixed_up() -> None:
    logs = {f"{name}/job/attempt_0/{n}/stderr.log": f"{STEP}\n" for name in "ab" for n in (0, 1)}
    diagnosis = of_files({**logs, "b/job/attempt_0/1/stderr.log": f"{OOM}\n"})
    assert (guilty_of(diagnosis).ranks, guilty_of(diagnosis).local_ranks) == ((), (1,))
    assert "b/job/attempt_0/1" in present(guilty_of(diagnosis).evidence).file


@pytest.mark.parametrize(
    ("names", "rank"),
    [
        (("node-0", "node-1", "node-2"), 5),
        (("node-1", "node-2"), None),  # the first may be missing
        (("node-0", "node-2"), None),
        (("node-0", "host-1"), None),
        (("worker-0", "worker-1"), None),  # a master may stand before them
    ],
)
def test_nodes_are_numbered_by_their_names_where_these_leave_no_doubt(
    names: tuple[str, ...], rank: int | None
) -> None:
    files = {
        f"{name}/job/attempt_0/{local}/stderr.log": f"{OOM if bad else STEP}\n"
        for number, name in enumerate(names)
        for local in (0, 1)
        for bad in [number == len(names) - 1 and local == 1]
    }
    diagnosis = of_files(files)
    assert guilty_of(diagnosis).ranks == (() if rank is None else (rank,))
    assert guilty_of(diagnosis).nodes == (names[-1],)


@pytest.mark.parametrize(
    ("message", "ranks"),
    [
        ("[rank1]: x", (3,)),  # worker-0 has rank 0: no master stands before it
        ("[rank3]: x", ()),  # another order than that of the names
    ],
)
def test_a_node_that_told_its_ranks_numbers_those_beside_it(
    message: str, ranks: tuple[int, ...]
) -> None:
    files = {
        f"worker-{node}/job/attempt_0/{local}/stderr.log": f"{STEP}\n"
        for node in (0, 1)
        for local in (0, 1)
    }
    files["worker-0/job/attempt_0/1/stderr.log"] = f"{STEP}\n{message}\n"
    files["worker-1/job/attempt_0/1/stderr.log"] = f"{OOM}\n"
    diagnosis = of_files(files)
    assert (guilty_of(diagnosis).ranks, guilty_of(diagnosis).local_ranks) == (ranks, (1,))


DRIVER = "RuntimeError: NPU function error: aclrtSynchronizeDevice, error code is 507899"


@pytest.mark.parametrize(
    ("waiter", "minute", "root"),
    [
        ("", 0, "runtime-driver-internal-507899"),
        # At the time-outs' time, or printed by those who waited too, it is a consequence.
        ("", 30, "hccl-watchdog-timeout"),
        (DRIVER, 0, "hccl-watchdog-timeout"),
    ],
)
def test_a_wrapper_long_before_the_time_outs_of_others_is_no_consequence(
    waiter: str, minute: int, root: str
) -> None:
    timeout = (
        "Watchdog caught collective operation timeout: WorkHCCL(SeqNum=33, OpType=ALLREDUCE,"
        " Timeout(ms)=1800000) ran for 1800112 milliseconds before timing out."
    )
    rows = [f"[rank2]: 2026-11-20 10:{minute:02}:01 {DRIVER}"]
    rows += [f"[rank0]: 2026-11-20 10:00:01 {waiter}"] if waiter else []
    rows += [f"[rank{rank}]: 2026-11-20 10:30:0{rank} {timeout}" for rank in (0, 1)]
    diagnosis = of_text("\n".join(rows))
    assert diagnosis.causes[0].id == root
    assert guilty_of(diagnosis).ranks == (2,)


def test_a_task_of_srun_is_a_rank_or_a_launcher() -> None:
    rows = "\n".join(f"{task}: {OOM if task == 1 else STEP}" for task in range(3))
    diagnosis = of_text(rows)
    assert guilty_of(diagnosis).ranks == (1,)
    # torchrun's words on its second node are not rank 1's.
    diagnosis = of_text(f"{rows}\n0: [default0]:{STEP}\n1: [default0]:{STEP}\n")
    assert not diagnosis.guilty or not diagnosis.guilty.ranks


def test_ranks_without_a_log_are_told_of_two_nodes_as_well() -> None:
    files = {
        f"node-{node}/job/attempt_0/{local}/stderr.log": f"using world size: 4\n{STEP}\n"
        for node in (0, 1)
        for local in (0, 1)
    }
    assert of_files(files).without_log == ()
    again = {**files, "node-0/job/attempt_1/0/stderr.log": STEP}
    assert of_files(again).without_log == ()


def test_an_unknown_error_of_most_ranks_accuses_nobody() -> None:
    raised = 'Traceback (most recent call last):\n  File "t.py", line 3\nValueError: only Adam'
    common = of_text(interleave(dict.fromkeys((11, 4, 5, 9), raised)))
    assert (common.outcome, common.guilty) == ("unknown error", None)
    assert "its cause is common to them" in common.undecided
    alone = of_text(interleave({11: raised, 4: RAISED, 5: RAISED.replace("7", "8")}))
    assert guilty_of(alone).ranks == (11,)


def test_ranks_that_ended_in_the_same_second_are_not_accused() -> None:
    """torchrun looks at processes by number: the lowest comes first."""
    summary = [
        f"[{number}]:\n  time      : 2026-11-22_09:01:5{second}\n  host      : node-1\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : 1 (pid: 7{rank})\n"
        for number, (rank, second) in enumerate([(1, 9), (2, 9), (0, 9)], 1)
    ]
    text = (
        "AttributeError: 'Namespace' object has no attribute 'size'\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"Failures:\n{''.join(summary[:2])}Root Cause (first observed failure):\n{summary[2]}"
    )
    assert of_text(text).guilty is None
    apart = of_text(text.replace("_09:01:59", "_09:01:58", 2))
    assert guilty_of(apart).ranks == (0,)


@pytest.mark.parametrize(
    "wrapper",
    [
        "RuntimeError: the collective was given up, HcclAllReduce returned",
        "torch_npu.npu.CommError: HCCL work of group 0 did not end",
        "SystemException: aclrtSynchronizeStreamWithTimeout ended the wait",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_an_unknown_wrapper_of_a_time_out_accuses_no_rank(wrapper: str, *, first: bool) -> None:
    """Three ranks wait for rank 3, and rank 0 raises around its own time-out."""
    end = SLOW.format(minute=9).replace("[unknown]", "[3]")
    raised = f'Traceback (most recent call last):\n  File "t.py", line 3\n{wrapper}'
    both = f"{raised}\n{end}" if first else f"{end}\n{raised}"
    for texts in ({0: both, 1: end, 2: end}, dict.fromkeys(range(3), both)):
        for seen in (
            of_files(torchrun({**texts, 3: STEP})),
            of_text(interleave({**texts, 3: STEP})),
        ):
            assert guilty_of(seen).ranks == (3,)
            assert seen.verdict
            assert seen.verdict.action == "restart"
