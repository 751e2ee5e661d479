"""How well `diagnose` answers labelled logs: `python -m tests.diagnosis.labelled`.

The logs belong to others. They lie in the folder that ASCEND_DOCTOR_TEST_LOGS names:
`first_sight/` with a file per set and kind, `threads/` with a file per subject, and `DIGEST.json`
with the texts of a row that has a digest alone. `labelled.tsv` records each case, and
`labelled_floors.tsv` the right answers of each set.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import click
import msgspec

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.errors import DataError
from tests.diagnosis.labelled_cases import (
    Case,
    Label,
    Record,
    find_mismatches,
    read_cases,
    read_records,
    with_recorded,
    write_records,
)
from tests.diagnosis.logs import answer, of_files

VARIABLE = "ASCEND_DOCTOR_TEST_LOGS"
FLOORS = Path(__file__).with_name("labelled_floors.tsv")
CHUNK = 4
FAULTS = {
    "accused": "a rank is accused wrongly",
    "alarm": "a healthy log is reported as failed",
    "fine": "a failed run is called fine",
}

Guilt = Literal["right", "unknown", "wrong"]
Set = tuple[str, str]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """``near``: the right root is a cause, but not the first."""

    label: Label
    root: str
    right: bool
    near: bool
    exit_code: int
    guilty: Guilt | None

    @property
    def faults(self) -> frozenset[str]:
        """A rank accused wrongly, a healthy log with a failure, a failed run called fine."""
        healthy = self.label.root == "none"
        present = {
            "accused": self.guilty == "wrong",
            "alarm": healthy and (self.exit_code == 1 or self.root not in {"none", "unknown"}),
            "fine": not healthy and self.exit_code == 0,
        }
        return frozenset(name for name in FAULTS if present[name])


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """``read``: cases whose texts the folder has; other figures count these."""

    set: str
    kind: str
    cases: int
    read: int
    right: int
    near: int
    guilty_right: int
    guilty_unknown: int
    guilty_wrong: int
    exit_0: int
    exit_1: int
    exit_3: int


def answer_case(case: Case) -> Answer | None:
    if case.files is None:
        return None
    diagnosis = of_files(case.files)
    label, root = case.label, answer(diagnosis)
    others = {cause.id for cause in diagnosis.causes[1:]}
    return Answer(
        label=label,
        root=root,
        right=root in label.right,
        near=root not in label.right and bool(others & label.right),
        exit_code=diagnosis.exit_code,
        guilty=None if label.guilty is None else _judge(diagnosis, label.guilty),
    )


def _judge(diagnosis: Diagnosis, guilty: tuple[int, ...]) -> Guilt:
    if diagnosis.guilty is None:
        return "right" if not guilty else "unknown"
    return "right" if diagnosis.guilty.ranks == guilty else "wrong"


def answer_all(cases: list[Case], processes: int) -> list[Answer]:
    if processes == 1:
        answers = list(map(answer_case, cases))
    else:
        with ProcessPoolExecutor(processes) as pool:
            answers = list(pool.map(answer_case, cases, chunksize=CHUNK))
    return [each for each in answers if each]


def count(cases: Iterable[Case], answers: Iterable[Answer]) -> list[Figures]:
    sizes: dict[Set, int] = defaultdict(int)
    for case in cases:
        sizes[case.label.set, case.label.kind] += 1
    by_set: dict[Set, list[Answer]] = defaultdict(list)
    for each in answers:
        by_set[each.label.set, each.label.kind].append(each)
    return [_count_set(name, size, by_set[name]) for name, size in sizes.items()]


def _count_set(name: Set, size: int, answers: list[Answer]) -> Figures:
    guilty = [each.guilty for each in answers]
    codes = [each.exit_code for each in answers]
    return Figures(
        set=name[0],
        kind=name[1],
        cases=size,
        read=len(answers),
        right=sum(each.right for each in answers),
        near=sum(each.near for each in answers),
        guilty_right=guilty.count("right"),
        guilty_unknown=guilty.count("unknown"),
        guilty_wrong=guilty.count("wrong"),
        exit_0=codes.count(0),
        exit_1=codes.count(1),
        exit_3=codes.count(3),
    )


class Floor(NamedTuple):
    """Least right answers of a set: root causes, guilty ranks."""

    right: int = 0
    guilty_right: int = 0


def read_floors() -> dict[Set, Floor]:
    if not FLOORS.exists():
        return {}
    rows = [line.split("\t") for line in FLOORS.read_text("utf-8").splitlines()[1:]]
    return {(name, kind): Floor(int(right), int(guilty)) for name, kind, right, guilty in rows}


def find_regressions(
    figures: Iterable[Figures],
    answers: Iterable[Answer],
    records: Mapping[tuple[str, str, str], Record],
) -> list[str]:
    """Sets below their floor, and faults not excused."""
    floors = read_floors()
    problems = []
    for each in figures:
        floor = floors.get((each.set, each.kind), Floor())
        absent = each.cases - each.read
        if each.right + absent < floor.right:
            problems.append(f"set {each.set}, {each.kind}: {each.right} right, not {floor.right}")
        if each.guilty_right + absent < floor.guilty_right:
            problems.append(
                f"set {each.set}, {each.kind}: {each.guilty_right} guilty ranks right, "
                f"not {floor.guilty_right}"
            )
    for case in answers:
        recorded = records.get(case.label.key)
        excused = recorded.excused if recorded else frozenset()
        problems += [f"{case.label.name}: {FAULTS[name]}" for name in case.faults - excused]
    return problems


def record(cases: list[Case], answers: list[Answer], figures: list[Figures]) -> None:
    """Write table and floors: floors only rise, only a new case gets an excuse."""
    before, floors = read_records(), read_floors()
    faults = {each.label.key: each.faults for each in answers}
    records = []
    for label in (case.label for case in cases):
        excused = faults.get(label.key, frozenset())
        if label.key in before:
            earlier = before[label.key].excused
            excused = excused & earlier if label.key in faults else earlier
        records.append(Record(label=label, excused=excused))
    write_records(records)
    lines = ["set\tkind\tright\tguilty right"]
    for each in figures:
        floor = floors.get((each.set, each.kind), Floor())
        right, guilty = max(each.right, floor.right), max(each.guilty_right, floor.guilty_right)
        lines.append(f"{each.set}\t{each.kind}\t{right}\t{guilty}")
    FLOORS.write_text("\n".join(lines) + "\n", "utf-8")


def render(figures: list[Figures]) -> str:
    names = Figures.__struct_fields__
    rows = [[name.replace("_", " ") for name in names]]
    rows += [[str(getattr(each, name)) for name in names] for each in figures]
    numbers = [[getattr(each, name) for each in figures] for name in names[2:]]
    rows.append(["all", "", *(str(sum(column)) for column in numbers)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def render_wrong(answers: Iterable[Answer]) -> str:
    return "\n".join(
        f"{each.label.name}: {each.label.now or each.label.root}, answered {each.root} "
        f"(exit code {each.exit_code}{', guilt ' + each.guilty if each.guilty else ''})"
        for each in answers
        if not each.right or each.guilty == "wrong"
    )


def as_json(figures: list[Figures], answers: list[Answer], problems: list[str]) -> str:
    cases = [
        {
            "set": each.label.set,
            "kind": each.label.kind,
            "digest": each.label.digest,
            "root": each.root,
            "right": each.right,
            "near": each.near,
            "exit_code": each.exit_code,
            "guilty": each.guilty,
        }
        for each in answers
    ]
    page = {"sets": msgspec.to_builtins(figures), "problems": problems, "cases": cases}
    return msgspec.json.format(msgspec.json.encode(page), indent=1).decode()


@click.command()
@click.option("--json", "in_json", is_flag=True, help="Print JSON, with the answer to each case.")
@click.option("--wrong", is_flag=True, help="List the cases with a wrong answer.")
@click.option("--record", "recording", is_flag=True, help="Record new cases and better figures.")
@click.option("--processes", default=2, show_default=True, help="Number of processes.")
def main(*, in_json: bool, wrong: bool, recording: bool, processes: int) -> None:
    """Diagnose the labelled logs and print the figures by set.

    Exit code 1: a text or label is not the recorded one, or a figure is worse than recorded.
    """
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        _refuse(f"{VARIABLE} is not set; set it to the folder with the labelled logs")
    try:
        cases = with_recorded(read_cases(Path(folder)), read_records())
    except (DataError, OSError) as error:
        _refuse(f"{VARIABLE}: {error}")
    answers = answer_all(cases, processes)
    figures = count(cases, answers)
    if recording:
        record(cases, answers, figures)
    records = read_records()
    problems = [*find_mismatches(cases, records), *find_regressions(figures, answers, records)]
    click.echo(as_json(figures, answers, problems) if in_json else render(figures))
    if wrong:
        click.echo(render_wrong(answers), err=in_json)
    for problem in problems:
        click.echo(problem, err=in_json)
    sys.exit(1 if problems else 0)


def _refuse(reason: str) -> NoReturn:
    click.echo(f"error: {reason}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
