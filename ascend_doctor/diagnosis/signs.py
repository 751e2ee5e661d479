"""What any failed run may print, known or not: the lines that read like an error."""

import re
from typing import Literal

from ascend_doctor.diagnosis.wording import COARSE
from ascend_doctor.matrix.schema import CALL_BEFORE, CODE_BEFORE

Sign = Literal[
    "exception",
    "code",
    "result",
    "died",
    "uncaught",
    "logged",
    "peers",
    "links",
    "agent",
    "elastic",
    "waited",
    "world",
    "bytes",
    "worded",
]

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

_DIED = (
    r"[Ss]egmentation fault|\bcore dumped|Fatal Python error|terminate called after throwing",
    r"Signal \d+ \(SIG|\bexitcode:? *:? -\d|killed by signal|death signal",
    r"Out of memory: Kill|Out Of Memory|oom[-_]kill|OOMKilled",
    r"(^|[\s:])Killed(\s|$)|Bus error|(^|[\s:])Aborted( |$)",
    r"(^|\^\[\[[A-D])Terminated\s*$|\d\]?[+-]? +Terminated( |$)",
    r"[Ee]xit(s|ed)? (with )?(return |exit |non-zero )?(status|code)( = |:? )-?[1-9]",
    r"returned non-zero exit status|\bEXIT CODE: [1-9]",
    r"\b(free|malloc|realloc|munmap_chunk)\(\): (invalid|double|corrupted|unsorted|unaligned)",
    r"double free or corruption|corrupted size vs\. prev_size|stack smashing detected",
    r"(^|[\s)\]>:|])panic: |\[signal SIG[A-Z]+: |thread '.{0,99}' panicked at",
    r"\bpanic: runtime error: |\bcrashed with signal \d",
    r"^#\d+ .{0,40}\bin (__GI_)?(abort|raise) \(\)",
    r"-\[ cut here \]-",
    r"\bBUG: |\bsegfault at |blocked for more than \d|self-detected stall|\bOops: |heartbeat lost",
    # Open MPI, its runtimes ORTE and PRTE, and MPICH
    r"noticed that process rank \d|has exited due to process rank \d|BAD TERMINATION OF ONE OF",
    r"MPI_ERRORS_ARE_FATAL|MPI_ABORT was invoked|(PRTE|ORTE) has lost communication",
)

# Levels of loggers: [ERROR], "ERROR 09-26 ", "| ERROR    |", " - ERROR - ", "ERROR:root:",
# "12,756 ERROR x.py", level=error of Go, glog's E0813 and torch's [E410, Ray's "756 E 74 74]",
# "[E:onnxruntime:", "[TRT] [E]", "[E 12:30:11".
_LEVELS = (
    r"\[(ERROR|CRITICAL|FATAL|error|critical|fatal)[\]|:]",
    r"(^|[\s)|\]>:])(ERROR|CRITICAL|FATAL)( +[\d\[|(]|:| - )",
    r"\dZ?\s{1,8}(ERROR|CRITICAL|FATAL)\s{1,8}\S",
    r"\blevel=(error|fatal|panic)\b|\"(level|severity)\": ?\"(error|fatal|ERROR|FATAL)",
    r"(^|[\s\[:\])|])[EF]\d{3,8} \d\d:\d\d:\d\d|\[[EF] \w+\.(cpp|cc):\d|,\d{3} [EC] \d+ \d+\]",
    r"\[[EF](\]|:[a-z]| \d\d)",
)
# Programs without loggers: compilers, make, argparse, pip, uv, apt, npm, Slurm, docker, kubectl,
# shells, ld.so; exceptions of Python with other names, or only announced.
_PROGRAMS = (
    r"\S: (fatal )?error: [^\s\d]|(^|[\])>] )([Ee]rror|[Ff]atal): [^\s\d]",
    r"Error response from daemon|Error from server|No solution found when resolving|CANN error",
    r"command not found|can't open file|Permission denied \(publickey",
    r"\b(sh|bash|dash|zsh|line \d+): .{0,99}(not found|No such file|Permission denied|cannot exec)",
    r"undefined symbol: |cannot open shared object file|symbol lookup error",
    r"\bg?make(\[\d+\])?: \*\*\* |ninja: build stopped|CMake Error|npm (ERR!|error) |^E: [A-Z]",
    r"\b[a-z_]\w*\.[\w.]{1,99}\.([A-Z]\w*)?(Fail|Failed|Failure|Timeout|NotFound|Aborted): [^\s\d]",
    r"\bException (during|in|while) |\b([Uu]nhandled|[Uu]ncaught) exception",
    r"Traceback \(most recent call last\)|\[fail(ed)?\]|\bFAILED\b|ncclSystemError|Assertion `",
    r"^\S+\.py:\d+: in \w",
)
# CANN's error manager (metadef: error_manager), torch_npu's checks of return codes
# (torch_npu/csrc/core/npu/NPUException.h), and NCCL, whose level for errors is called WARN
# (docs.nvidia.com/deeplearning/nccl: NCCL_DEBUG).
_LIBRARIES = (
    r"\[FUNC:\w+\]\[FILE:[\w.-]+\]|\b(NPU|HCCL|OPS|ACL) function error ?:",
    r"NCCL WARN \S|\] [\w/]{1,60}\.(cc|cu|h):\d+ WARN \S|\bInner Error!|\bOP_REQUIRES failed",
    r"[a-z\])\"'] (has |have )?failed[.!]?\r?$",
    r"\bfailed at \S+:\d|\bfailed, (ret|err\w*|result|code)\b",
)
_NODE = (
    r"\b(ImagePullBackOff|ErrImagePull|ErrImageNeverPull|InvalidImageName|CrashLoopBackOff)\b",
    r"\b(CreateContainerError|CreateContainerConfigError|RunContainerError)\b",
    r"\b(UnexpectedAdmissionError|FailedScheduling|FailedMount|FailedAttachVolume|FailedCreatePodSandBox|FilteringFailed)\b",
    r"\bWarning +Failed\b|Back-off (pulling|restarting)",
    # kubectl's table of events: type, reason, age, from.
    r"\bWarning {2,}((Err|Failed)\w+|\w+(Failed|Error|Failure|BackOff)) +\d+[smhd]",
    r"(hard|soft) (LOCKUP|lockup)|Kernel panic|I/O error|EXT4-fs error|NVRM: Xid",
)

SIGNS: dict[Sign, str] = {
    **_OWN,
    "died": "|".join(_DIED),
    "logged": "|".join((*_LEVELS, *_PROGRAMS, *_LIBRARIES, *_NODE)),
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
