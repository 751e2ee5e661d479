"""Nodes whose clocks differ: the wrong one is never first."""

from tests.diagnosis.logs import guilty_of, of_files
from tests.diagnosis.test_plogs import WORLD, run

OOM = "RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60.97 GiB total capacity"
SLOW = (
    "EI0002: {at} The wait execution of the Notify register times out. Reason: The Notify register "
    "has not received the Notify record from remote rank [unknown]."
)


def at(minutes: float, ahead: float) -> str:
    total = round((10 * 60 + minutes + ahead) * 60)
    return f"2026-03-01-{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}.000.000"


def join_line(rank: int, when: str) -> str:
    return (
        f"[INFO] HCCL({100 + rank},python3):{when} [op_base.cc:489][1][HCCL_TRACE]"
        f"HcclCommInitRootInfo success,take time [1000000]us, rankNum[4], rank[{rank}],rootInfo "
        f"identifier[{WORLD}], server[192.0.2.{rank // 2}%eth0], logicDevId[{rank % 2}]\n"
    )


def meeting_line(when: str) -> str:
    day, clock = when[5:10].replace("-", ""), when[11:19]
    return f"I{day} {clock}.000000 77 torch/x.py:525] [default] Rendezvous complete for workers.\n"


def job(
    minutes: dict[int, float], ahead: float, *, words: dict[int, str] | None = None,
    shared: bool = True,
) -> dict[str, str | bytes]:  # fmt: skip
    """Four ranks on two nodes; the second node's clock is ``ahead`` minutes."""
    files: dict[str, str | bytes] = {}
    for rank, minute in minutes.items():
        node, card = divmod(rank, 2)
        off = ahead * node
        name = f"plog-{100 + rank}_20260301100000000.log"
        start = run(rank, 4, server=node, card=card).replace("2026-03-01-10:00", at(0, off)[:16])
        text = (words or {}).get(rank, SLOW).format(at=at(minute, off))
        files[f"node-{node}/log/run/plog/{name}"] = start + (join_line(rank, at(0, off)) * shared)
        files[f"node-{node}/log/debug/plog/{name}"] = (
            f"[ERROR] HCCL({100 + rank},python3):{at(minute, off)} [x.cc:1] [1]{text}\n"
        )
    return files


def test_a_clock_that_is_ahead_makes_no_rank_the_last() -> None:
    everybody = dict.fromkeys(range(4), 31.0)
    for shared in (True, False):
        for ahead in (5, -5, 480):
            assert of_files(job(everybody, ahead, shared=shared)).guilty is None


def test_a_rank_that_came_late_is_told_whatever_the_clocks() -> None:
    late = {0: 31.0, 1: 36.0, 2: 31.0, 3: 31.0}
    for ahead in (0, 5, -5, 480):
        diagnosis = of_files(job(late, ahead))
        assert guilty_of(diagnosis).ranks == (1,), ahead
        assert "300 s apart" in guilty_of(diagnosis).reason
    # Its own node says so, even without events that both nodes saw.
    alone = of_files(job({0: 31.0, 1: 31.0, 2: 31.0, 3: 36.0}, 5, shared=False))
    assert guilty_of(alone).ranks == (3,)


def failures(ahead: float, *, shared: bool) -> dict[str, str | bytes]:
    """Rank 0 fails a minute before rank 3, in another way."""
    core = "[PrintErrorInfo]Aicore kernel execute failed, device_id=1, stream_id=3, task_id=5"
    return job({0: 10.0, 1: 31.0, 2: 31.0, 3: 11.0}, ahead, words={0: OOM, 3: core}, shared=shared)


def test_the_first_failure_is_the_first_by_clocks_that_are_put_right() -> None:
    for ahead in (0, 5, -5, 480, -480):
        diagnosis = of_files(failures(ahead, shared=True))
        assert (diagnosis.causes[0].id, guilty_of(diagnosis).ranks) == ("npu-oom-torch", (0,)), (
            ahead
        )
        assert ("clocks differ" in guilty_of(diagnosis).reason) is (ahead != 0)


def test_nodes_of_another_time_accuse_nobody() -> None:
    for ahead in (480, -480):
        diagnosis = of_files(failures(ahead, shared=False))
        assert diagnosis.guilty is None
        assert "which node was first could not be told" in diagnosis.undecided


def test_torchrun_s_store_compares_clocks() -> None:
    def node(number: int, rank: int, text: str, ahead: float) -> dict[str, str | bytes]:
        off = ahead * number
        return {f"node-{number}/train.log": f"{meeting_line(at(0, off))}[rank{rank}]: step\n"
                f"{at(10 + number, off)} [rank{rank}]: x\n[rank{rank}]: {text}\n"}  # fmt: skip

    core = "Aicore kernel execute failed, device_id=1, stream_id=3, task_id=5"
    for ahead in (0, 5, -5, 480):
        diagnosis = of_files({**node(0, 0, OOM, ahead), **node(1, 1, core, ahead)})
        assert (diagnosis.causes[0].id, guilty_of(diagnosis).ranks) == ("npu-oom-torch", (0,)), (
            ahead
        )
