"""Who wrote a line, and when: the prefixes of launchers, and time stamps."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

# torchrun's --tee and torch's excepthook ([default3]:, [rank3]:), Ray ((Name pid=1, ip=a)), vLLM
# ((Worker_TP3 pid=1), LEVEL date [file:line]), kubectl logs --prefix ([pod/a/b]), the container
# runtime's files (date stdout F, {"log":"), srun --label (3:), Open MPI ([1,3]<stderr>:),
# DeepSpeed's pdsh (worker-1:).
_PREFIX = re.compile(
    r"""\s{0,8}(?:
      \[default(?P<default>\d{1,6})\]:\s?
    | \[rank(?P<rank>\d{1,6})\]:\s?
    | \[1,(?P<mpi>\d{1,6})\]<std(?:err|out)>:\s?
    | (?P<srun>\d{1,6}):\s
    | \((?P<actor>[\w.:-]{0,80}?)\s?(?:rank=(?P<vllm>\d{1,6})\s)?pid=(?P<pid>\d{1,12})
      (?:,\ ip=(?P<ip>[^\s)]{1,64}))?\)\s?
    | \[pod/(?P<pod>[\w.-]{1,253})/[\w.-]{1,253}\]\s?
    | (?P<host>(?:worker|node|host)-?\d{1,6}):\s
    | \{"log":"
    | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)\s
      (?:std(?:out|err)\s[FP]\s)?
    | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s\d\d-\d\d\s\d\d:\d\d:\d\d\s\[?[\w./-]{1,80}:\d+\]\s?
    )""",
    re.VERBOSE,
)
# vLLM's Worker_TP7 is rank 7 of its engine, and of the job where it is the only one.
_TENSOR_RANK = re.compile(r"^Worker_(?:DP0_)?(?:PP0_)?TP(\d{1,6})(?:_EP\d+)?$")
_PREFIXES = 8
_KNOWN = 8192

# The ranks that torch_npu, its watchdog and Megatron name, and the task that HCCL names.
_RANK = re.compile(r"\bRankID:(\d+)|\[Rank (\d+)\]|\bRank (\d+): |\brankId\[(\d+)\]")
_PROCESS = re.compile(r"\(PID:(\d+),|\[PID: ?(\d+)\]|^\[\w+\] \w+\((\d+),")

_STAMPS = (
    # CANN (2024-08-05-18:15:21.270.506), logging, ISO 8601
    re.compile(
        r"\b\d{4}-(?P<month>\d\d)-(?P<day>\d\d)[-T ]"
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
        r"(?:[.,](?P<part>\d{3}(?:\.?\d{3})?))?"
    ),
    # glog as torch prints it ([E1212 12:10:10.131512730, [W326 11:49:12.3)
    re.compile(
        r"\[[EWIF](?P<month>\d{1,2})(?P<day>\d\d) "
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?"
    ),
    # vLLM (INFO 02-27 17:30:21), transformers (05/17/2024 01:30:26)
    re.compile(
        r"\b(?P<month>\d\d)(?:-(?P<day>\d\d)|/(?P<other>\d\d)/\d{4}) "
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?"
    ),
)
_DAYS = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What is known of the process that wrote a line; ``node`` is a host, a pod or an address."""

    rank: int | None = None
    node: str = ""
    process: str = ""

    @property
    def named(self) -> bool:
        return self.rank is not None or bool(self.node or self.process)


def parted(text: str, origin: Origin) -> tuple[Origin, str]:
    """The origin of a line of a file that has ``origin``, and the line without its prefixes."""
    place = 0
    for _ in range(_PREFIXES):
        found = _PREFIX.match(text, place)
        if found is None:
            break
        place = found.end()
        origin = _with(origin, found[0])
    rest = text[place:]
    if origin.rank is None and (told := _RANK.search(rest)):
        origin = replace(origin, rank=int(next(filter(None, told.groups()))[:6]))
    if not origin.process and (told := _PROCESS.search(rest)):
        origin = replace(origin, process=f"pid {next(filter(None, told.groups()))[:12]}")
    return origin, rest


@functools.lru_cache(maxsize=_KNOWN)
def _with(origin: Origin, prefix: str) -> Origin:
    """The origin and what a prefix adds to it; a run has as many prefixes as processes."""
    matched = _PREFIX.match(prefix)
    found = matched.groupdict() if matched else {}
    if not any(found.values()):
        return origin
    for name in ("rank", "default", "mpi", "vllm", "srun"):
        if number := found[name]:
            origin = replace(origin, rank=int(number))
    if found["actor"] and (alone := _TENSOR_RANK.search(found["actor"])):
        origin = replace(origin, rank=int(alone[1]))
    if found["pid"]:
        process = f"{found['actor'] or ''} pid={found['pid']}".strip()
        origin = replace(origin, process=process)
    if node := found["ip"] or found["pod"] or found["host"]:
        origin = replace(origin, node=node)
    return origin


@dataclass(frozen=True, kw_only=True)
class Moment:
    """``seconds`` since the year began: some formats name no year, and no run lasts one."""

    seconds: float
    text: str


def moment(text: str) -> Moment | None:
    """The first time stamp of a line."""
    for shape in _STAMPS:
        found = shape.search(text)
        if found is None:
            continue
        parts = found.groupdict()
        month, day = int(parts["month"]), int(parts["day"] or parts.get("other") or 0)
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
