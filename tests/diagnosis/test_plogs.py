"""CANN's own logs: who is who, who waits for whom, and where that ends.

The lines have the form of CANN's plogs; their values are ours.
"""

import tracemalloc
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from ascend_doctor.diagnosis.logs import find
from ascend_doctor.diagnosis.plog_runs import split_runs
from ascend_doctor.diagnosis.result import Diagnosis
from tests.diagnosis import forms
from tests.diagnosis.logs import guilty_of, of_files

WORLD = "192.0.2.1%eth0_60000_0_1767348000000000"
AT = "2026-03-01-10:{minute:02}:05.000.000"


def run(rank: int, size: int, *, server: int, card: int, more: str = "") -> str:
    """run/plog of a process that joins the group of all."""
    pid = 100 + rank
    return (
        f"[INFO] HCCL({pid},python3):2026-03-01-10:00:00.000.000 [topoinfo_detect.cc:506] [{pid}]"
        f"[HCCL_TRACE][Flat]SetupAgent rankNum[{size}], rank[{rank}], rootInfo identifier[{WORLD}],"
        f" server[192.0.2.{server}%eth0], serverPort[60000]deviceType[2], logicDevId[{card}],"
        f" phydevId[{card}], deviceIp[198.51.100.{rank}]\n"
        f"[INFO] HCCL({pid},python3):2026-03-01-10:00:02.000.000 [network_manager.cc:561] [{pid}]"
        f"[Start][Vnic]Listen on ip[192.168.2.{90 + card}], port[16666] sucess, devPhyId[{card}],"
        f" devLogicId[{card}], isAutoPort[0]\n{more}"
    )


def join_line(group: str, rank: int, size: int) -> str:
    """A process in another group, too."""
    return (
        "[INFO] HCCL(1,python3):2026-03-01-10:00:09.000.000 [hccl_comm.cc:129] [1]hcclCommInitInfo:"
        f"commId[hccl-1-5-1767348000-x], rank[{rank}], totalRanks[{size}], serverId[%eth0],"
        f" deviceType[4],logicDevId[0], identifier[{group}]\n"
    )


def socket(own: int, address: str, rank: int, status: str = "time out") -> str:
    return (
        f"[ERROR] HCCL(1,python3):{AT.format(minute=2)} [hccl_socket_manager.cc:778] [1][Wait]"
        f"[LinkEstablish]wait socket establish timeout, role[1] rank[{own}] timeout[130]\n"
        f"[ERROR] HCCL(1,python3):{AT.format(minute=2)} [hccl_socket_manager.cc:553] [1]   |  "
        f"{address}({rank})   |  16666  |   198.51.100.{own}({own})   |  0  "
        f"|  client  | {status} |\n"
        f"[ERROR] HCCL(1,python3):{AT.format(minute=2)} [hccl_socket_manager.cc:601] [1]the "
        "connection failure between this device and target device may be due to the following "
        "reasons:\n"
    )


def notify(group: str, own: int, remote: int | str, size: int) -> str:
    head = f"[ERROR] HCCL(1,python3):{AT.format(minute=31)} [task_exception_handler.cc:452][1]"
    what = f"{head}[TaskExceptionHandler][Callback]Task run failed, "
    return (
        f"{what}base information is streamID:[3], taskID[7], taskType[Notify Wait], "
        f"tag[AllReduce_{group}], index[3], AlgType(level 0-1-2):[null-null-ring].\n"
        f"{what}para information is notify id:[0x50], stage:[ffffffff], remote rank:[{remote}].\n"
        f"{what}groupRank information is group:[{group}], rankSize[{size}], rankId[{own}].\n"
    )


def tree(
    lines: Mapping[int, str], *, each: int = 4, more: Mapping[int, str] | None = None,
    without: Iterable[int] = (),
) -> dict[str, str | bytes]:  # fmt: skip
    """Logs of nodes with ``each`` cards; ranks ``without`` left none."""
    files: dict[str, str | bytes] = {}
    for rank, text in lines.items():
        node, card = divmod(rank, each)
        if rank in without:
            continue
        name = f"plog-{100 + rank}_20260301100000000.log"
        own = run(rank, len(lines), server=node, card=card, more=(more or {}).get(rank, ""))
        files[f"host-{chr(97 + node)}/ascend/log/run/plog/{name}"] = own
        files[f"host-{chr(97 + node)}/ascend/log/debug/plog/{name}"] = text
    return files


def accuse(diagnosis: Diagnosis) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    assert diagnosis.guilty, diagnosis.undecided
    return diagnosis.guilty.ranks, diagnosis.guilty.devices, diagnosis.guilty.servers


def test_a_chain_over_servers_is_followed_to_its_end() -> None:
    diagnosis = of_files(
        tree({
            0: socket(0, "198.51.100.4", 4), 1: socket(1, "198.51.100.4", 4), 2: "", 3: "",
            4: socket(4, "192.168.2.93", 7), 5: "", 6: "", 7: "",
        })
    )  # fmt: skip
    assert accuse(diagnosis) == ((7,), (3,), ("192.0.2.1",))
    assert guilty_of(diagnosis).nodes == ("host-b",)


def test_the_card_of_a_server_is_not_that_card_of_another() -> None:
    lines = dict.fromkeys(range(8), "")
    p2p = (
        f"[ERROR] HCCL(1,python3):{AT.format(minute=2)} [p2p_mgmt.cc:305] [1][Wait][P2PConnected]"
        "connected p2p timeout, timeout:130 s. local logicDevid:0, remote physic id:1.\n"
    )
    assert accuse(of_files(tree({**lines, 4: p2p, 6: p2p}))) == ((5,), (1,), ("192.0.2.1",))
    assert accuse(of_files(tree({**lines, 0: p2p, 2: p2p}))) == ((1,), (1,), ("192.0.2.0",))


def test_ranks_of_a_group_are_made_those_of_the_job() -> None:
    """Ranks 1, 3, 5 and 7 are 0 to 3 of their group, and wait for its 2."""
    members = {1: 0, 3: 1, 5: 2, 7: 3}
    more = {rank: join_line("group_name_7", own, 4) for rank, own in members.items()}
    lines = {
        rank: notify("group_name_7", members[rank], 2, 4) if rank in {1, 3, 7} else ""
        for rank in range(8)
    }
    assert accuse(of_files(tree(lines, more=more)))[0] == (5,)


def test_a_group_that_is_not_the_job_gives_no_ranks() -> None:
    """Two groups of two, none of four: their rank 0 has no rank in the job."""
    files = tree({0: "", 1: socket(1, "198.51.100.0", 0)}, each=2)
    others = tree({0: "", 1: ""}, each=2)
    diagnosis = of_files(
        {**files, **{name.replace("host-a", "host-b"): text for name, text in others.items()}}
    )
    assert not diagnosis.guilty or not diagnosis.guilty.ranks


@pytest.mark.parametrize("ranks", [3, 4])
def test_a_ring_accuses_nobody_and_is_told(ranks: int) -> None:
    lines = {rank: notify(WORLD, rank, (rank + 1) % ranks, ranks) for rank in range(ranks)}
    diagnosis = of_files(tree(lines))
    assert diagnosis.guilty is None
    assert "wait in a ring" in diagnosis.undecided


def test_two_that_wait_for_each_other_in_a_step_are_not_accused() -> None:
    lines = {0: notify(WORLD, 0, 1, 3), 1: notify(WORLD, 1, 2, 3), 2: notify(WORLD, 2, 1, 3)}
    assert of_files(tree(lines)).guilty is None


def test_a_peer_without_a_log_is_accused_by_two_and_named_after_one() -> None:
    lines = dict.fromkeys(range(8), "")
    moved = {**lines, 0: socket(0, "198.51.100.6", 6)}
    diagnosis = of_files(tree(moved, without={6}))
    assert diagnosis.guilty is None
    assert "rank 6 (198.51.100.6, no log)" in diagnosis.undecided
    two = {**moved, 3: socket(3, "198.51.100.6", 6)}
    diagnosis = of_files(tree(two, without={6}))
    assert guilty_of(diagnosis).ranks == (6,)
    assert "it left no log (198.51.100.6)" in guilty_of(diagnosis).reason


def test_several_ends_accuse_nobody_unless_they_share_a_host() -> None:
    lines = dict.fromkeys(range(12), "")
    apart = {0: socket(0, "198.51.100.4", 4), 1: socket(1, "198.51.100.8", 8)}
    diagnosis = of_files(tree({**lines, **apart}))
    assert diagnosis.guilty is None
    assert "2 ends" in diagnosis.undecided
    together = {0: socket(0, "198.51.100.4", 4), 1: socket(1, "198.51.100.5", 5)}
    assert accuse(of_files(tree({**lines, **together}))) == ((4, 5), (0, 1), ("192.0.2.1",))


def test_a_connected_link_is_no_wait() -> None:
    lines = {0: socket(0, "198.51.100.2", 2) + socket(0, "198.51.100.1", 1, "connected"),
             1: socket(1, "198.51.100.2", 2), 2: "", 3: ""}  # fmt: skip
    assert accuse(of_files(tree(lines)))[0] == (2,)


def test_a_broken_link_accuses_both_ends_unless_others_complain_of_one() -> None:
    def broken(address: str) -> str:
        return (
            f"[ERROR] HCCL(1,python):{AT.format(minute=9)} [heartbeat.cc:551][1][2][Heartbeat]cqe "
            f"err status[12], time:[2026-03-01 10:09:05.000000], ip:[{address}]\n"
        )

    lines = dict.fromkeys(range(8), "")
    assert accuse(of_files(tree({**lines, 0: broken("198.51.100.5")})))[0] == (0, 5)
    both = {**lines, 0: broken("198.51.100.5"), 2: broken("198.51.100.5")}
    assert accuse(of_files(tree(both)))[0] == (5,)


def test_a_cause_is_found_behind_many_logs_that_only_say_that_something_is_wrong() -> None:
    noise = "".join(
        f"[ERROR] RUNTIME(1,python3):{AT.format(minute=2)} [x.cc:{n}] [1]Stream {n} is bad\n"
        for n in range(1000)
    )
    core = (
        f"[ERROR] RUNTIME(1,python3):{AT.format(minute=1)} [task_info.cc:1] [PrintErrorInfo]"
        "Aicore kernel execute failed, device_id=1, stream_id=3, report_stream_id=3, task_id=5\n"
    )
    diagnosis = of_files(tree({rank: noise + core * (rank == 29) for rank in range(30)}))
    assert diagnosis.causes[0].id == "aicore-exception-507015"
    assert accuse(diagnosis)[0] == (29,)


# --- several runs in one folder


def fail_run(start: str, first: int, *, guilty: int) -> dict[str, str]:
    """Logs of four processes; one fails two minutes after ``start`` (HH:MM) in a kernel."""
    hour, minute = start.split(":")
    stamp = f"20260301{hour}{minute}00000"
    files = {}
    for rank in range(4):
        pid = first + rank
        at = f"2026-03-01-{hour}:{minute}"
        files[f"run/plog/plog-{pid}_{stamp}.log"] = (
            f"[INFO] HCCL({pid},python3):{at}:01.000.000 [topoinfo_detect.cc:506] [{pid}]"
            f"SetupAgent rankNum[4], rank[{rank}], server[192.0.2.7], logicDevId[{rank}],"
            f" phydevId[{rank}]\n"
        )
        files[f"debug/plog/plog-{pid}_{stamp}.log"] = (
            f"[ERROR] RUNTIME({pid},python3):{at}:09.000.000 [task_info.cc:1] [PrintErrorInfo]"
            f"Aicore kernel execute failed, device_id={rank}, stream_id=3, report_stream_id=3,"
            " task_id=5\n"
            if rank == guilty
            else f"[ERROR] HCCL({pid},python3):{at}:12.000.000 [x.cc:1] [{pid}]EI0006: {at}:12 "
            "Getting socket times out. Reason: Remote Rank did not send the data in time.\n"
        )
    return {f"ascend/log/{name}": text for name, text in files.items()}


@pytest.mark.parametrize("later", ["14:30", "10:01"])
def test_of_several_runs_the_newest_is_judged_and_the_others_are_named(later: str) -> None:
    first = fail_run("10:00", 100, guilty=2)
    second = fail_run(later, 200, guilty=1)
    diagnosis = of_files({**first, **second})
    assert accuse(diagnosis)[0] == (1,)
    assert diagnosis.attempt == "plogs of run 2 of 2"
    assert diagnosis.ranks == (0, 1, 2, 3)
    assert diagnosis.verdict
    assert [(row.name, row.failure) for row in diagnosis.verdict.attempts] == [
        ("plogs of run 1 of 2", "aicore-exception-507015")
    ]


def test_runs_of_several_nodes_are_matched_from_the_newest_on() -> None:
    """The first run lacks the second node."""
    first = {f"node-0/{name}": text for name, text in fail_run("10:00", 1, guilty=3).items()}
    first |= {f"node-0/{name}": text for name, text in fail_run("12:00", 9, guilty=0).items()}
    other = {f"node-1/{name}": text for name, text in fail_run("12:00", 9, guilty=9).items()}
    diagnosis = of_files({**first, **other})
    assert guilty_of(diagnosis).nodes == ("node-0",)
    assert all("/node-0/" in line.file for line in diagnosis.causes[0].evidence)
    assert diagnosis.causes[0].evidence[0].time.endswith("12:00:09")


def test_a_process_that_starts_late_is_of_the_same_run() -> None:
    """Its card was free, and the others go on after its start."""
    files = fail_run("10:00", 100, guilty=2)
    late = "ascend/log/{}/plog-300_20260301100010000.log"
    files[late.format("run/plog")] = "[INFO] GE(300,x):2026-03-01-10:00:11.1 started\n"
    diagnosis = of_files(files)
    assert (diagnosis.attempt, accuse(diagnosis)[0]) == ("", (2,))
    rows = fail_run("10:00", 100, guilty=2)
    late_run = {name: text.replace("10:00:12", "10:40:12") for name, text in rows.items()}
    late_run[late.format("debug/plog")] = "[INFO] GE(300,x):2026-03-01-10:30:11.1 started\n"
    assert of_files(late_run).attempt == ""


def test_a_newer_run_in_which_nothing_failed_is_named_and_not_judged() -> None:
    files = fail_run("10:00", 100, guilty=2)
    line = "[INFO] GE(300,x):2026-03-01-12:00:01.1 started\n"
    files["ascend/log/run/plog/plog-300_20260301120000000.log"] = line
    diagnosis = of_files(files)
    assert (accuse(diagnosis)[0], diagnosis.attempt) == ((2,), "plogs of run 1 of 2")
    assert diagnosis.verdict
    assert [(row.name, row.failure) for row in diagnosis.verdict.attempts] == [
        ("plogs of run 2 of 2", "")
    ]


def test_several_runs_in_one_file_are_told_apart() -> None:
    runs = [fail_run("10:00", 100, guilty=2), fail_run("11:00", 200, guilty=1)]
    whole = "".join(text for files in runs for name, text in files.items() if "/plog/" in name)
    diagnosis = of_files({"all-plogs.log": whole})
    assert accuse(diagnosis)[0] == (1,)
    assert diagnosis.attempt == "plogs of run 2 of 2"
    packed = of_files({"logs.zip": forms.zip_files({"all-plogs.log": whole})})
    assert accuse(packed)[0] == (1,)
    alone = "".join(text for name, text in runs[0].items() if "/plog/" in name)
    assert (of_files({"all.log": alone}).attempt, accuse(of_files({"all.log": alone}))[0]) == (
        "",
        (2,),
    )


def test_a_large_file_of_plog_lines_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "all.log"
    line = f"[INFO] HCCL(1,python3):{AT.format(minute=2)} [hccl_comm.cc:129] [1]all is well here\n"
    path.write_text(line * 250_000)
    tracemalloc.start()
    try:
        assert split_runs(find((str(path),))[0])[0][0] == ""
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 3
