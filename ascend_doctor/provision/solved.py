"""What was solved before for the same question and rows, from the user's cache."""

import contextlib
from pathlib import Path

import msgspec

from ascend_doctor.matrix import queries, versions
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.loading import CacheEntry
from ascend_doctor.provision import demand, solve
from ascend_doctor.provision.solve import Solution, SolveQuery

_CODE = (solve, demand, queries, versions)


def solve_once(catalog: Catalog, question: SolveQuery) -> Solution | None:
    """As ``solve``; searches only if question, rows or its code changed."""
    entry = CacheEntry.of("solutions", _decisive(catalog, question))
    with contextlib.suppress(msgspec.ValidationError):
        return solve.solution(catalog, question, msgspec.convert(entry.get(), dict[str, str]))
    pins = solve.solve_pins(catalog, question)
    if pins is None:
        return None
    entry.put(pins)
    return solve.solution(catalog, question, pins)


def _decisive(catalog: Catalog, question: SolveQuery) -> bytes:
    asked = (question.wishes, question.machine, question.bounds, question.doubts)
    code = (Path(str(module.__file__)).read_bytes() for module in _CODE)
    return b"".join(
        (
            msgspec.json.encode((*asked, sorted(question.accepted))),
            catalog.digest("components", "stacks"),
            *code,
        )
    )
