"""Logs of injected faults, made of what torchrun and ranks print.

`faults.yaml` has the faults and what a scheduler should do about each; it was committed before the
first run on it.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ascend_doctor.diagnosis.result import JobVerdict
from ascend_doctor.machine.parsing import read_yaml
from tests.diagnosis.logs import of_files

TABLE = Path(__file__).with_name("faults.yaml")
DEVICES = 4
Action = Literal["restart", "exclude", "stop", "unknown"]

_STEP = (
    "[default0]: iteration {step:8d}/     100 | consumed samples: {samples:12d} | elapsed time per "
    "iteration (ms): 50.1 | lm loss: 1.600000E+00 |"
)
_WATCHDOG = (
    "[rank{rank}]:[E1123 09:01:59.000000000 ProcessGroupHCCL.cpp:7] [Rank {rank}] Watchdog caught"
    " collective operation timeout: WorkHCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=8000) ran for 8400 milliseconds before timing out."
)
_NOTIFY = (
    "[rank{rank}]: RuntimeError: EI0002: 2026-11-23-09:01:59.000.000 The wait execution of the "
    "Notify register times out. Reason: The Notify register has not received the Notify record from"
    " remote rank [4294967295]."
)
_CONNECT = (
    "[rank{rank}]: RuntimeError: EI0006: 2026-11-23-09:01:59.000.000 Getting socket times out. "
    "Reason: Remote Rank did not send the data in time. Please check the reason for the rank being "
    "stuck"
)
_GLOO = (
    "[rank{rank}]: RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:"
    "{how} This is typically caused by a remote worker {why} Check the logs of the remote worker "
    "before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}"
)
_RESET = ("537] Read error [127.0.0.1]:40000: Connection reset by peer.", "hanging or bugs.")
_CLOSED = ("553] Connection closed by peer [127.0.0.1]:40000.", "crashing.")
# torch_npu/csrc/distributed/TraceUtils.h: dumpSnapshot and what it calls.
_REPORT = """[rank{rank}]:[E1123 09:02:00.000000000 ProcessGroupHCCL.cpp:7] \
Timeout at collective: ALLREDUCE, #7
[rank{rank}]:\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the \
desync are:
[rank{rank}]:\t   - [{late}] finished collective #6, but didn't join collective #7 (count from 1)
[rank{rank}]:\t - Snapshot of ranks' latest states:
[rank{rank}]:\t   #6 finished ranks:
[rank{rank}]:\t     [{late}] finished ALLREDUCE
[rank{rank}]:\t   #7 started ranks:
[rank{rank}]:\t     [{others}] started ALLREDUCE"""
_FIRST = (
    "E1123 09:02:01.674000 77{node} torch/distributed/elastic/multiprocessing/api.py:1002] failed "
    "(exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python3"
)
_ENDED = """  time      : 2026-11-23_09:02:01
  host      : node-{node}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: {pid}) {signal}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"""
_SIGNALS = {-2: "SIGINT", -6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}
_RULE = "-" * 60


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row; ``rank`` of None: no rank is at fault. ``beside``: other files of the folder."""

    id: str
    fault: str
    nodes: Annotated[int, msgspec.Meta(ge=1)]
    verdict: Action
    exclude: tuple[str, ...] = ()
    rank: int | None = None
    says: tuple[str, ...] = ()
    others: Literal["watchdog", "report", "notify", "connect", "reset", "closed", ""] = ""
    ends: int
    beside: dict[str, str] = {}
    source: str = ""


class FaultHistory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attempts of one job, each a fault at its step; what to do after the last."""

    id: str
    attempts: tuple[str, ...]
    steps: tuple[int, ...]
    verdict: Action
    exclude: tuple[str, ...] = ()


class FaultTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pool: tuple[InjectedFault, ...]
    more: tuple[InjectedFault, ...]
    history: tuple[FaultHistory, ...]


def load() -> FaultTable:
    return msgspec.convert(read_yaml(TABLE), FaultTable)


def compose(fault: InjectedFault, *, step: int = 5) -> dict[str, str]:
    """A file a node, of a run that the fault ended after a step."""
    files = {
        f"node-{node}/train.log": "\n".join(_compose_node(fault, node, step)) + "\n"
        for node in range(fault.nodes)
    }
    return {**files, **{name: f"{text}\n" for name, text in fault.beside.items()}}


def _compose_node(fault: InjectedFault, node: int, step: int) -> Iterator[str]:
    ranks = range(node * DEVICES, (node + 1) * DEVICES)
    for number in range(1, step) if node == 0 else ():
        yield _STEP.format(step=number, samples=number * 8)
    if not fault.ends:
        return
    if fault.rank is not None and fault.rank in ranks:
        local = fault.rank % DEVICES
        yield from (f"[default{local}]:{line}" for line in fault.says)
    waiting = [rank for rank in ranks if rank != fault.rank]
    speaking = list(_speakers(fault, waiting))
    for rank in speaking:
        yield from (f"[default{rank % DEVICES}]:{line}" for line in _wait(fault, rank))
    yield from _summary(_endings(fault, ranks, speaking), node)


def _speakers(fault: InjectedFault, waiting: list[int]) -> Iterator[int]:
    """Who reports its wait before torchrun ends the node's ranks: all or the first."""
    if fault.others:
        yield from waiting if fault.others in {"notify", "connect"} else waiting[:1]


def _wait(fault: InjectedFault, rank: int) -> Iterator[str]:
    shapes: Mapping[str, Callable[[], str]] = {
        "notify": lambda: _NOTIFY.format(rank=rank),
        "connect": lambda: _CONNECT.format(rank=rank),
        "reset": lambda: _GLOO.format(rank=rank, how=_RESET[0], why=_RESET[1]),
        "closed": lambda: _GLOO.format(rank=rank, how=_CLOSED[0], why=_CLOSED[1]),
    }
    if fault.others in shapes:
        yield shapes[fault.others]()
        return
    yield _WATCHDOG.format(rank=rank)
    if fault.others == "report":
        everyone = range(fault.nodes * DEVICES)
        others = ", ".join(str(other) for other in everyone if other != fault.rank)
        yield from _REPORT.format(rank=rank, late=fault.rank, others=others).split("\n")


def _endings(fault: InjectedFault, ranks: range, speaking: list[int]) -> dict[int, int]:
    """Exit codes of a node's ranks, the one first that its torchrun saw fail."""
    aborted = -6 if fault.others in {"watchdog", "report"} else 1
    codes = {rank: aborted if rank in speaking else -15 for rank in ranks}
    at_once = fault.rank in ranks and (fault.says or fault.ends not in {-15, -9})
    killed = fault.rank in ranks and fault.others in {"reset", "closed", ""}
    if fault.rank is not None and fault.rank in ranks:
        codes[fault.rank] = fault.ends
    first = fault.rank if at_once or killed else next(iter(speaking), ranks[0])
    if fault.rank in ranks and fault.ends == -9 and fault.others == "notify":
        first = fault.rank
    return {rank: codes[rank] for rank in sorted(ranks, key=lambda rank: rank != first)}


def _summary(codes: Mapping[int, int], node: int) -> Iterator[str]:
    first, *others = codes

    def describe(rank: int) -> str:
        signal = f" ({_SIGNALS[codes[rank]]})" if codes[rank] in _SIGNALS else ""
        return _ENDED.format(
            node=node,
            rank=rank,
            local=rank % DEVICES,
            code=codes[rank],
            pid=1117 + rank,
            signal=signal,
        )

    yield _FIRST.format(node=node, code=codes[first], local=first % DEVICES, pid=1117 + first)
    yield "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    yield from ("=" * 60, "fault.py FAILED", _RULE, "Failures:")
    for number, rank in enumerate(others, 1):
        yield from (f"[{number}]:", describe(rank))
    yield from (_RULE, "Root Cause (first observed failure):", "[0]:", describe(first), "=" * 60)


def judge_history(history: FaultHistory) -> JobVerdict:
    """The verdict after the last attempt, with all in one folder."""
    table = load()
    faults = {fault.id: fault for fault in (*table.pool, *table.more)}
    files = {}
    for number, (name, step) in enumerate(zip(history.attempts, history.steps, strict=True)):
        for path, text in compose(faults[name], step=step).items():
            files[f"restart-{number}/{path}"] = text
    verdict = of_files(files).verdict
    assert verdict
    return verdict


def judge(fault: InjectedFault) -> JobVerdict:
    verdict = of_files(compose(fault)).verdict
    assert verdict
    return verdict
