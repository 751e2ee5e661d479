"""Warnings of the stack that are known: harmless ones are folded and counted."""

import functools
import re
from collections import Counter
from collections.abc import Iterable

from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, note
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import KnownWarning
from ascend_doctor.probe_records.common import ProbeRecord
from ascend_doctor.probe_results import ProbeResult, ProbeRun

TEXTS = Texts("known-warnings")

_SHOWN = 8
_STRANGE = "Not known:"


@functools.cache
def _shipped() -> tuple[KnownWarning, ...]:
    return Catalog().known_warnings


def find_known(line: str, known: Iterable[KnownWarning] = ()) -> KnownWarning | None:
    """The warning that a line is, by these or the matrix."""
    return next((row for row in known or _shipped() if re.search(row.pattern, line)), None)


def fold_known(lines: list[str]) -> list[str]:
    """The lines without known harmless warnings, and the count of these."""
    lines_left = [line for line in lines if not ((entry := find_known(line)) and not entry.symptom)]
    count = len(lines) - len(lines_left)
    return lines_left + ([f"({count} known harmless warning{'s' * (count > 1)})"] if count else [])


@TEXTS.check("known-warnings", level=1)
def known_warnings(case: Case) -> Findings:
    if not any(run.ranks for run in case.facts.probes):
        raise NotApplicable("no probe has run")
    harmless: Counter[str] = Counter()
    strange: Counter[str] = Counter()
    symptoms: dict[str, tuple[ProbeRun, str]] = {}
    for run in case.facts.probes:
        for rank in run.ranks:
            for line, count in rank.warnings.items():
                entry = find_known(line, case.catalog.known_warnings)
                if entry is None:
                    strange[line] += count
                elif entry.symptom and _is_patched(rank):
                    symptoms.setdefault(entry.id, (run, line))
                else:
                    harmless[entry.id] += count
    for run, line in symptoms.values():
        yield TEXTS.finding("late", run=run, line=line)
    if not symptoms:
        yield note(
            "Known harmless warnings are folded" if harmless else "Nothing known is warned of",
            observed=", ".join(f"{name} {count}x" for name, count in harmless.most_common()),
            because=_list_strange(strange),
        )


def _is_patched(rank: ProbeResult) -> bool:
    record = rank.record_or_none(ProbeRecord)
    return record is not None and record.through == "mindspeed.megatron_adaptor"


def _list_strange(strange: Counter[str]) -> str:
    if not strange:
        return ""
    lines = [f"{line} ({count}x)" for line, count in strange.most_common(_SHOWN)]
    more = len(strange) - len(lines)
    return "\n".join([_STRANGE, *lines, *([f"and {more} more"] if more > 0 else [])])
