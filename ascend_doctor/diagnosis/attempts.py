"""Several runs of one job: told apart in a folder, remembered, and weighed together."""

import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone

import msgspec

from ascend_doctor.diagnosis.logs import Log
from ascend_doctor.diagnosis.result import Attempt, Diagnosis, JobVerdict
from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.syntax import describe_json

# torchrun's attempt_1/ (--max-restarts), restart folders, outputs of repeated Slurm jobs.
_NUMBERED = re.compile(
    r"(?:^|/)(?P<kind>attempt|restart|retry|round|cycle|slurm)[-_.]?(?P<number>\d{1,12})"
    r"(?:[_-](?P<again>\d{1,6}))?(?=[/.]|$)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z_.]+[:,;]?")
_SHORT = 160
# A restart may cure what others caused, as often as NVIDIA's extension allows without progress:
# nvidia-resiliency-ext:docs/design/attribution/restart_agent/L4.md, general_retry_allowed_retries.
_WAITS = 4
_TWICE = 2
_MANY = 256
_LARGEST = 1 << 26


def split_attempts(logs: Sequence[Log]) -> list[tuple[str, list[Log]]]:
    """Logs by attempt, oldest first; one without a name unless all logs are in numbered paths."""
    attempts: dict[tuple[int, int], list[Log]] = {}
    names: dict[tuple[int, int], str] = {}
    kinds = set()
    for log in logs:
        match = _NUMBERED.search(log.name)
        if match is None:
            return [("", list(logs))]
        number = int(match["number"]), int(match["again"] or 0)
        attempts.setdefault(number, []).append(log)
        names.setdefault(number, match[0].strip("/"))
        kinds.add(match["kind"].lower())
    if len(attempts) < _TWICE or len(kinds) > 1:
        return [("", list(logs))]
    return [(names[number], attempts[number]) for number in sorted(attempts)]


def remember(diagnosis: Diagnosis, name: str) -> Attempt:
    verdict = diagnosis.verdict or JobVerdict(action="unknown", reason="")
    return Attempt(
        name=name,
        failure=_failure(diagnosis),
        fault=verdict.fault,
        action=verdict.action,
        nodes=verdict.nodes or verdict.suspects,
        step=diagnosis.step,
    )


def _failure(diagnosis: Diagnosis) -> str:
    """The same for two runs that failed alike, redacted or not."""
    raised = [error for error in diagnosis.unexplained if error.kind in {"exception", "death"}]
    # A time-out whose guilty raised: that is the failure.
    of_code = diagnosis.verdict is not None and diagnosis.verdict.fault == "software"
    if diagnosis.causes and not (raised and of_code):
        return diagnosis.causes[0].id
    first = raised[0].evidence if raised else diagnosis.first_error
    words = first.text.split() if first else ()
    return " ".join(word for word in words if _WORD.fullmatch(word))[:_SHORT]


def read_history(path: str, now: Diagnosis) -> list[Attempt]:
    """Diagnoses (JSON) of a file or folder, oldest first, none of these logs. Raises DataError."""
    names = [path]
    if os.path.isdir(path):
        names = [os.path.join(path, name) for name in os.listdir(path) if name.endswith(".json")]
        names.sort(key=lambda name: (modification_time(name), name))
    diagnoses = [(name, _read_diagnosis(name)) for name in names[-_MANY:]]
    times = (datetime.fromtimestamp(modification_time(name), timezone.utc) for name, _ in diagnoses)
    return [
        remember(diagnosis, f"{os.path.basename(name)} ({at:%Y-%m-%d %H:%M} UTC)")
        for at, (name, diagnosis) in zip(times, diagnoses, strict=True)
        if not _is_same(diagnosis, now)
    ]


def _is_same(diagnosis: Diagnosis, now: Diagnosis) -> bool:
    first, mine = diagnosis.first_error, now.first_error
    before, after = ((run.bytes, run.lines, run.step) for run in (diagnosis, now))
    return bool(before == after and first and mine and first.time and first.time == mine.time)


def modification_time(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _read_diagnosis(path: str) -> Diagnosis:
    try:
        data = read_bytes(path, _LARGEST)
    except DataError as error:
        raise DataError(f"--history {error}") from error
    try:
        return msgspec.json.decode(data, type=Diagnosis)
    except (msgspec.DecodeError, ValueError) as error:
        why = describe_json(error, data)
        text = f"--history {path}: not what diagnose --format json writes: {why}"
        raise DataError(text) from error


def weigh(verdict: JobVerdict, now: Attempt, earlier: Sequence[Attempt]) -> JobVerdict:
    """The verdict on the last run, by earlier ones: leaves out a node accused before.

    Without progress the second equal failure stops, or the fourth if ranks waited or were ended.
    """
    weighed = msgspec.structs.replace(verdict, attempts=tuple(earlier))
    undecided = verdict.action == "restart" or (verdict.action, verdict.fault) == (
        "unknown",
        "unknown",
    )
    if not undecided or not now.failure:
        return weighed
    before = {node for attempt in earlier for node in attempt.nodes}
    again = sorted(before & set(now.nodes)) if verdict.fault == "communication" else []
    if again:
        reason = f"{' and '.join(again)} was accused in an earlier attempt, too; {verdict.reason}"
        return msgspec.structs.replace(weighed, action="exclude", nodes=tuple(again), reason=reason)
    alike = _count_alike(now, earlier)
    if alike < (_WAITS if verdict.fault in {"communication", "scheduler"} else _TWICE):
        return weighed
    where = f"at step {now.step}" if now.step is not None else "before any step"
    reason = f"the same failure {alike} times in a row {where}; {verdict.reason}"
    return msgspec.structs.replace(weighed, action="stop", fault="software", reason=reason)


def _count_alike(now: Attempt, earlier: Sequence[Attempt]) -> int:
    count = 1
    for attempt in reversed(earlier):
        if (attempt.failure, attempt.step) != (now.failure, now.step):
            break
        count += 1
    return count
