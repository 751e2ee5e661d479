"""Who is who among the processes of a job, as HCCL's own lines tell in brackets.

Forms: fixtures of Ascend/mind-cluster (component/ascend-faultdiag/test/st_*).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.origins import Origin
from ascend_doctor.diagnosis.places import pid_of

Key = tuple[str, str]

_FIELD = re.compile(r"(\w+) ?\[([^\[\]]{0,200})\]")
_LISTENS = re.compile(r"Listen on ip\[([\w.:]{1,64})\].{0,60}?devPhyId\[(\d{1,4})\]")
_SIZES = ("rankNum", "totalRanks", "nRanks", "ranks")
_PROCESSES = 4096
_MEMBERS = 1 << 16
_ADDRESSES = 1 << 16
# HCCL writes 4294967295 for an unknown rank.
NOBODY = 1 << 31


@dataclass(frozen=True, kw_only=True)
class HcclPeer:
    """A peer as HCCL names it: by address, by server and card, by a rank in a group."""

    address: str = ""
    server: str = ""
    device: int | None = None
    rank: int | None = None
    group: str = ""

    @property
    def name(self) -> str:
        if self.address:
            return self.address
        if self.device is not None:
            return f"{self.server}/{self.device}" if self.server else f"device {self.device}"
        return self.server or f"rank {self.rank} of group {self.group or '?'}"


@dataclass
class HcclProcess:
    """A process by its own lines; ``groups`` has its rank and the size of each."""

    key: Key
    server: str = ""
    device: int | None = None
    logical: int | None = None
    address: str = ""
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def card(self) -> int | None:
        return self.logical if self.device is None else self.device


@dataclass
class Processes:
    _known: dict[Key, HcclProcess] = field(default_factory=dict)
    _listening: dict[tuple[str, str], int] = field(default_factory=dict)
    _ranks: dict[Key, int] = field(default_factory=dict)
    _addresses: dict[str, HcclProcess] = field(default_factory=dict)
    _cards: dict[tuple[str, int], HcclProcess] = field(default_factory=dict)
    _members: dict[tuple[str, int], HcclProcess] = field(default_factory=dict)
    _hosts: dict[str, str] = field(default_factory=dict)
    _joined: int = 0
    world_size: int = 0

    def learn(self, origin: Origin, text: str) -> None:
        if match := _LISTENS.search(text):
            if len(self._listening) < _ADDRESSES:
                self._listening.setdefault((origin.node, match[1]), int(match[2]))
            return
        key = pid_of(origin)
        fields: dict[str, str] = {}
        for name, value in _FIELD.findall(text):
            fields.setdefault(name, value)
        size = next((number for name in _SIZES if (number := _number(fields.get(name)))), None)
        if key is None or not size or (key not in self._known and len(self._known) >= _PROCESSES):
            return
        process = self._known.setdefault(key, HcclProcess(key=key))
        rank = _number(fields.get("rank"))
        group = fields.get("identifier", "")
        if rank is not None and rank < size and self._joined < _MEMBERS:
            self._joined += group not in process.groups
            process.groups[group] = (rank, size)
        self._locate(process, fields)

    def _locate(self, process: HcclProcess, fields: Mapping[str, str]) -> None:
        server = (fields.get("server") or fields.get("serverId") or "").partition("%")[0]
        process.server = process.server or server
        if server:
            self._hosts[server] = process.key[0]
        physical = _first_number(fields, "phydevId", "devPhyId")
        logical = _first_number(fields, "logicDevId", "deviceLogicId", "device")
        process.device = physical if process.device is None else process.device
        process.logical = logical if process.logical is None else process.logical
        process.address = process.address or fields.get("deviceIp", "")

    def settle(self, world_size: int | None) -> None:
        """Find the ranks in the job: those in the largest group, if there is only one such."""
        sizes = [size for process in self._known.values() for _, size in process.groups.values()]
        largest = max(sizes, default=0)
        self.world_size = largest if world_size in {None, largest} else 0
        for process in self._known.values():
            self._index(process)
        if self.world_size:
            self._number(largest)

    def _index(self, process: HcclProcess) -> None:
        node = process.key[0]
        if process.address:
            self._addresses[process.address] = process
        for host in {node, process.server} if process.card is not None else ():
            self._cards[host, process.card or 0] = process
        for group, (rank, _) in process.groups.items():
            self._members[group, rank] = process

    def _number(self, size: int) -> None:
        """Groups of the same size that give a rank to two cards are parts of a larger job."""
        claims: dict[int, dict[tuple[str, str, int | None], Key]] = {}
        for key, process in self._known.items():
            mine = {rank for rank, of in process.groups.values() if of == size}
            if len(mine) > 1:
                return
            for rank in mine:
                claims.setdefault(rank, {})[key[0], process.server, process.card] = key
        if all(len(claim) == 1 for claim in claims.values()):
            self._ranks = {key: rank for rank, claim in claims.items() for key in claim.values()}
        else:
            self.world_size = 0

    def complete(self, origins: Iterable[Origin]) -> None:
        """Give the only process without a rank the only rank without a process."""
        left = {key for origin in origins if (key := self._key(origin))} - self._ranks.keys()
        ranks = set(range(self.world_size)) - set(self._ranks.values())
        if len(left) == len(ranks) == 1:
            (key,) = left
            self._known.setdefault(key, HcclProcess(key=key))
            self._ranks[key] = ranks.pop()

    def _key(self, origin: Origin) -> Key | None:
        """Its node may be called by its address, as Ray does."""
        key = pid_of(origin)
        return (self._hosts.get(key[0], key[0]), key[1]) if key else None

    def of(self, origin: Origin) -> HcclProcess | None:
        key = self._key(origin)
        return self._known.get(key) if key else None

    def rank(self, origin: Origin) -> int | None:
        key = self._key(origin)
        return self._ranks.get(key) if key else None

    def rank_of(self, process: HcclProcess) -> int | None:
        return self._ranks.get(process.key)

    def by_rank(self) -> dict[int, HcclProcess]:
        return {rank: self._known[key] for key, rank in self._ranks.items()}

    def find(self, waiter: Origin, peer: HcclPeer) -> HcclProcess | None:
        own = self.of(waiter)
        if peer.address:
            process = self._addresses.get(peer.address)
            device = self._listening.get((waiter.node, peer.address))
            if process is None and device is not None:
                process = self._cards.get((waiter.node, device))
            if process:
                return process
        if peer.device is not None:
            host = peer.server or (own.server if own and own.server else waiter.node)
            if process := self._cards.get((host, peer.device)):
                return process
        if peer.rank is None or own is None or not peer.group:
            return None
        group = next((name for name in own.groups if name and name in peer.group), None)
        return None if group is None else self._members.get((group, peer.rank))


def _number(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 10:  # noqa: PLR2004
        return None
    return number if (number := int(text)) < NOBODY else None


def _first_number(fields: Mapping[str, str], *names: str) -> int | None:
    return next(
        (number for name in names if (number := _number(fields.get(name))) is not None), None
    )
