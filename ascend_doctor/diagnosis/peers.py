"""What lines say of other processes: HCCL, torch_npu's watchdog and torchrun."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from ascend_doctor.diagnosis.ledger import Ended, Ledger, LogLine, WatchdogReport
from ascend_doctor.diagnosis.origins import Origin
from ascend_doctor.diagnosis.processes import HcclPeer
from ascend_doctor.diagnosis.waiting import Wait, WaitKind
from ascend_doctor.patterns import compile_beside

_IS = compile_beside(__file__)

_MET = "Rendezvous complete for workers"
_ROOT = "Root Cause (first observed failure)"
_PAIRED = frozenset({"SEND", "RECV"})


def _name_link(match: re.Match[str], text: str) -> tuple[int | None, HcclPeer]:
    to, tag = _IS["linkto"].search(text), _IS["linktag"].search(text)
    card = to and to[2]
    return int(match[1]), HcclPeer(
        address="" if card or not to else to[1],
        server=to[1] if to and card else "",
        device=int(card) if card else None,
        rank=int(match[2]),
        group=tag[1] if tag else "",
    )


def _name_remote(match: re.Match[str], text: str) -> tuple[int | None, HcclPeer]:
    member = _IS["member"].search(text)
    group = (member[1] or "") if member else ""
    own = member[2] if member else (local[1] if (local := _IS["own"].search(text)) else None)
    return None if own is None else int(own), HcclPeer(rank=int(match[1]), group=group)


# The waiter's own rank where the line counts, and whom it waits for.
_Namer = Callable[[re.Match[str], str], tuple[int | None, HcclPeer]]
_WAITS: tuple[tuple[re.Pattern[str], _Namer], ...] = (
    (_IS["link"], _name_link),
    (_IS["notify"], lambda match, _: (int(match[1]), HcclPeer(rank=int(match[2])))),
    (
        _IS["table"],
        lambda match, _: (int(match[4]), HcclPeer(address=match[1], rank=int(match[2]))),
    ),
    (_IS["remote"], _name_remote),
    (_IS["cards"], lambda match, _: (None, HcclPeer(device=int(match[1] or match[2])))),
    (_IS["broken"], lambda match, _: (None, HcclPeer(address=match[1]))),
)
_KINDS: dict[re.Pattern[str], WaitKind] = {
    _IS["notify"]: "task",
    _IS["remote"]: "task",
    _IS["broken"]: "broken",
}


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
            if match := _IS["worker"].search(row.text):
                self._worker(address=match[1], pid=match[2], rank=int(match[3]))
            if match := _IS["joined"].search(row.text):
                self._together(f"group {match[1]}", row)
        if "elastic" in signs:
            self._elastic(row.text, before, row)
        if "waited" in signs:
            self._watchdog(row.text, row)
        if "world" in signs and (match := _IS["world"].search(row.text)):
            self.ledger.world_size = int(match[1])

    def _links(self, text: str, row: LogLine) -> None:
        if match := _IS["task"].search(text):
            self._group = match[1]
        wait = self._wait(text, row)
        if wait:
            self._last = wait
            self.ledger.waiting.add(wait)
        elif match := _IS["operation"].search(text) or _IS["member"].search(text):
            self._name_group(match[1] or "", int(match[2]) if match.re is _IS["member"] else None)
        if match := _IS["lost"].search(text):
            self.ledger.lose(match[1] or f"{match[2]}/{match[3]}", row)

    def _name_group(self, group: str, own: int | None) -> None:
        old, self._last = self._last, None
        if old and old.peer.rank is not None:
            peer = replace(old.peer, group=group or old.peer.group)
            own = old.own if own is None else own
            self.ledger.waiting.replace(old, replace(old, peer=peer, own=own))

    def _wait(self, text: str, row: LogLine) -> Wait | None:
        if match := _IS["settingup"].search(text):
            # The number counts in the group: if not the job's rank, the peer's is unknown too.
            if row.origin.rank not in {None, int(match[1])}:
                return None
            return Wait(waiter=row.origin, own=int(match[1]), peer=HcclPeer(rank=int(match[2])))
        for shape, name in _WAITS:
            if match := shape.search(text):
                own, peer = name(match, text)
                if peer.rank is not None and not peer.group and shape is _IS["remote"]:
                    peer = replace(peer, group=self._group)
                kind = _KINDS.get(shape, "socket")
                return Wait(waiter=row.origin, own=own, peer=peer, kind=kind)
        return None

    def _watchdog(self, text: str, row: LogLine) -> None:
        if match := _IS["waited"].search(text):
            self.ledger.waited(row, group_rank=int(match[1]), operation=match[2])
        elif _IS["begins"].search(text):
            self._reports[row.origin] = self.ledger.report()
        elif (match := _IS["named"].search(text)) and row.origin in self._reports:
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
        elif match := _IS["ranks"].search(text):
            self.ledger.places.pair(row.writer, rank=int(match[1]), local=0)
        elif match := _IS["first"].search(text):
            self.ledger.launcher, self.ledger.binary = match[1] or "", match[4] or ""
            self.ledger.first_ended(int(match[3]), int(match[2]), row)
        elif match := _IS["global"].search(text):
            self._rank = int(match[1])
            host, time = _IS["host"].search(before), _IS["time"].search(before)
            ended = Ended(
                rank=self._rank,
                node=host[1] if host else "",
                sighting=row.sighting,
                first=self._root,
                time=time[1] if time else "",
            )
            self.ledger.ends(ended, int(match[2]), row)
        elif (match := _IS["exit"].search(text)) and self._rank is not None:
            self.ledger.exits(self._rank, int(match[1]))
            self._rank = None
