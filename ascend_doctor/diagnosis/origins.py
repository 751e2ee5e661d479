"""Who wrote a line, and when: the prefixes of launchers, and time stamps."""

import functools
import re
from dataclasses import dataclass, field, replace

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

# torchrun's --tee (torch/distributed/elastic/multiprocessing/tail_log.py), torch's excepthook, Ray,
# vLLM, kubectl logs --prefix, stern (only before a prefix or a stamp), docker compose, journald and
# syslog, the container runtime, srun --label, Open MPI (orte/mca/iof/base/iof_base_output.c), pdsh.
_PREFIX = re.compile(
    r"""\s{0,8}(?:
      \[default(?P<local>\d{1,6})\]:\s?
    | \[rank(?P<rank>\d{1,6})\]:\s?
    | (?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ \w{3}\s[\s\d]\d\s\d\d:\d\d:\d\d\s\d{4}(?=\[))?
      \[(?:[\w.@-]{1,80}@)?\d{1,10},(?P<mpi>\d{1,6})\]<std(?:err|out|diag)>:\s?
    | (?P<task>\d{1,6}):\s
    | \((?P<actor>[\w.:-]{0,80}?)\s?(?:rank=(?P<vllm>\d{1,6})\s)?pid=(?P<pid>\d{1,12})
      (?:,\ ip=(?P<ip>[^\s)]{1,64}))?\)\s?
    | \[pod/(?P<pod>[\w.-]{1,253})/[\w.-]{1,253}\]\s?
    | (?:[a-z0-9-]{1,63}\s)?(?P<tailed>[a-z0-9][a-z0-9.-]{0,230}-[a-z0-9]{1,20})\s[a-z0-9-]{1,63}\s
      (?=\[(?:default|rank)\d{1,6}\]:|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)
    | (?P<host>(?:worker|node|host)-?\d{1,6}|host-[\da-f]{8}|localhost|\d{1,3}(?:\.\d{1,3}){3}
      |(?=[\w.-]{0,252}\d)[A-Za-z0-9][\w.-]{1,252}(?=:\s\[(?:(?:default|rank)\d|\d{4}-\d\d-))):\s
    | (?P<service>[\w.-]{1,64}-(?:\d{1,4}|[\da-f]{8}))\s{1,64}\|\s
    | (?:"""
    + "|".join(_MONTHS)
    + r""")\s[\s\d]\d\s\d\d:\d\d:\d\d(?:\.\d{1,9})?
      \s(?P<machine>[\w.-]{1,253})\s[\w./@-]{1,80}(?:\[\d{1,12}\])?:\s
    | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?[+-]\d\d:?\d\d
      \s(?P<system>[\w.-]{1,253})\s(?:kernel|[\w./@-]{1,80}\[\d{1,12}\]):\s
    | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s
      (?:std(?:out|err)\s[FP]\s)?
    | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s\d\d-\d\d\s\d\d:\d\d:\d\d\s\[?[\w./-]{1,80}:\d+\]\s?
    )""",
    re.VERBOSE,
)
# vLLM counts experts over all engines and not over stages (vllm/v1/executor/multiproc_executor.py,
# vllm/distributed/parallel_state.py): without stages that is the rank of the job.
_TENSOR_RANK = re.compile(
    r"^Worker_(?:(?:DP\d+_)?(?:PCP\d+_)?(?:TP\d+_)?(?:DCP\d+_)?EP(\d{1,6})"
    r"|(?:DP0_)?(?:PP0_)?TP(\d{1,6})(?:_EP\d+)?)$"
)
# A launcher of which no more is known than the number of its node.
NODE_RANK = "node_rank_"
# Launchers nest their prefixes: srun, kubectl, torchrun, Ray and a logger.
_PREFIXES = 8
_KNOWN = 8192

# torch_npu's own rank in the job, and what a process says beside the size of the job: Ray Train
# (python/ray/train/torch/config.py), ms-swift, Lightning (lightning/fabric/utilities/
# distributed.py). The others are for want of better, and may count in a group.
_RANK = re.compile(
    r"\bRankID:(\d+)|"
    r"(?<![\w-])(?<!\b[tpdec]p )(?<!group )(?:(?:global|world)[_ ])?rank[=:] ?(\d{1,6}),? "
    r"(?:local_rank[=:] ?\d{1,6},? )?world_size[=:] ?\d|"
    r"\bGLOBAL_RANK: (\d{1,6}), MEMBER: \d"
)
_OTHER_RANK = re.compile(
    r"\[Rank (\d+)\]|\bRank (\d+): |\brankId\[(\d+)\]|"
    r"^\s*\[(?:rank|RANK):? ?(\d+)\]|^rank (\d+): "
)
_PROCESS = re.compile(r"\(PID:(\d+),|\[PID: ?(\d+)\]|^\[\w+\] \w+\((\d+),")
_DEVICE = re.compile(r"\(PID:\d+, Device:(\d{1,4}),")

_STAMPS = (
    # CANN (2024-08-05-18:15:21.270.506), logging, ISO 8601
    re.compile(
        r"\b\d{4}-(?P<month>\d\d)-(?P<day>\d\d)[-T ]"
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
        r"(?:[.,](?P<part>\d{3}(?:\.?\d{3})?))?"
    ),
    # glog as torch prints it ([E1212 12:10:10.131512730, [W326 11:49:12.3, I0301 10:00:00.000000)
    re.compile(
        r"(?:\[|^)[EWIF](?P<month>\d{1,2})(?P<day>\d\d) "
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?"
    ),
    # vLLM (INFO 02-27 17:30:21), transformers (05/17/2024 01:30:26)
    re.compile(
        r"\b(?P<month>\d\d)(?:-(?P<day>\d\d)|/(?P<other>\d\d)/\d{4}) "
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?"
    ),
    # journald and syslog (Mar 01 10:02:05), Open MPI (Sun Mar  1 10:02:05 2026)
    re.compile(
        rf"^\s*(?:[A-Z][a-z]{{2}} )?(?P<name>{'|'.join(_MONTHS)}) (?P<day>[ \d]\d) "
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?"
    ),
)
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
