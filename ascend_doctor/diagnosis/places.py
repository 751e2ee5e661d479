"""Which rank stands where: its node, its number on that node and its device."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ascend_doctor.diagnosis.origins import NODE_RANK, Origin

_MANY = 4096
# node-3, job-worker-0, n0017.cluster
_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d{1,6})(?P<rest>\D{0,64})")
# Kubeflow's training operator calls the first node <job>-master-0 and the second <job>-worker-0.
_AFTER_A_MASTER = "worker"
_PID = re.compile(r"\d+$")
ITSELF = frozenset({"localhost", "localhost.localdomain"})


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    local: int | None = None
    node: str = ""
    device: int | None = None
    server: str = ""


@dataclass
class Places:
    """``node_rank`` is the number that the user gives the one node whose logs these are."""

    node_rank: int | None = None
    # Processes by launcher, and what to add to their numbers for ranks.
    _members: dict[str, set[int]] = field(default_factory=dict)
    _offsets: dict[str, set[int]] = field(default_factory=dict)
    _tasks: set[int] = field(default_factory=set)
    _settled: dict[str, int] = field(default_factory=dict)
    _hosts: dict[str, str] = field(default_factory=dict)
    # By node and process id.
    _ranks: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    _devices: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    _known: dict[int, RankPlace] = field(default_factory=dict)

    def add(self, origin: Origin) -> None:
        if origin.local is not None:
            self._member(origin.launcher, origin.local, origin.rank)
        if origin.rank is not None and (origin.node or origin.device is not None):
            self.know(origin.rank, node=origin.node, device=origin.device)
        elif origin.task is not None and origin.rank is None and len(self._tasks) < _MANY:
            self._tasks.add(origin.task)
        pid = pid_of(origin)
        for table, number in ((self._ranks, origin.rank), (self._devices, origin.device)):
            if pid and number is not None and (pid in table or len(table) < _MANY):
                table.setdefault(pid, set()).add(number)

    def know(
        self, rank: int, *, node: str = "", device: int | None = None, server: str = ""
    ) -> None:
        known = self._known.get(rank, RankPlace())
        node = "" if node in ITSELF else node
        if rank in self._known or len(self._known) < _MANY:
            self._known[rank] = replace(
                known,
                node=known.node or node,
                device=device if known.device is None else known.device,
                server=known.server or server,
            )

    def pair(self, origin: Origin, *, rank: int, local: int, node: str = "") -> None:
        self._member(origin.launcher, local, rank)
        if node not in ITSELF:
            self._hosts.setdefault(origin.launcher, node)

    def _member(self, launcher: str, local: int, rank: int | None) -> None:
        if launcher in self._members or len(self._members) < _MANY:
            self._members.setdefault(launcher, set()).add(local)
            offsets = self._offsets.setdefault(launcher, set())
            if rank is not None and len(offsets) < _MANY:
                offsets.add(rank - local)

    def settle(self, world_size: int) -> None:
        """Number the nodes; 0 is an unknown size."""
        self._settled = {
            launcher: next(iter(offsets))
            for launcher, offsets in self._offsets.items()
            if len(offsets) == 1
        }
        left = [launcher for launcher in self._members if not self._offsets[launcher]]
        numbered = [launcher for launcher in self._members if launcher not in left]
        for launcher in left:
            if len(above := self._logs_of(launcher)) == 1:
                self._settled[launcher] = self._settled[above[0]]
        left = [launcher for launcher in left if launcher not in self._settled]
        if left:
            self._settled.update(self._number_nodes([*numbered, *left], world_size))
        for launcher, offset in self._settled.items():
            for local in self._members[launcher]:
                node = self._hosts.get(launcher, "")
                self.know(offset + local, node=node)
                self._known[offset + local] = replace(self._known[offset + local], local=local)
        for pid, devices in self._devices.items():
            ranks = self._ranks.get(pid, set())
            if len(ranks) == len(devices) == 1:
                self.know(next(iter(ranks)), device=next(iter(devices)))

    def _logs_of(self, launcher: str) -> list[str]:
        folder = launcher.rpartition("/")[0]
        return [
            launcher for launcher in self._settled if folder and launcher.startswith(f"{folder}/")
        ]

    def _number_nodes(self, launchers: list[str], world_size: int) -> dict[str, int]:
        """The first rank of each, where one rule numbers all, those that are known as well."""
        numbered = {launcher: self._settled.get(launcher) for launcher in launchers
                if self._offsets[launcher]}  # fmt: skip
        numbers = self._by_name(launchers, world_size, sure=bool(numbered))
        return numbers if numbered.items() <= numbers.items() else {}

    def _by_name(self, launchers: list[str], world_size: int, *, sure: bool) -> dict[str, int]:
        each = max(max(self._members[launcher]) for launcher in launchers) + 1
        whole = all(self._members[launcher] == set(range(each)) for launcher in launchers)
        if all(launcher.startswith(NODE_RANK) for launcher in launchers):
            numbers = {launcher: int(launcher.removeprefix(NODE_RANK)) for launcher in launchers}
            return (
                {launcher: number * each for launcher, number in numbers.items()} if whole else {}
            )
        if len(launchers) == 1:
            if self.node_rank is not None:
                return {launchers[0]: self.node_rank * each} if whole else {}
            return {launchers[0]: 0} if world_size in {0, each} else {}
        if whole and world_size in {0, each * len(launchers)}:
            return {
                launcher: number * each
                for launcher, number in _in_order(launchers, sure=sure or world_size > 0).items()
            }
        return {}

    def rank(self, origin: Origin) -> int | None:
        if origin.rank is not None:
            return origin.rank
        if origin.local is not None:
            offset = self._settled.get(origin.launcher)
            return None if offset is None else offset + origin.local
        if origin.task is not None:
            return None if self._tasks_launch else origin.task
        pid = pid_of(origin)
        ranks = self._ranks.get(pid, set()) if pid else set()
        return next(iter(ranks)) if len(ranks) == 1 else None

    @property
    def _tasks_launch(self) -> bool:
        return any(launcher.startswith(NODE_RANK) for launcher in self._members)

    def ranks(self) -> set[int]:
        placed = {
            offset + local
            for launcher, offset in self._settled.items()
            for local in self._members[launcher]
        }
        return placed if self._tasks_launch else placed | self._tasks

    def of(self, ranks: Iterable[int]) -> list[RankPlace]:
        return [self._known.get(rank, RankPlace()) for rank in ranks]


def pid_of(origin: Origin) -> tuple[str, str] | None:
    match = _PID.search(origin.process)
    return (origin.node, match[0]) if match else None


def _in_order(nodes: list[str], *, sure: bool) -> dict[str, int]:
    """Nodes that are numbered from 0 and differ in nothing else; ``sure`` that all are here."""
    parts = {launcher: _NUMBERED.fullmatch(launcher) for launcher in nodes}
    stems = {(match["stem"], match["rest"]) for match in parts.values() if match}
    numbers = {launcher: int(match["number"]) for launcher, match in parts.items() if match}
    if len(stems) != 1 or sorted(numbers.values()) != list(range(len(nodes))):
        return {}
    return numbers if sure or _AFTER_A_MASTER not in "".join(stems.pop()).lower() else {}
