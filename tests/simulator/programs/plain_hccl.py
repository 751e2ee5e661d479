"""HCCL without torch: ranks are forked processes that call libhccl.so, for the sanitizers.

usage: plain_hccl.py RANKS
"""
# ruff: noqa: T201 - the test reads what it prints

from __future__ import annotations

import array
import ctypes
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection

RANKS = int(sys.argv[1])
INT32, FLOAT, BF16 = 2, 4, 11
P, U64 = ctypes.c_void_p, ctypes.c_uint64


def rank_main(  # noqa: PLR0915 - one operation after the other
    rank: int, receivers: list[Connection], senders: list[Connection]
) -> None:
    acl = ctypes.CDLL("libascendcl.so")
    hccl = ctypes.CDLL("libhccl.so")

    def call(name: str, *arguments: object) -> None:
        code = getattr(hccl, name)(*arguments)
        assert code == 0, (rank, name, code)

    acl.aclrtSetDevice(rank)
    root = ctypes.create_string_buffer(4108)
    if rank == 0:
        call("HcclGetRootInfo", root)
        for sender in senders:
            sender.send(root.raw)
    else:
        root.raw = receivers[rank - 1].recv()
    comm, stream = P(), P()
    assert acl.aclrtCreateStream(ctypes.byref(stream)) == 0
    call("HcclCommInitRootInfo", RANKS, root, rank, ctypes.byref(comm))

    def wait() -> None:
        code = acl.aclrtSynchronizeStream(stream)
        assert code == 0, (rank, code)

    def ints(values: list[int]) -> array.array[int]:
        return array.array("i", values)

    def at(data: array.array[int] | array.array[float], element: int = 0) -> ctypes.c_void_p:
        return P(data.buffer_info()[0] + element * data.itemsize)

    everyone = range(RANKS)

    def counts(values: list[int]) -> ctypes.Array[ctypes.c_uint64]:
        return (ctypes.c_uint64 * RANKS)(*values)

    large = 3 << 20  # elements: more than one exchange
    data = array.array("f", [rank + 1]) * large
    call("HcclAllReduce", at(data), at(data), U64(large), FLOAT, 0, comm, stream)
    wait()
    assert set(data) == {sum(everyone) + RANKS}

    half = array.array("H", [0x3F80]) * 1001  # ones
    call("HcclAllReduce", at(half), at(half), U64(1001), BF16, 0, comm, stream)
    wait()
    assert set(half) == {ctypes.c_uint32.from_buffer(ctypes.c_float(RANKS)).value >> 16}

    sizes = [7 * peer for peer in everyone]
    offsets = [sum(sizes[:peer]) for peer in everyone]
    got = ints([-1] * sum(sizes))
    mine = ints([rank] * sizes[rank] or [0])
    call(
        "HcclAllGatherV", at(mine), U64(sizes[rank]), at(got), counts(sizes), counts(offsets),
        INT32, comm, stream,
    )  # fmt: skip
    wait()
    assert list(got) == [peer for peer in everyone for _ in range(sizes[peer])]

    pieces = ints([rank * peer for peer in everyone for _ in range(sizes[peer])])
    got = ints([-1] * max(1, sizes[rank]))
    call(
        "HcclReduceScatterV", at(pieces), counts(sizes), counts(offsets), at(got),
        U64(sizes[rank]), INT32, 0, comm, stream,
    )  # fmt: skip
    wait()
    assert list(got)[: sizes[rank]] == [rank * sum(everyone)] * sizes[rank]

    matrix = (U64 * (RANKS * RANKS))(*(peer + other for peer in everyone for other in everyone))
    sent = ints([rank * 100 + peer for peer in everyone for _ in range(rank + peer)])
    got = ints([-1] * max(1, sum(peer + rank for peer in everyone)))
    call("HcclAlltoAllVC", at(sent), matrix, INT32, at(got), INT32, comm, stream)
    wait()
    assert list(got) == [peer * 100 + rank for peer in everyone for _ in range(peer + rank)] or (
        RANKS == 1
    )

    got = ints([-1] * 3)
    pieces = ints([peer for peer in everyone for _ in range(3)])
    call("HcclScatter", at(pieces), at(got), U64(3), INT32, RANKS - 1, comm, stream)
    call("HcclBroadcast", at(got), U64(3), INT32, 0, comm, stream)
    wait()
    assert list(got) == [0, 0, 0]

    whole = ints([0] * (3 * RANKS))
    triple = ints([rank] * 3)
    call("HcclAllGather", at(triple), at(whole), U64(3), INT32, comm, stream)
    call("HcclBarrier", comm, stream)
    wait()
    assert list(whole) == [peer for peer in everyone for _ in range(3)]

    if RANKS > 1:  # a ring of messages larger than the mailbox, in one group
        big = 1 << 18
        out, back = ints([rank] * big), ints([-1] * big)
        call("HcclGroupStart")
        call("HcclSend", at(out), U64(big), INT32, (rank + 1) % RANKS, comm, stream)
        call("HcclRecv", at(back), U64(big), INT32, (rank - 1) % RANKS, comm, stream)
        call("HcclGroupEnd")
        wait()
        assert set(back) == {(rank - 1) % RANKS}

    members = [peer for peer in everyone if peer % 2 == rank % 2]
    part = P()
    call(
        "HcclCreateSubCommConfig", ctypes.byref(comm), len(members),
        (ctypes.c_uint32 * len(members))(*members), U64(5), members.index(rank), None,
        ctypes.byref(part),
    )  # fmt: skip
    own = ints([rank])
    call("HcclAllReduce", at(own), at(own), U64(1), INT32, 2, part, stream)
    wait()
    assert own[0] == max(members)
    call("HcclCommDestroy", part)
    call("HcclCommDestroy", comm)


if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe(duplex=False) for _ in range(RANKS - 1)]
    ends = [receiver for receiver, _ in pipes], [sender for _, sender in pipes]
    ranks = [fork.Process(target=rank_main, args=(rank, *ends)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    bad = [process.exitcode for process in ranks if process.exitcode]
    print("ok" if not bad else f"exit codes {bad}", flush=True)
    os._exit(bool(bad))
