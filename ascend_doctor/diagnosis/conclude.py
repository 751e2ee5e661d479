"""Draws the conclusion: the root cause first, what follows from it under it."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, cast

from msgspec.structs import replace

from ascend_doctor import __version__
from ascend_doctor.diagnosis.exception_rules import Describer, first_line
from ascend_doctor.diagnosis.guilt import (
    complete,
    describe_undecided,
    evidence,
    fold_wrappers,
    guilty,
    guilty_of_hang,
)
from ascend_doctor.diagnosis.ledger import Ledger, Occurrences, Sighting, earliest
from ascend_doctor.diagnosis.logs import Skipped
from ascend_doctor.diagnosis.result import (
    Cause,
    Code,
    Consequence,
    Counted,
    Diagnosis,
    Evidence,
    Guilt,
    NotRead,
    Outcome,
    Unexplained,
)
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.diagnosis.timeline import rank_events
from ascend_doctor.diagnosis.verdict import is_of_hang, judge_run
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.findings import Level, first_of
from ascend_doctor.matrix.schema import ErrorCodes, KnownFailure

_Kind: TypeAlias = tuple[Literal["exception", "death", "code", "logged"], Occurrences]

# Whose variants say what ended a link set-up.
LINKS = "hccl-connect-timeout-ei0006"
_LINES = 3
_UNEXPLAINED = 5
_CLOCKS = 8
_EARLY = 60.0  # seconds; those who wait for the same one give up at the same time

_HEAD = re.compile(r"\bTraceback \(most recent call last\):\s*$")
_FRAME = re.compile(r"\bFile \"[^\"]+\", line \d|^\S+\.py:\d+: in \w")
_MARKS = re.compile(r"(^|\s)[~^]{2,}\s*$")


def conclude(  # noqa: PLR0913 - all that a diagnosis is made of
    ledger: Ledger,
    failures: dict[str, KnownFailure],
    codes: ErrorCodes,
    *,
    skipped: Sequence[Skipped] = (),
    stall: Stall | None = None,
    exit_status: int | None = None,
    fail_on: Level = Level.ERROR,
    nodes: Sequence[str] = (),
    describer: Describer,
) -> Diagnosis:
    """The diagnosis; ``nodes`` are the job's by rank. What ended badly has got over nothing."""
    failures = _settle(ledger, failures, describer)
    survives = {name for name, failure in failures.items() if failure.severity != "fatal"}
    outlived = ledger.forget(survives) if ledger.outlived and not (stall or exit_status) else []
    works = bool(ledger.work) and not (exit_status or (outlived and ledger.got_over_failure))
    seen_by_name = _harmful(ledger, failures)
    waits = _fold_waits(ledger, seen_by_name, failures)
    causes = _causes(ledger, seen_by_name, failures)
    root = failures[causes[0].id] if causes else None
    unexplained = _gather_unexplained(ledger, root, codes, describer)
    missing = tuple(sorted(ledger.without_log()))
    unseen = bool(unexplained or missing) or _is_sign_only(root) or not works
    stands = seen_by_name.get(root.id) if root else None
    hang = stall if stall and is_of_hang(ledger, root, waits) else None
    blamed = _blame(ledger, root, waits, seen_by_name, failures)
    blamed = guilty_of_hang(ledger, hang) if hang else _read_error(ledger, blamed, describer)
    events, steps = rank_events(ledger, seen_by_name)
    return Diagnosis(
        tool_version=__version__,
        outcome=_outcome(causes, unexplained, stall, works=works),
        exit_code=_exit_code(causes, fail_on, stall, unseen=unseen),
        logs=ledger.files,
        lines=ledger.lines,
        bytes=ledger.size,
        ranks=tuple(sorted(ledger.ranks)),
        nodes=tuple(sorted(ledger.nodes)),
        world_size=ledger.world_size,
        without_log=missing,
        stall=stall,
        causes=_show_end(causes, blamed),
        verdict=judge_run(ledger, root, blamed, waits, nodes=nodes, stall=stall),
        step=ledger.step,
        exit_status=exit_status,
        work=evidence(ledger.work) if ledger.work else None,
        guilty=blamed,
        undecided="" if blamed else describe_undecided(ledger, root, stands, waits),
        first_error=_first_error(ledger, seen_by_name),
        unexplained=unexplained,
        error_lines=ledger.unexplained if unexplained else 0,
        or_more_error_lines=bool(unexplained) and ledger.or_more_unexplained,
        outlived=tuple(evidence(seen.first) for seen in outlived[:_UNEXPLAINED]),
        outlived_lines=sum(seen.count for seen in outlived),
        codes=_codes(ledger, codes),
        timeline=events,
        steps=steps,
        benign=_benign(ledger, failures),
        not_read=tuple(NotRead(name=log.name, reason=log.reason) for log in skipped),
    )


def _settle(
    ledger: Ledger, failures: dict[str, KnownFailure], describer: Describer
) -> dict[str, KnownFailure]:
    ledger.settle()
    kinds = {name for name in ledger.failures if name in failures and failures[name].by_type}
    ledger.forget_caught(kinds)
    described: dict[str, KnownFailure] = {}
    for name in ledger.failures.keys() & failures.keys():
        known = failures[name]
        seen = ledger.failures[name].first
        if raised := ledger.find_raised(seen):
            reading = describer.describe(raised)
            if known.by_type:
                title, cause, fix, _ = reading
                known = replace(known, title=title, cause=cause, fix=fix or known.fix)
            elif raised.frames:
                shown = raised.message.partition("\n")[0] in seen.text
                message = "" if shown else f": {first_line(raised.message)}"
                known = replace(known, cause=f"{reading.raised}{message}. {known.cause}")
        described[name] = known
    return failures | described


def _fold_waits(
    ledger: Ledger, seen_by_name: dict[str, Occurrences], failures: dict[str, KnownFailure]
) -> Occurrences:
    waits = _together(seen for name, seen in seen_by_name.items() if failures[name].victim)
    fold_wrappers(ledger, waits)
    return waits


def _describe_clocks(ledger: Ledger) -> str:
    offsets = sorted(ledger.clocks.offsets.items())
    which = first_of([_describe_clock(*offset) for offset in offsets], _CLOCKS)
    return f"clocks differ and were put right: {which}"


def _describe_clock(node: str, seconds: float) -> str:
    if seconds > 0:
        return f"{node} is {seconds:.0f} s ahead"
    return f"{node} is {-seconds:.0f} s behind"


def _blame(
    ledger: Ledger,
    root: KnownFailure | None,
    waits: Occurrences,
    seen_by_name: dict[str, Occurrences],
    failures: dict[str, KnownFailure],
) -> Guilt | None:
    own = _together(
        seen
        for name, seen in seen_by_name.items()
        if failures[name].severity == "fatal" and not _weak(failures[name])
    )
    if not ledger.in_order(own.by_origin.values()):
        return None
    texts = failures[LINKS].variants if LINKS in failures else {}
    blamed = guilty(ledger, root, seen_by_name.get(root.id) if root else None, waits, texts)
    if blamed and ledger.clocks.offsets:
        blamed = replace(blamed, reason=f"{blamed.reason}; {_describe_clocks(ledger)}")
    return blamed and complete(ledger, blamed)


def _read_error(ledger: Ledger, blamed: Guilt | None, describer: Describer) -> Guilt | None:
    """What the rank raised for which the others waited."""
    if blamed is None or blamed.end != "ended":
        return blamed
    seen = ledger.first_error_of(blamed.ranks, logged="(?!)")
    raised = ledger.raised.get(seen.order) if seen else None
    died = describer.describe_death() if "signal" in blamed.reason else ""
    _, cause, fix, _ = describer.describe(raised) if raised else ("", "", died, "")
    return replace(blamed, facts=f"{blamed.facts} {cause}".strip(), fix=fix or blamed.fix)


def _show_end(causes: tuple[Cause, ...], blamed: Guilt | None) -> tuple[Cause, ...]:
    if blamed is None or not blamed.end:
        return causes
    return (replace(causes[0], cause=blamed.facts, fix=blamed.fix), *causes[1:])


def _harmful(ledger: Ledger, failures: dict[str, KnownFailure]) -> dict[str, Occurrences]:
    return {
        name: seen for name, seen in ledger.failures.items() if failures[name].severity != "benign"
    }


def _benign(ledger: Ledger, failures: dict[str, KnownFailure]) -> tuple[Counted, ...]:
    return tuple(
        Counted(id=name, title=failures[name].title, count=seen.count, or_more=seen.or_more)
        for name, seen in ledger.failures.items()
        if failures[name].severity == "benign"
    )


def _together(kinds: Iterable[Occurrences]) -> Occurrences:
    whole = Occurrences()
    for sighting in sorted(
        (sighting for seen in kinds for sighting in seen.by_origin.values()),
        key=lambda sighting: sighting.order,
    ):
        whole.by_origin.setdefault(sighting.origin, sighting)
    return whole


def _is_sign_only(root: KnownFailure | None) -> bool:
    return root is not None and root.severity == "degraded" and root.secondary


def _causes(
    ledger: Ledger, seen_by_name: dict[str, Occurrences], failures: dict[str, KnownFailure]
) -> tuple[Cause, ...]:
    """Root causes, likeliest first, with their consequences; those of one line by name."""
    explained: dict[str, str] = {}
    by_time = sorted(seen_by_name, key=lambda name: (seen_by_name[name].first.order, name))
    for name in by_time:
        for weaker in failures[name].beats:
            if weaker != name and _explains(name, weaker, seen_by_name, failures):
                explained.setdefault(weaker, name)
    for name in by_time:
        if failures[name].by_type and (own := _more_specific(name, seen_by_name, failures)):
            explained.setdefault(name, own)
    # Failures that beat each other in a ring explain nothing.
    left = [name for name in by_time if name not in explained] or by_time
    root = _root(ledger, left, seen_by_name, failures)
    if root is None:
        return ()
    roots = [root]
    for name in left:
        harm_of_its_own = failures[name].severity == "degraded" or not _follows(
            name, root, seen_by_name
        )
        alone = harm_of_its_own and not _weak(failures[name])
        if name != root and alone:
            roots.append(name)
        elif name != root:
            explained.setdefault(name, root)
    return tuple(_cause(name, seen_by_name, failures, explained, roots) for name in roots)


def _more_specific(
    name: str, seen_by_name: dict[str, Occurrences], failures: dict[str, KnownFailure]
) -> str | None:
    origins = seen_by_name[name].by_origin.keys()
    for other, seen in seen_by_name.items():
        failure = failures[other]
        explains = failure.codes or not _weak(failure)
        if failure.by_type or failure.severity != "fatal" or not explains:
            continue
        if seen.by_origin.keys() & origins:
            return other
    return None


def _explains(
    name: str, weaker: str, seen_by_name: dict[str, Occurrences], failures: dict[str, KnownFailure]
) -> bool:
    """Whether one failure is behind another one; who only waited, if it began in its process."""
    if weaker not in seen_by_name:
        return False
    if not failures[name].victim:
        return True
    began, waits = seen_by_name[weaker].first.origin, seen_by_name[name].by_origin
    return began in waits or not began.named or not any(origin.named for origin in waits)


def _weak(failure: KnownFailure) -> bool:
    return failure.secondary or failure.victim


def _root(
    ledger: Ledger,
    names: Sequence[str],
    seen_by_name: dict[str, Occurrences],
    failures: dict[str, KnownFailure],
) -> str | None:
    """What began it, of names in the order of the log.

    An own failure comes before a time-out, unless the same process timed out before. A time-out
    comes before a wrapper that is not long before it, and fatal failures before others.
    """
    fatal = [name for name in names if failures[name].severity == "fatal"]
    if not fatal and ledger.exceptions and ledger.crashed:
        return None  # the exception that ended the run says more than signs of a bad step
    for_itself = [name for name in fatal if not _weak(failures[name])]
    of_ranks = [name for name in for_itself if seen_by_name[name].ranks]
    if of_ranks:  # another program's exception, such as one of the launch script, is not the job's
        for_itself = [name for name in for_itself if name in of_ranks or not failures[name].by_type]
    waited = [name for name in fatal if failures[name].victim and not failures[name].secondary]
    if for_itself:
        first = earliest(seen_by_name[name].first for name in for_itself)
        own = next(name for name in for_itself if seen_by_name[name].first == first)
        return next((name for name in waited if _follows(own, name, seen_by_name)), own)
    wrappers = sorted(fatal, key=lambda name: not failures[name].victim)
    early = _long_before(ledger, waited, wrappers, seen_by_name)
    return next(iter((*early, *waited, *wrappers, *names)), None)


def _long_before(
    ledger: Ledger,
    waited: Sequence[str],
    wrappers: Sequence[str],
    seen_by_name: dict[str, Occurrences],
) -> list[str]:
    """Wrappers in processes that never waited, a minute before anybody else had lost patience."""
    waits = _together(seen_by_name[name] for name in waited)
    began = earliest(waits.by_origin.values())
    if began is None or began.moment is None:
        return []
    latest = began.moment.seconds - _EARLY
    early: dict[str, Sighting] = {}
    for name in wrappers:
        by_origin = seen_by_name[name].by_origin
        first = earliest(sighting for sighting in by_origin.values() if sighting.origin.named)
        # What those who waited print as well says nothing of the others.
        if first and first.moment and not waits.by_origin.keys() & by_origin.keys():
            early.update({name: first} if first.moment.seconds <= latest else {})
    first = earliest(early.values())
    ordered = ledger.in_order((*early.values(), *waits.by_origin.values()))
    return [name for name in early if early[name] == first] if ordered else []


def _follows(name: str, root: str, seen_by_name: dict[str, Occurrences]) -> bool:
    """In every process that has both."""
    shared = set(seen_by_name[name].by_origin) & set(seen_by_name[root].by_origin)
    return bool(shared) and all(
        seen_by_name[root].by_origin[origin].before(seen_by_name[name].by_origin[origin])
        for origin in shared
    )


def _fill(failure: KnownFailure, line: str) -> str:
    """The fix, with what groups of the patterns hold in place of <group>."""
    fix = failure.fix
    for pattern in failure.matches:
        match = re.search(pattern, line) if "(?P<" in pattern else None
        for key, text in (match.groupdict() if match else {}).items():
            fix = fix.replace(f"<{key}>", shlex.quote(text)) if text else fix
    return fix


def _cause(
    name: str,
    seen_by_name: dict[str, Occurrences],
    failures: dict[str, KnownFailure],
    explained: dict[str, str],
    roots: Collection[str],
) -> Cause:
    failure, seen = failures[name], seen_by_name[name]
    own = [effect for effect, by in explained.items() if _top(by, explained, roots) == name]
    lines = sorted(seen.by_origin.values(), key=lambda sighting: sighting.when)[:_LINES]
    return Cause(
        id=name,
        title=failure.title,
        severity="degraded" if failure.severity == "degraded" else "fatal",
        cause=failure.cause,
        fix=_fill(failure, lines[0].text),
        affected=failure.affected,
        before=failure.before,
        caught_by=failure.caught_by,
        sources=failure.sources,
        count=seen.count,
        or_more=seen.or_more,
        ranks=tuple(sorted(seen.ranks)),
        evidence=tuple(evidence(sighting) for sighting in lines),
        consequences=tuple(
            Consequence(
                id=effect,
                title=failures[effect].title,
                count=seen_by_name[effect].count,
                or_more=seen_by_name[effect].or_more,
            )
            for effect in own
            if effect not in roots
        ),
    )


def _top(name: str, explained: dict[str, str], roots: Collection[str]) -> str:
    passed: set[str] = set()
    while name not in roots and name in explained and name not in passed:
        passed.add(name)
        name = explained[name]
    return name


def _gather_unexplained(
    ledger: Ledger,
    root: KnownFailure | None,
    codes: ErrorCodes,
    describer: Describer,
) -> tuple[Unexplained, ...]:
    if root and root.severity == "fatal" and not _weak(root):
        return ()
    kinds: list[_Kind] = []
    kinds += [("exception", seen) for seen in ledger.exceptions.values()]
    kinds += [("death", seen) for seen in ledger.deaths.values()]
    if not kinds:
        kinds += [
            ("code", seen)
            for (kind, code), seen in ledger.codes.items()
            if (kind, code) in ledger.unknown and kind != "hccl" and _meaning(kind, code, codes)
        ]
    if not kinds:
        kinds += [("logged", seen) for seen in ledger.logged.values()]
    for ended in ledger.ended.values() if not kinds else ():
        seen = Occurrences(count=1, by_origin={ended.sighting.origin: ended.sighting})
        kinds += [("death", seen)] if ended.first else []
    kinds.sort(key=lambda kind: (ledger.is_caught(kind[1].first), kind[1].first.order))
    if not (ledger.exceptions or ledger.deaths):
        kinds = [*_innermost_first(kinds)]
    return tuple(
        Unexplained(
            kind=kind,
            count=seen.count,
            or_more=ledger.or_more_unexplained,
            ranks=tuple(sorted(seen.ranks)),
            evidence=evidence(seen.first),
            reading=describer.describe(raised).cause
            if (raised := ledger.raised.get(seen.first.order))
            else describer.describe_death()
            if kind == "death"
            else "",
        )
        for kind, seen in kinds[:_UNEXPLAINED]
    )


def _innermost_first(kinds: Iterable[_Kind]) -> Iterator[_Kind]:
    own: list[_Kind] = []
    frames: list[list[_Kind]] = []
    other: list[_Kind] = []
    source = (0, 0)
    for kind in kinds:
        first = kind[1].first
        if _FRAME.search(first.text):
            frames.append([kind])
            source = (first.order[0], first.order[1] + 1)
        elif _HEAD.search(first.text) or _MARKS.search(first.text):
            other.append(kind)
        elif frames and first.order == source:
            frames[-1].append(kind)
        else:
            own.append(kind)
    yield from own
    for frame in reversed(frames):
        yield from frame
    if not (own or frames):
        yield from other


def _first_error(ledger: Ledger, seen_by_name: dict[str, Occurrences]) -> Evidence | None:
    kinds = (*seen_by_name.values(), *ledger.exceptions.values(), *ledger.deaths.values())
    first = earliest(seen.first for seen in (*kinds, *ledger.codes.values()))
    return evidence(first) if first else None


def _meaning(kind: str, code: str, codes: ErrorCodes) -> str:
    if kind == "reported":
        return codes.reported.get(code, "")
    return (codes.acl if kind == "acl" else codes.hccl).get(int(code), "")


def _codes(ledger: Ledger, codes: ErrorCodes) -> tuple[Code, ...]:
    return tuple(
        Code(
            kind=cast("Literal['reported', 'acl', 'hccl']", kind),
            code=code,
            meaning=_meaning(kind, code, codes),
            count=seen.count,
            or_more=ledger.or_more_unexplained,
            evidence=evidence(seen.first),
        )
        for (kind, code), seen in ledger.codes.items()
    )


def _outcome(
    causes: Sequence[Cause], unexplained: Sequence[Unexplained], stall: Stall | None, *, works: bool
) -> Outcome:
    if causes:
        return "known failure"
    if stall:
        return "stalled"
    if unexplained:
        return "unknown error"
    return "nothing known found" if works else "could not tell"


def _exit_code(
    causes: Sequence[Cause], fail_on: Level, stall: Stall | None, *, unseen: bool
) -> int:
    """1: fatal or ``fail_on``; 3: unexplained, ranks without a log, or nothing shows progress."""
    worst = max(
        (Level.ERROR if cause.severity == "fatal" else Level.WARNING for cause in causes),
        default=Level.OK,
    )
    if unseen or stall:
        worst = max(worst, Level.ERROR if stall and stall.absent else Level.UNKNOWN)
    if worst >= fail_on:
        return EXIT_FINDINGS
    return EXIT_UNKNOWN if worst is Level.UNKNOWN else EXIT_OK
