"""What lines say of other processes: HCCL, torch_npu's watchdog and torchrun."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from ascend_doctor.diagnosis.ledger import Ended, Ledger, LogLine, WatchdogReport
from ascend_doctor.diagnosis.origins import Origin
from ascend_doctor.diagnosis.processes import HcclPeer
from ascend_doctor.diagnosis.waiting import Wait, WaitKind

# hicann/hccl: docs/zh/user_guide/fault_diagnosis/{cluster_info_nego,param_link_stage,
# task_exec_stage}.md
# What links two processes; its remote address may be that of a server, with the card on it.
_LINK = re.compile(r"localUserrank\[(\d{1,6})\].{0,200}?remoteUserrank\[(\d{1,6})\]")
_LINK_TO = re.compile(r"remote_?[Ii]p_?[Aa]ddr\[([\w.:]{1,64}?)(?:/(\d{1,4}))?\]")
_LINK_TAG = re.compile(r"\btag\[([^\]]{1,200})\]")
_REMOTE = re.compile(r"[Rr]emote rank:? ?\[(\d{1,6})\]")
_OWN = re.compile(r"\blocal rank:? ?\[(\d{1,6})\]")
# Ranks of such a line count in its group; this is the process's own.
_MEMBER = re.compile(r"(?:\bgroup:\[([^\]]{1,200})\], )?\brankSize\[\d{1,6}\], rankId\[(\d{1,6})\b")
# CANN 6 wrote it in the message of EI0002 (mindspore-ai/docs: cann_error_cases.md).
_LOST = re.compile(
    r"Cluster Exception Location\[IP/ID\]:\[([^\]\s]{1,80})\]|"
    r"serverId\[([^\]\s]{1,80})\], deviceId\[(\d{1,4})\], Heartbeat Lost Occurred"
)
# Lines of plogs in Ascend/mind-cluster (component/ascend-faultdiag/test): links by address and
# rank, cards of one server, broken links, a rank's task, what the device's scheduler waited for.
_PARTY = r"\s+([\w.:]{1,64})\((\d{1,6})\)\s+\|(?:\s+\d+\s+\|)?"
_TABLE = re.compile(rf"\|{_PARTY}{_PARTY}\s+(?:client|server)\s+\|\s+(?:no connect|time out)")
_CARDS = re.compile(
    r"src devicePhyId\[\d{1,4}\], dst devicePhyId\[(\d{1,4})\]|remote physic id: ?(\d{1,4})\b"
)
_BROKEN = re.compile(
    r"cqe err(?:or)? status\[\d{1,4}\].{0,400}?"
    r"(?:remoteIP\{.{0,200}?deviceIp\[|remoteIP:\[|remoteEid\[eid\[|ip:\[)([\w.:]{1,64})\]"
)
_TASK = re.compile(r"taskType\[Notify Wait\], tag\[\w+?_([^\]]{1,200})\]")
# torch_npu/csrc/distributed/ProcessGroupHCCL.cpp: ranks count in the group that is set up.
_SETTING_UP = re.compile(r"\[(\d{1,6})\] is setting up HCCL communicator .{0,80}from \[(\d{1,6})\]")
_NOTIFY = re.compile(r"type:NOTIFY WAIT, localRank:(\d{1,6}), remoteRank:(\d{1,10})\b")
_OPERATION = re.compile(r"opData information is .{0,200}?\bgroup:([^,\s]{1,200}),")

# torch/distributed/elastic/multiprocessing/errors/__init__.py prints every failed process so, the
# first one under its own heading. api.py names that one before, by its rank on the node.
_HOST = re.compile(r"\bhost +: (\S{1,128})")
_TIME = re.compile(r"\btime +: (\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)")
_GLOBAL = re.compile(r"\brank +: (\d{1,6}) \(local_rank: (\d{1,6})\)")
# torch/distributed/elastic/agent/server/api.py, where the agent logs at INFO.
_RANKS = re.compile(r"\bglobal_ranks=\[(\d{1,6})(?:, |\])")
# What Ray Train's driver says of its workers (ray/train/_internal/backend_executor.py).
_WORKER = re.compile(r"\bip=([\w.:]{1,64}), pid=(\d{1,12})\) world_rank=(\d{1,6}), ")
_EXIT = re.compile(r"\bexitcode +: (-?\d{1,6})")
_FIRST = re.compile(r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6})")
_MET = "Rendezvous complete for workers"
# The last line of a negotiation, as in the fixtures of Ascend/mind-cluster.
_JOINED = re.compile(r"HcclCommInitRootInfo success\b.{0,200}?identifier\[([^\]]{1,200})\]")
_ROOT = "Root Cause (first observed failure)"
# torch_npu/csrc/distributed/ProcessGroupHCCL.cpp; the rank counts in the group.
_WAITED = re.compile(
    r"\[Rank (\d{1,6})\] Watchdog caught collective operation timeout: WorkHCCL\("
    r"(SeqNum=\d+, OpType=\w+, NumelIn=\d+)"
)
# torch_npu/csrc/distributed/TraceUtils.h, with TORCH_HCCL_DESYNC_DEBUG=1; ranks count in the group.
_BEGINS = re.compile(r"Timeout at collective: ")
_NAMED = re.compile(
    r"\[([\d, ]{1,65536})\] (?:(?P<late>finished collective #\d+, but didn't join|are the lagging)|"
    r"(?P<busy>joined but didn't finish)|(?:started|finished) (?P<operation>[A-Z_]+)$)"
)
_PAIRED = frozenset({"SEND", "RECV"})
# Megatron prints it first: "using world size: 8, data-parallel size: ..." (arguments.py).
_WORLD = re.compile(r"using world size: (\d{1,6})")


def _name_link(match: re.Match[str], text: str) -> tuple[int | None, HcclPeer]:
    to, tag = _LINK_TO.search(text), _LINK_TAG.search(text)
    card = to and to[2]
    return int(match[1]), HcclPeer(
        address="" if card or not to else to[1],
        server=to[1] if to and card else "",
        device=int(card) if card else None,
        rank=int(match[2]),
        group=tag[1] if tag else "",
    )


def _name_remote(match: re.Match[str], text: str) -> tuple[int | None, HcclPeer]:
    member = _MEMBER.search(text)
    group = (member[1] or "") if member else ""
    own = member[2] if member else (local[1] if (local := _OWN.search(text)) else None)
    return None if own is None else int(own), HcclPeer(rank=int(match[1]), group=group)


# The waiter's own rank where the line counts, and whom it waits for.
_Namer = Callable[[re.Match[str], str], tuple[int | None, HcclPeer]]
_WAITS: tuple[tuple[re.Pattern[str], _Namer], ...] = (
    (_LINK, _name_link),
    (_NOTIFY, lambda match, _: (int(match[1]), HcclPeer(rank=int(match[2])))),
    (_TABLE, lambda match, _: (int(match[4]), HcclPeer(address=match[1], rank=int(match[2])))),
    (_REMOTE, _name_remote),
    (_CARDS, lambda match, _: (None, HcclPeer(device=int(match[1] or match[2])))),
    (_BROKEN, lambda match, _: (None, HcclPeer(address=match[1]))),
)
_KINDS: dict[re.Pattern[str], WaitKind] = {_NOTIFY: "task", _REMOTE: "task", _BROKEN: "broken"}


@dataclass
class Peers:
    """Reads one log's lines about others into the ledger."""

    ledger: Ledger
    _root: bool = field(default=False, init=False)
    _rank: int | None = field(default=None, init=False)
    _group: str = field(default="", init=False)
    _last: Wait | None = field(default=None, init=False)
    _reports: dict[Origin, WatchdogReport] = field(default_factory=dict, init=False)

    def line(self, signs: Collection[str], row: LogLine, before: str) -> None:
        if "links" in signs:
            self.ledger.links.learn(row)
        if "peers" in signs:
            self._links(row.text, row)
        if "agent" in signs:
            self.ledger.processes.learn(row.writer, row.text)
            if match := _WORKER.search(row.text):
                self._worker(address=match[1], pid=match[2], rank=int(match[3]))
            if match := _JOINED.search(row.text):
                self._together(f"group {match[1]}", row)
        if "elastic" in signs:
            self._elastic(row.text, before, row)
        if "waited" in signs:
            self._watchdog(row.text, row)
        if "world" in signs and (match := _WORLD.search(row.text)):
            self.ledger.world_size = int(match[1])

    def _links(self, text: str, row: LogLine) -> None:
        if match := _TASK.search(text):
            self._group = match[1]
        wait = self._wait(text, row)
        if wait:
            self._last = wait
            self.ledger.waiting.add(wait)
        elif match := _OPERATION.search(text) or _MEMBER.search(text):
            self._name_group(match[1] or "", int(match[2]) if match.re is _MEMBER else None)
        if match := _LOST.search(text):
            self.ledger.lose(match[1] or f"{match[2]}/{match[3]}", row)

    def _name_group(self, group: str, own: int | None) -> None:
        old, self._last = self._last, None
        if old and old.peer.rank is not None:
            peer = replace(old.peer, group=group or old.peer.group)
            own = old.own if own is None else own
            self.ledger.waiting.replace(old, replace(old, peer=peer, own=own))

    def _wait(self, text: str, row: LogLine) -> Wait | None:
        if match := _SETTING_UP.search(text):
            # The number counts in the group: if not the job's rank, the peer's is unknown too.
            if row.origin.rank not in {None, int(match[1])}:
                return None
            return Wait(waiter=row.origin, own=int(match[1]), peer=HcclPeer(rank=int(match[2])))
        for shape, name in _WAITS:
            if match := shape.search(text):
                own, peer = name(match, text)
                if peer.rank is not None and not peer.group and shape is _REMOTE:
                    peer = replace(peer, group=self._group)
                kind = _KINDS.get(shape, "socket")
                return Wait(waiter=row.origin, own=own, peer=peer, kind=kind)
        return None

    def _watchdog(self, text: str, row: LogLine) -> None:
        if match := _WAITED.search(text):
            self.ledger.waited(row, group_rank=int(match[1]), operation=match[2])
        elif _BEGINS.search(text):
            self._reports[row.origin] = self.ledger.report()
        elif (match := _NAMED.search(text)) and row.origin in self._reports:
            ranks = {int(digits) for digits in re.findall(r"\d{1,6}", match[1])}
            report = self._reports[row.origin]
            report.members |= ranks
            report.late |= ranks if match["late"] else set()
            report.busy |= ranks if match["busy"] else set()
            report.paired |= ranks if match["operation"] in _PAIRED else set()

    def _together(self, event: str, row: LogLine) -> None:
        """What all nodes do at once: negotiate a group, and meet in torchrun's store."""
        moment, node = row.sighting.moment, row.origin.node
        if moment and event:
            self.ledger.clocks.note(event, node, moment.seconds)
        elif moment:
            self.ledger.clocks.count(_MET, node, moment.seconds)

    def _worker(self, *, address: str, pid: str, rank: int) -> None:
        for node in (address, ""):
            self.ledger.places.add(Origin(rank=rank, node=node, process=f"pid={pid}"))

    def _elastic(self, text: str, before: str, row: LogLine) -> None:
        if _ROOT in text:
            self._root = True
        elif _MET in text:
            self._together("", row)
        elif match := _RANKS.search(text):
            self.ledger.places.pair(row.writer, rank=int(match[1]), local=0)
        elif match := _FIRST.search(text):
            self.ledger.first_ended(int(match[2]), int(match[1]), row)
        elif match := _GLOBAL.search(text):
            self._rank = int(match[1])
            host, time = _HOST.search(before), _TIME.search(before)
            ended = Ended(
                rank=self._rank,
                node=host[1] if host else "",
                sighting=row.sighting,
                first=self._root,
                time=time[1] if time else "",
            )
            self.ledger.ends(ended, int(match[2]), row)
        elif (match := _EXIT.search(text)) and self._rank is not None:
            self.ledger.exits(self._rank, int(match[1]))
            self._rank = None
