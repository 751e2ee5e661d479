"""What lines say of other processes: HCCL, torch_npu's watchdog and torchrun."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.ledger import Ledger, LogLine, WatchdogReport
from ascend_doctor.diagnosis.origins import Origin

# hicann/hccl: docs/zh/user_guide/fault_diagnosis/{cluster_info_nego,param_link_stage,
# task_exec_stage}.md
_ABSENT = re.compile(r"Failed to connect agent\[([\d, ]{1,4096})\]")
_LINK = re.compile(r"localUserrank\[(\d{1,6})\].{0,200}?remoteUserrank\[(\d{1,6})\]")
_REMOTE = re.compile(r"[Rr]emote rank:? ?\[(\d{1,6})\]")
# Ranks of such a line count in its group; this is the process's own.
_MEMBER = re.compile(r"\brankSize\[\d{1,6}\], rankId\[(\d{1,6})\b")
_LOST = re.compile(r"Cluster Exception Location\[IP/ID\]:\[([^\]\s]{1,80})\]")
# The lines of plogs, as the fixtures of Ascend/mind-cluster have them
# (component/ascend-faultdiag/test): who is who, links by address and rank, ports of one server, the
# task in which a rank stood, and what the scheduler on the device waited for.
_AGENT = re.compile(
    r"SetupAgent rankNum\[(\d{1,6})\], rank\[(\d{1,6})\].{0,300}?phydevId\[(\d{1,4})\]"
)
_SIZE = re.compile(r"\brankNum\[(\d{1,6})\]")
_TABLE = re.compile(
    r"\|\s+[\w.:]+\((\d{1,6})\)\s+\|(?:\s+\d+\s+\|)?\s+[\w.:]+\((\d{1,6})\)\s+\|(?:\s+\d+\s+\|)?"
    r"\s+(?:client|server)\s+\|"
)
_PORTS = re.compile(r"src devicePhyId\[(\d{1,4})\], dst devicePhyId\[(\d{1,4})\]")
_CONNECTED = re.compile(r"\[0*(\d{1,6})\]")
_TASK = re.compile(
    r"taskType\[Notify Wait\], tag\[(\w+?)_([^\]]{1,200})\](?:, index\[(\d{1,9})\])?"
)
# torch_npu/csrc/distributed/ProcessGroupHCCL.cpp: ranks count in the group that is set up.
_SETTING_UP = re.compile(r"\[(\d{1,6})\] is setting up HCCL communicator .{0,80}from \[(\d{1,6})\]")
_NOTIFY = re.compile(r"type:NOTIFY WAIT, localRank:(\d{1,6}), remoteRank:(\d{1,6})\b")

# torch/distributed/elastic/multiprocessing/errors/__init__.py prints every failed process so, the
# first one behind its own heading; api.py names that one before, by its rank on the node.
_HOST = re.compile(r"\bhost +: (\S{1,128})")
_GLOBAL = re.compile(r"\brank +: (\d{1,6}) \(local_rank: (\d{1,6})\)")
# torch/distributed/elastic/agent/server/api.py, where the agent logs at INFO.
_RANKS = re.compile(r"\bglobal_ranks=\[(\d{1,6})(?:, |\])")
_EXIT = re.compile(r"\bexitcode +: (-?\d{1,6})")
_FIRST = re.compile(r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,6})")
_ROOT = "Root Cause (first observed failure)"
# torch_npu/csrc/distributed/ProcessGroupHCCL.cpp; its number is that of the rank in the group.
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
_WORLD = re.compile(r"using world size: (\d{1,6})")


@dataclass
class Peers:
    """Reads one log's lines about others into the ledger."""

    ledger: Ledger
    _root: bool = field(default=False, init=False)
    _rank: int | None = field(default=None, init=False)
    _reports: dict[Origin, WatchdogReport] = field(default_factory=dict, init=False)

    def line(self, signs: Collection[str], row: LogLine, before: str) -> None:
        """One line with these signs; ``before`` is what stands in front of it."""
        if "peers" in signs:
            self._links(row.text, row)
        if "agent" in signs:
            self._agent(row.text, row)
        if "elastic" in signs:
            self._elastic(row.text, before, row)
        if "waited" in signs:
            self._watchdog(row.text, row)
        if "world" in signs and (match := _WORLD.search(row.text)):
            self.ledger.world_size = int(match[1])

    def _links(self, text: str, row: LogLine) -> None:
        if match := _ABSENT.search(text):
            self.ledger.absent |= {int(digits) for digits in re.findall(r"\d{1,6}", match[1])}
        if "connected rankinfo[" in text:
            self.ledger.connected |= {int(digits) for digits in _CONNECTED.findall(text)}
        if match := _LINK.search(text) or _NOTIFY.search(text):
            self.ledger.waits.add((int(match[1]), int(match[2])))
        elif match := _SETTING_UP.search(text):
            self._setting_up(int(match[1]), int(match[2]), row)
        elif match := _TABLE.search(text):
            self.ledger.waits.add((int(match[2]), int(match[1])))
        elif match := _REMOTE.search(text):
            member = _MEMBER.search(text)
            own = int(member[1]) if member else None
            self.ledger.waits_for(row.origin, int(match[1]), own=own)
        elif match := _PORTS.search(text):
            self.ledger.ports.add((row.origin.node, int(match[1]), int(match[2])))
        if match := _TASK.search(text):
            self.ledger.stood(row.origin, group=match[2], task=(match[1], match[3] or ""))
        if match := _LOST.search(text):
            self.ledger.lose(match[1], row)

    def _setting_up(self, rank: int, first: int, row: LogLine) -> None:
        if row.origin.rank in {None, rank}:
            self.ledger.waits.add((rank, first))

    def _agent(self, text: str, row: LogLine) -> None:
        if match := _AGENT.search(text):
            self.ledger.agent(
                row.origin, size=int(match[1]), rank=int(match[2]), device=int(match[3])
            )
        elif match := _SIZE.search(text):
            self.ledger.group_size = max(self.ledger.group_size, int(match[1]))

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

    def _elastic(self, text: str, before: str, row: LogLine) -> None:
        """What torchrun says of processes that ended."""
        if _ROOT in text:
            self._root = True
        elif match := _RANKS.search(text):
            self.ledger.places.pair(row.writer, rank=int(match[1]), local=0)
        elif match := _FIRST.search(text):
            self.ledger.first_ended(int(match[2]), int(match[1]), row)
        elif match := _GLOBAL.search(text):
            self._rank = int(match[1])
            host = _HOST.search(before)
            self.ledger.ends(
                self._rank, int(match[2]), row, node=host[1] if host else "", first=self._root
            )
        elif (match := _EXIT.search(text)) and self._rank is not None:
            self.ledger.exits(self._rank, int(match[1]))
            self._rank = None
