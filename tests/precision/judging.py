"""Whether what is said of a fault is its label, and of how many faults it is.

usage: python -m tests.precision.judging

writes the table of docs/records/compare.md from seen.jsonl. The tests of faults write such rows,
one a job, to faults.jsonl in a folder of records.
"""

import json
import re
import time
from pathlib import Path
from typing import NamedTuple

from ascend_doctor.precision.dumps import read_dump
from ascend_doctor.precision.parting import Parting, find_partings
from ascend_doctor.precision.tolerances import DEFAULTS
from ascend_doctor.precision.wording import direction, explain
from tests.knobs import record_path
from tests.precision.programs.cases import SEED, Fault, faults, variants

RANKS = 2
SEEN = Path(__file__).with_name("seen.jsonl")
PAGE = Path(__file__).parents[2] / "docs/records/compare.md"
_HEAD = "| on | seed | job | sight | module | and direction | healthy, silent | otherwise rounded |"
_TABLE = re.compile(rf"(?<={re.escape(_HEAD)}\n)(\|.*\n)+")


class Verdict(NamedTuple):
    """Whether the named module is right, and what is wrong ("" if nothing)."""

    module: bool
    wrong: str


def first_parting(reference: Path, other: Path) -> Parting | None:
    left, right = read_dump(str(reference)), read_dump(str(other))
    assert list(left.ranks) == list(right.ranks) == [f"rank {rank}" for rank in range(RANKS)]
    pairs = {rank: (left.ranks[rank].records, right.ranks[rank].records) for rank in left.ranks}
    partings = find_partings(pairs, DEFAULTS)
    return min(filter(None, partings.values()), key=lambda parting: parting.agreed, default=None)


def judge(folder: Path, fault: Fault) -> Verdict:
    parting = first_parting(folder / "cpu" / fault.variant.name, folder / "npu" / fault.name)
    if parting is None:
        return Verdict(module=False, wrong=f"{fault}: not seen")
    module = parting.module == fault.module
    if module and direction(parting) in fault.directions:
        return Verdict(module=True, wrong="")
    summary = f"{parting.module} {direction(parting)} {parting.record.key}"
    return Verdict(module, f"{fault}: {summary}, {explain(parting, ('CPU', 'NPU'))}")


def report_partings(job: str, folder: Path, other: str) -> dict[str, Parting]:
    partings = {
        variant.name: first_parting(folder / "cpu" / variant.name, folder / other / variant.name)
        for variant in variants(job)
    }
    return {name: parting for name, parting in partings.items() if parting}


def record(job: str, folder: Path) -> None:
    """Add a job's figures to the source of the page's table, if recording."""
    path = record_path("faults.jsonl")
    if path is None:
        return
    verdicts = [judge(folder, fault) for fault in faults(job)]
    runs = len(variants(job))
    row = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seed": SEED,
        "job": job,
        "faults": len(verdicts),
        "module": sum(verdict.module for verdict in verdicts),
        "direction": sum(not verdict.wrong for verdict in verdicts),
        "healthy": runs,
        "silent": runs - len(report_partings(job, folder, "npu")),
    }
    if (folder / "rounded").exists():
        row["rounded"] = runs - len(report_partings(job, folder, "rounded"))
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def with_table(page: str) -> str:
    rows = [json.loads(line) for line in SEEN.read_text("utf-8").splitlines()]
    before: set[tuple[int, str]] = set()
    text = ""
    for row in rows:
        drawn = (row["seed"], row["job"])
        sight = "again" if drawn in before else "first"
        before.add(drawn)
        rounded = f"{row['rounded']}/{row['healthy']}" if "rounded" in row else "-"
        text += (
            f"| {row['date']} | {row['seed']} | `{row['job']}` | {sight} | "
            f"{row['module']}/{row['faults']} | {row['direction']}/{row['faults']} | "
            f"{row['silent']}/{row['healthy']} | {rounded} |\n"
        )
    return _TABLE.sub(lambda _: f"|{' --- |' * 8}\n{text}", page, count=1)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
