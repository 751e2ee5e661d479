"""What any failed run may print, known or not: the lines that read like an error."""

import re
from pathlib import Path
from typing import Literal

from ascend_doctor.diagnosis.wording import COARSE
from ascend_doctor.matrix.schema import CALL_BEFORE, CODE_BEFORE
from ascend_doctor.patterns import read_patterns

_Ends = Literal["exception", "code", "result", "died", "uncaught", "agent", "elastic"]
Sign = Literal[_Ends, "logged", "peers", "links", "waited", "world", "bytes", "worded"]

# torchrun's: torch/distributed/elastic/multiprocessing/errors/__init__.py. Its agent's line comes
# first. "bytes": journald's messages that are no plain text.
_OWN: dict[Sign, str] = {
    "exception": r"(Error|Exception|Interrupt)(\(\w+\))?(: |:?$)|^No module named |"
    r"[a-z]\.[A-Z][A-Za-z]+: ",
    "code": rf"\bE[A-Z0-9]\d{{4}}(:|\)|\[PID)|{CODE_BEFORE}E[A-Z0-9]\d{{4}}\b",
    "result": r"(error ?[cC]ode( is|:| =)|runtime result =|failed ?:) ?\d|"
    rf"({CODE_BEFORE}|{CALL_BEFORE})([12]07|50[07])\d{{3}}\b",
    # From torch_npu's hook for uncaught exceptions.
    "uncaught": r"ERR99999 UNKNOWN appli",
    "peers": r"remoteUserrank|[Rr]emote ?[rR]ank|Cluster Exception Location|"
    r"Heartbeat Lost Occurred|\|  (client|server)  \||"
    r"Wait Enable P2P Failed|remote physic id|cqe err(or)? status\[|retrieving hcclUniqueId from|"
    r"base information is|groupRank information|opData information|Alloc transports failed",
    "agent": r"\b(rankNum|totalRanks|nRanks|ranks)\[\d|\[V?[Nn]ic\]Listen on ip\[|"
    r"\brank[=:] ?\d+,? (local_rank[=:] ?\d+,? )?world_size[=:] ?\d|\) world_rank=\d|"
    r"\bGLOBAL_RANK: \d",
    "elastic": r"\brank +: \d+ \(local_rank: \d|\bexitcode +: -?\d|failed \(exitcode: -?\d|"
    r"Root Cause \(first observed failure\)|\bglobal_ranks=\[\d|Rendezvous complete for workers",
    "waited": r"Watchdog caught collective operation timeout: WorkHCCL|Timeout at collective: |"
    r"joined any collectives|join collective #|didn't finish collective #|"
    r"\] (started|finished) [A-Z_]+$",
    "world": r"using world size: \d",
    "bytes": r"\"MESSAGE\" ?: ?\[ ?\d",
}

_TABLE = read_patterns(Path(__file__).with_name("signs.txt"))

SIGNS: dict[Sign, str] = {
    **_OWN,
    "died": "|".join(_TABLE["died"]),
    "logged": "|".join(_TABLE["logged"]),
    "worded": COARSE,
}
# A run may have these in every line; only a log's first ones are looked at.
COMMON: frozenset[Sign] = frozenset({"logged", "worded"})
WORDED: frozenset[Sign] = frozenset({"worded"})

# glog's and TensorFlow's lines have one letter for it: "I0508 10:08:12", "[W326 11:49:12",
# "12:54:27.034598: W tensorflow/"; Python's warnings have their place and class.
_LEVEL = re.compile(
    r"(?:^|[\s\[\]|)>:-])"
    r"(?:(?P<harmless>INFO|WARN|WARNING|DEBUG|TRACE|NOTICE|EVENT)|ERROR|CRITICAL|FATAL)"
    r"(?=[\s\]:|]|$)"
    r"|(?:^|[\s\[:\])|])(?:(?P<glog>[IW])|[EF])\d{3,8} \d\d:\d\d:\d\d"
    r"|\d: (?:(?P<tensorflow>[IW])|[EF]) /?\w+/[\w./-]+:\d+\]"
    r"|\blevel\"?[=:] ?\"?(?:(?P<field>info|warn|warning|debug|trace|notice)|error|fatal|panic)\b"
    r"|(?P<python>\.py:\d+: \w*Warning: )"
    r"|\[(?:(?P<bracket>info|warn|warning|debug|trace|notice)|error|err|critical|fatal)\]"
)
_NONE = re.compile(
    # torch_npu, HCCL and GE mark some of their own so.
    r"\b[Ee]rror log can be ignored\b|"
    r"\bFAILED\s*[:=]\s*0\b|(?<![\d.])\b(?:0|[Nn]o|[Nn]one of) (?:[\w-]+ ){0,3}(?:FAILED|failed)\b"
)
_NCCL = re.compile(
    r"(?:NCCL|\] [\w/]{1,60}\.(?:cc|cu|h):\d+) WARN (?!Missing |NUMA auto balancing)"
)


def harmless(line: str) -> bool:
    """Whether a line with the common sign excludes an error by its own words."""
    if _NCCL.search(line):
        return False
    level = _LEVEL.search(line)
    return bool(level and any(level.groups())) or _NONE.search(line) is not None


def continues_harmless(line: str, before: str) -> bool:
    """Whether an indented line continues a record whose level is below error."""
    if not line[:1].isspace():
        return False
    rows = before.rstrip("\r\n").split("\n")
    head = next((row for row in reversed(rows) if row and not row[0].isspace()), "")
    level = _LEVEL.search(head)
    return bool(level and any(level.groups()))
