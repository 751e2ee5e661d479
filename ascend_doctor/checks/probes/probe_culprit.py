"""Which ranks of a failed run are guilty, and which only waited for them.

A time-out names its victim: whoever waits in a collective says that it failed. The guilty rank
is the one that crashed, never came, or stands elsewhere.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterable

import msgspec

from ascend_doctor.probe_results import TIMEOUT, ProbeResult, ProbeRun

# Messages of ranks that lost a peer or waited for one.
_VICTIM = (
    rf"{TIMEOUT}|(?i:connection (closed|reset|refused)|closed by peer|broken pipe)|"
    r"^(?i:Dist(Network|Store|Backend)Error)"
)
_WAITS = r"torch/distributed/|\bin synchronize\b"
# torchrun sends the others SIGTERM; a native abort is often the watchdog of a rank without peer.
_ENDED_BY_LAUNCHER = -signal.SIGTERM
# torchrun names the rank that it saw fail first, and ends ranks that ignore SIGTERM with SIGKILL.
_FIRST = re.compile(
    r"Root Cause \(first observed failure\):.{0,400}?\brank +: (\d{1,9}) ", re.DOTALL
)
# Wrappers of torch and torch_npu lie between the waiting call and the program.
_INNERMOST = 4


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """The first fault. ``kind`` is crash, exit, missing, exception, hang or lost.

    ``ranks`` are the guilty ones, empty if all share it; ``stage`` is their stage.
    """

    kind: str
    ranks: tuple[int, ...] = ()
    stage: str = ""
    text: str = ""


def blame(run: ProbeRun) -> Blame | None:
    """The first cause of a failed run, None if every rank has its result."""
    if not run.missing and all(result.ok for result in run.ranks):
        return None
    missing = Blame(kind="missing", ranks=run.missing) if run.missing else None
    for look in (_find_crash, _find_exit, lambda _: missing, _find_exception, _stuck):
        if blamed := look(run):
            return blamed
    return _find_lost(run)


def _culprit(kind: str, ranks: Iterable[ProbeResult], text: str = "") -> Blame | None:
    guilty = tuple(ranks)
    if not guilty:
        return None
    return Blame(
        kind=kind, ranks=tuple(result.rank for result in guilty), stage=guilty[0].stage, text=text
    )


def _find_crash(run: ProbeRun) -> Blame | None:
    first = _FIRST.search(run.output)
    dead = [
        result
        for result in run.ranks
        if result.exit_code is not None
        and result.exit_code < 0
        and result.exit_code != _ENDED_BY_LAUNCHER
        and not (result.exit_code == -signal.SIGKILL and first and int(first[1]) != result.rank)
    ]
    hard = [result for result in dead if result.exit_code != -signal.SIGABRT] or dead
    if not hard:
        return None
    return _culprit("crash", hard, signal_name(hard[0].exit_code or 0))


def signal_name(code: int) -> str:
    """SIGSEGV for -11."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _find_exit(run: ProbeRun) -> Blame | None:
    gone = [result for result in run.ranks if result.ok is None and (result.exit_code or 0) > 0]
    if gone:
        return _culprit("exit", gone, f"exit code {gone[0].exit_code}")
    # A rank ordered to end writes its stacks first.
    quiet = [
        result
        for result in run.ranks
        if result.ok is None and not result.exit_code and not result.stack
    ]
    return None if run.timed_out else _culprit("exit", quiet, "exit code 0")


def by_torchrun(run: ProbeRun) -> bool:
    """Whether there was a launcher between the doctor and the ranks."""
    return "torch.distributed.run" in run.argv


def _find_exception(run: ProbeRun) -> Blame | None:
    own = [result for result in run.ranks if result.error and not suffers(result.error)]
    return _culprit("exception", own, own[0].error) if own else None


def suffers(error: str) -> bool:
    """Whether an error only says that another rank left or did not come."""
    return re.search(_VICTIM, error) is not None


def gives_up(error: str) -> bool:
    """Whether an error says that its rank waited until its time-out."""
    return re.search(TIMEOUT, error) is not None


def _stuck(run: ProbeRun) -> Blame | None:
    stuck = [result for result in run.ranks if result.ok is None]
    if not stuck:
        return None
    others = [result for result in run.ranks if result.error]
    astray = [result for result in stuck if not waits(result)]
    if astray and (others or len(astray) < len(stuck)):
        return _culprit("hang", astray)
    progress = Counter(len(result.stages) for result in run.ranks)
    if len(progress) > 1:
        earliest = min(progress)
        behind = [result for result in stuck if len(result.stages) == earliest]
        ahead = [result for result in stuck if len(result.stages) != earliest]
        few = ahead if ahead and len(ahead) < len(behind) else behind
        return _culprit("hang", few or stuck)
    if others:
        return _culprit("hang", stuck)
    return Blame(kind="hang", stage=stuck[0].stage)


def waits(result: ProbeResult) -> bool:
    """Whether the main thread was in a collective."""
    return any(re.search(_WAITS, frame) for frame in frames(result.stack)[:_INNERMOST])


def frames(stack: str) -> list[str]:
    """The frames of the main thread, innermost first; faulthandler prints it last."""
    parts = [part for part in stack.split("\n\n") if 'File "' in part]
    lines = parts[-1].splitlines() if parts else []
    return [line.strip() for line in lines if line.lstrip().startswith('File "')]


def _find_lost(run: ProbeRun) -> Blame:
    first = next(result for result in run.ranks if not result.ok)
    return Blame(kind="lost", stage=first.stage, text=first.error)
