"""The solver over the full matrix: every Megatron-LM release alone and with each framework.

    python benchmarks/solve.py [--questions N] [--smoke]

Asks at most N questions, 180 if not said, spread evenly over all of them. Prints the median and the
largest seconds of a solution, of one with the matrix read afresh (from the cache of the machine),
and of the reasons for every fifth question without a stack, 20 at most. The ratio is that of the
median solution to reading the matrix.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision.conflict import refusal
from ascend_doctor.provision.request_ranges import FRAMEWORKS, StackRequest
from ascend_doctor.provision.solve import Solution, SolveQuery, solve

T = TypeVar("T")
MACHINES = (
    {},
    {"arch": "x86_64", "soc": "ascend910b", "cann": "9.0.0", "python": "3.11"},
    {"arch": "aarch64", "soc": "ascend910_93", "cann": "8.2.RC1", "driver": "25.2.0"},
)
MAX_REFUSALS, MAX_READS = 20, 20


def timed(call: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


def spread(rows: Sequence[T], count: int) -> list[T]:
    """At most so many rows, evenly from all of them."""
    count = min(count, len(rows))
    return [rows[len(rows) * number // count] for number in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=180)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    options = parser.parse_args()
    rows = Catalog()
    every = [
        SolveQuery(
            wishes=StackRequest(megatron=row.version, framework=framework).ranges(rows),
            machine=machine,
        )
        for row in rows.component("megatron-lm").releases
        for framework in (None, *FRAMEWORKS)
        for machine in MACHINES
    ]
    solve(rows, every[0])
    questions = spread(every, 3 if options.smoke else options.questions)
    answers = [(*timed(functools.partial(solve, rows, query)), query) for query in questions]
    unsolved = [query for _, solution, query in answers if solution is None]
    few = 1 if options.smoke else MAX_REFUSALS
    refused = [timed(functools.partial(refusal, rows, query))[0] for query in spread(unsolved, few)]
    some = spread(questions, 1 if options.smoke else MAX_READS)
    afresh = [timed(functools.partial(solve_afresh, query))[0] for query in some]
    reading = statistics.median(timed(read_matrix)[0] for _ in some)
    print(f"questions                {len(questions)} of {len(every)}, {len(unsolved)} unsolved")
    times = [seconds for seconds, _, _ in answers]
    for title, measured in (
        ("solve", times),
        ("solve, matrix read too", afresh),
        ("reasons of a refusal", refused),
    ):
        print(f"{title:<24} {statistics.median(measured):.3f} s, at most {max(measured):.3f} s")
    print(f"read the matrix          {reading:.3f} s")
    print(f"ratio of the medians     {statistics.median(times) / reading:.2f}")


def read_matrix() -> Catalog:
    rows = Catalog()
    assert rows.components  # noqa: S101 - reads all of them
    return rows


def solve_afresh(question: SolveQuery) -> Solution | None:
    return solve(read_matrix(), question)


if __name__ == "__main__":
    main()
