"""Who wrote a line, and when: the prefixes of launchers, and time stamps."""

import functools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from ascend_doctor.patterns import read_patterns

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

_TABLE = read_patterns(Path(__file__).parent / "origins.txt")
_PREFIX = re.compile(rf"\s{{0,8}}(?:{'|'.join(_TABLE['prefix'])})")
_RANK, _OTHER_RANK, _PROCESS, _DEVICE, _TENSOR_RANK = (
    re.compile(_TABLE[name][0]) for name in ("rank", "other", "process", "device", "tensor")
)
_STAMPS = tuple(map(re.compile, _TABLE["stamp"]))
# A launcher of which no more is known than the number of its node.
NODE_RANK = "node_rank_"
# Launchers nest their prefixes: srun, kubectl, torchrun, Ray and a logger.
_PREFIXES = 8
_KNOWN = 8192
# Days before each month, as of a leap year: stamps without a year may be of one.
_DAYS = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What is known of the process that wrote a line; ``node`` is a host, a pod or an address.

    If its ``rank`` in the job is unknown, ``local`` is its number among the processes that
    ``launcher`` started on one node, and ``task`` that of srun, which is either.
    """

    rank: int | None = None
    node: str = ""
    process: str = ""
    local: int | None = None
    launcher: str = ""
    task: int | None = None
    device: int | None = field(default=None, compare=False)

    @property
    def named(self) -> bool:
        numbers = (self.rank, self.local, self.task)
        return any(number is not None for number in numbers) or bool(self.node or self.process)

    @functools.cached_property
    def process_only(self) -> "Origin":
        """What tells the process from others: its rank, else what there is in its place."""
        if self.rank is None and self.local is not None:
            return self
        task = self.task if self.rank is None else None
        return replace(self, local=None, launcher="", task=task)


def split_prefixes(text: str, origin: Origin) -> tuple[Origin, str]:
    start = 0
    naming: list[str] = []
    for _ in range(_PREFIXES):
        match = _PREFIX.match(text, start)
        if match is None:
            break
        start = match.end()
        if match.lastindex:
            naming.append(match[0])
    if naming:
        origin = _with(origin, "".join(naming))
    rest = text[start:]
    if origin.rank is None:
        placed = origin.local is not None or origin.task is not None
        match = _RANK.search(rest) or (None if placed else _OTHER_RANK.search(rest))
        if match:
            origin = replace(origin, rank=int(next(filter(None, match.groups()))[:6]))
    if not origin.process and (match := _PROCESS.search(rest)):
        origin = replace(origin, process=f"pid {next(filter(None, match.groups()))[:12]}")
    if match := _DEVICE.search(rest):
        origin = replace(origin, device=int(match[1]))
    return origin, rest


@functools.lru_cache(maxsize=_KNOWN)
def _with(origin: Origin, prefixes: str) -> Origin:
    parts: dict[str, str] = {}
    start = 0
    while match := _PREFIX.match(prefixes, start):
        start = match.end()
        parts.update((name, value) for name, value in match.groupdict().items() if value)
    names = ("ip", "pod", "tailed", "host", "service", "machine", "system")
    node = next((parts[name] for name in names if name in parts), "")
    if "local" in parts or origin.local is None:
        task = f"{NODE_RANK}{parts['task']}" if "task" in parts else ""
        origin = replace(origin, launcher=task or node or origin.launcher)
    if "task" in parts:
        origin = replace(origin, task=int(parts["task"]))
    if "local" in parts:
        origin = replace(origin, local=int(parts["local"]))
    alone = _TENSOR_RANK.search(parts.get("actor", ""))
    ranks = (
        parts.get("rank"),
        alone and (alone[1] or alone[2]),
        parts.get("mpi"),
        parts.get("vllm"),
    )
    if rank := next(filter(None, ranks), None):
        origin = replace(origin, rank=int(rank))
    if "pid" in parts:
        process = f"{parts.get('actor', '')} pid={parts['pid']}".strip()
        origin = replace(origin, process=process)
    return replace(origin, node=node) if node else origin


@dataclass(frozen=True, kw_only=True)
class Moment:
    """``seconds`` since the year began: some formats name no year, and no run lasts one."""

    seconds: float
    text: str


def moment(text: str) -> Moment | None:
    for shape in _STAMPS:
        match = shape.search(text)
        if match is None:
            continue
        parts = match.groupdict()
        name = parts.get("name")
        month = _MONTHS.index(name) + 1 if name else int(parts["month"])
        day = int(parts["day"] or parts.get("other") or 0)
        clock = [int(parts[name]) for name in ("hour", "minute", "second")]
        if not (1 <= month <= len(_DAYS) and 1 <= day <= 31 and clock[0] < 24):  # noqa: PLR2004
            continue
        part = float(f"0.{(parts['part'] or '0').replace('.', '')}")
        days = _DAYS[month - 1] + day - 1
        seconds = ((days * 24 + clock[0]) * 60 + clock[1]) * 60 + clock[2] + part
        return Moment(
            seconds=seconds, text="{:02}-{:02} {:02}:{:02}:{:02}".format(month, day, *clock)
        )
    return None
