"""The solver over the full matrix: every Megatron-LM release alone and with each framework.

    python benchmarks/solve.py

Prints the median and the largest seconds of a solution, with the matrix at hand and with the matrix
read afresh for it (from the cache of the machine), and of the reasons where there is no solution.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision.conflict import refusal
from ascend_doctor.provision.request_ranges import FRAMEWORKS, wishes
from ascend_doctor.provision.solve import Solution, SolveQuery, solve

T = TypeVar("T")
MACHINES = (
    {},
    {"arch": "x86_64", "soc": "ascend910b", "cann": "9.0.0", "python": "3.11"},
    {"arch": "aarch64", "soc": "ascend910_93", "cann": "8.2.RC1", "driver": "25.2.0"},
)


def timed(call: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def main() -> None:
    rows = Catalog()
    questions = [
        SolveQuery(wishes=wishes(rows, row.version, framework), machine=machine)
        for row in rows.component("megatron-lm").releases
        for framework in (None, *FRAMEWORKS)
        for machine in MACHINES
    ]
    solve(rows, questions[0])
    found = [(*timed(functools.partial(solve, rows, one)), one) for one in questions]
    fresh = [timed(functools.partial(afresh, one))[0] for one in questions[:: len(questions) // 40]]
    without = [one for _, solution, one in found if solution is None]
    refused = [timed(functools.partial(refusal, rows, one))[0] for one in without[::5]]
    print(f"questions                {len(questions)}, {len(without)} without an answer")
    for title, times in (
        ("solve", [one for one, _, _ in found]),
        ("solve, matrix read too", fresh),
        ("reasons of a refusal", refused),
    ):
        print(f"{title:<24} {statistics.median(times):.3f} s, at most {max(times):.3f} s")


def afresh(question: SolveQuery) -> Solution | None:
    rows = Catalog()
    assert rows.components  # noqa: S101 - reads all of them
    return solve(rows, question)


if __name__ == "__main__":
    main()
