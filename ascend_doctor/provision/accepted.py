"""Documented conflicts that a user accepts: which would give a stack, and pip without them."""

import re
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import component_of
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision.request_ranges import FRAMEWORKS
from ascend_doctor.provision.solve import Solution, SolveQuery, fewest_doubts, pin, solution, solve

Conflict = tuple[str, str]
# Each is a search of its own.
_MOST = 4
# No flag changes a machine.
_FIXED = ("python", "arch", "glibc", "soc")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def parse_conflicts(catalog: Catalog, texts: Iterable[str]) -> frozenset[Conflict]:
    """What --accept names, as WHO:WHAT. Raises DataError unless both are components."""
    conflicts = set()
    for text in texts:
        names = text.split(":")
        known = [component_of(catalog, name) for name in names]
        if len(known) != 2 or None in known:  # noqa: PLR2004 - a pair
            raise DataError(f"--accept {text}: give two components, as verl:torch for its need")
        conflicts.add((str(known[0]), str(known[1])))
    return frozenset(conflicts)


def conflicts_to_accept(catalog: Catalog, question: SolveQuery) -> tuple[Conflict, ...]:
    """The documented conflicts without which a stack exists; none if no flag would help.

    A framework's own needs give way before those of Megatron and MindSpeed.
    """
    accepted = _accept_until(catalog, question, frameworks=True)
    if accepted is None:
        doubtful = replace(question, doubts=True)
        accepted = _accept_until(catalog, doubtful, frameworks=False)
        if accepted is None:
            return ()
        doubtful = replace(doubtful, accepted=accepted)
        pins = pin(catalog, doubtful)
        if isinstance(pins, dict):
            nearest = solution(catalog, doubtful, fewest_doubts(catalog, doubtful, pins))
            accepted |= {
                _pair(doubt.by, doubt.need.component) for doubt in nearest.doubts if not doubt.named
            }
    return tuple(sorted(_leave_out_idle(catalog, question, accepted) - question.accepted))


def _leave_out_idle(
    catalog: Catalog, question: SolveQuery, accepted: frozenset[Conflict]
) -> frozenset[Conflict]:
    """The accepted conflicts that the resulting stack has; none without a stack.

    A need at which the search first ended may be met by a later result.
    """
    solved = solve(catalog, replace(question, accepted=accepted))
    if solved is None:
        return frozenset()
    met = {_pair(doubt.by, doubt.need.component) for doubt in solved.doubts}
    needed = question.accepted | (accepted & met)
    return (
        accepted if needed == accepted else _leave_out_idle(catalog, question, needed) or accepted
    )


def _accept_until(
    catalog: Catalog, question: SolveQuery, *, frameworks: bool
) -> frozenset[Conflict] | None:
    accepted = question.accepted
    for _ in range(_MOST):
        pins = pin(catalog, replace(question, accepted=accepted))
        if isinstance(pins, dict):
            return accepted
        ends = (
            _pair(cause.by, cause.component)
            for cause in pins
            if cause.need is not None and cause.component not in _FIXED
        )
        fresh = sorted({*ends} - accepted, key=lambda pair: (pair[0] not in FRAMEWORKS, pair))
        if not fresh or (frameworks and fresh[0][0] not in FRAMEWORKS):
            return None
        accepted |= {fresh[0]}
    return None


def _pair(by: str, component: str) -> Conflict:
    return by.partition(" ")[0], component


def describe_accepted(solved: Solution, accepted: frozenset[Conflict]) -> dict[str, str]:
    """Each conflict of a solution, as the lock records it. Raises DataError for one it lacks."""
    texts = {}
    for doubt in solved.doubts:
        conflict = _pair(doubt.by, doubt.need.component)
        if conflict in accepted:
            instead = doubt.version or ", ".join(solved.ranges.get(doubt.need.component, ()))
            needed = f"{doubt.by} needs {doubt.need.component} {doubt.need.versions}"
            texts[":".join(conflict)] = f"{needed}; the stack has {instead}"
    if idle := sorted({":".join(conflict) for conflict in accepted} - texts.keys()):
        raise DataError(f"--accept {idle[0]}: the stack meets that need; leave the option out")
    return texts


def names_without_need(catalog: Catalog, accepted: Iterable[str]) -> dict[str, frozenset[str]]:
    """By component, the distributions that it may no longer ask pip for."""
    names: dict[str, frozenset[str]] = {}
    for text in accepted:
        who, _, what = text.partition(":")
        distribution = normalised(catalog.component(what).obtain.distribution or what)
        names[who] = names.get(who, frozenset()) | {distribution}
    return names


def relax_wheel(file: Path, folder: Path, names: frozenset[str]) -> Path:
    """A wheel without code that requires what ``file`` does, without ``names``."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / file.name
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(target, "w") as relaxed:
        for member in archive.namelist():
            if re.fullmatch(r"[^/]+\.dist-info/(METADATA|WHEEL|RECORD)", member):
                text = archive.read(member).decode("utf-8", "replace")
                if member.endswith("METADATA"):
                    text = relax_metadata(text, names)
                # A fixed time: equal wheels give equal files.
                relaxed.writestr(zipfile.ZipInfo(member), text)
    return target


def relax_metadata(text: str, names: frozenset[str]) -> str:
    """Core metadata without requirements on ``names``; the description stays."""
    head, blank, body = text.partition("\n\n")
    lines = [line for line in head.split("\n") if not _asks_for(line, names)]
    return "\n".join(lines) + blank + body


def _asks_for(line: str, names: frozenset[str]) -> bool:
    field, mark, value = line.partition(":")
    return bool(mark) and field == "Requires-Dist" and requires(value, names)


def requires(line: str, names: frozenset[str]) -> bool:
    """Whether a pip requirement is for one of these distributions."""
    match = _REQUIREMENT.match(line)
    return match is not None and normalised(match[1]) in names
