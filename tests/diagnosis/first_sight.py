"""How well logs are diagnosed that nobody has looked at: `python -m tests.diagnosis.first_sight`.

The rows of `first_sight/` were labelled and committed before the first run on them. Each is an
excerpt of a public log with the root cause, and who is guilty where its source says so. From the
twenty-third set on the logs are not ours to carry: a row has the address and a digest, and the
logs lie in a folder that ASCEND_DOCTOR_TEST_LOGS names (`DIGEST.json`, a text by file name).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.machine.parsing import read_yaml
from tests.diagnosis.logs import answer, of_files

FOLDER = Path(__file__).with_name("first_sight")
LOGS = os.environ.get("ASCEND_DOCTOR_TEST_LOGS", "")

# The others came later; the catalogue has since learnt from all.
KINDS = (
    *("failing", "vendor", "foreign", "healthy"),
    *("second-failing", "second-foreign", "second-healthy"),
    *("third-failing", "third-foreign", "third-healthy"),
    *("fourth-failing", "fourth-foreign", "fourth-healthy"),
    *("fifth-failing", "fifth-foreign", "fifth-healthy"),
    *("sixth-failing", "sixth-foreign", "sixth-healthy"),
    *("seventh-failing", "seventh-foreign", "seventh-healthy"),
    *("eighth-failing", "eighth-foreign", "eighth-healthy"),
    *("ninth-failing", "ninth-foreign", "ninth-healthy"),
    *("tenth-failing", "tenth-foreign", "tenth-healthy"),
    *("eleventh-failing", "eleventh-foreign", "eleventh-healthy"),
    *("twelfth-failing", "twelfth-foreign", "twelfth-healthy"),
    *("thirteenth-failing", "thirteenth-foreign", "thirteenth-healthy"),
    *("fourteenth-failing", "fourteenth-foreign", "fourteenth-healthy"),
    *("fifteenth-failing", "fifteenth-foreign", "fifteenth-healthy"),
    *("sixteenth-failing", "sixteenth-foreign", "sixteenth-healthy"),
    *("seventeenth-failing", "seventeenth-foreign", "seventeenth-healthy"),
    *("eighteenth-failing", "eighteenth-foreign", "eighteenth-healthy"),
    *("nineteenth-failing", "nineteenth-foreign", "nineteenth-healthy"),
    *("twentieth-failing", "twentieth-healthy"),
    *("twenty-first-failing", "twenty-first-foreign", "twenty-first-healthy"),
    *("twenty-second-failing", "twenty-second-foreign", "twenty-second-healthy"),
    *("twenty-third-failing", "twenty-third-foreign", "twenty-third-healthy"),
    *("twenty-fourth-failing", "twenty-fourth-foreign", "twenty-fourth-healthy"),
    *("twenty-fifth-failing", "twenty-fifth-foreign", "twenty-fifth-healthy"),
)

Guilt = Literal["right", "could not tell", "wrong"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """``guilty`` of None is not judged; an empty one means that nobody may be accused.

    ``also`` are answers that are as right as ``root``, ``now`` is the entry that the catalogue
    learnt from the case, after the first run.
    """

    source: str
    root: str
    now: str
    also: tuple[str, ...]
    guilty: tuple[int, ...] | None
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    case: Case
    root: str
    exit_code: int
    guilty: Guilt | None

    @property
    def right(self) -> bool:
        return self.root in {self.case.now or self.case.root, *self.case.also}


def cases(files: str) -> Iterator[Case]:
    for path in sorted(FOLDER.glob(f"{files}.yaml")):
        for row in read_yaml(path):
            guilty = row.get("guilty")
            yield Case(
                source=row["source"],
                root=row["root"],
                now=row.get("now", ""),
                also=tuple(row.get("also", ())),
                guilty=None if guilty is None else tuple(guilty),
                files=_kept(row["sha256"]) if "sha256" in row else _carried(row),
            )


def _carried(row: Mapping[str, Any]) -> dict[str, str]:
    return row.get("files") or {"train.log": row["text"]}


def _kept(digest: str) -> dict[str, str]:
    """The logs of a row that has their digest alone. Raises OSError where they are not here."""
    data = Path(LOGS, f"{digest}.json").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{digest}.json: other logs than those that were labelled")
    return msgspec.json.decode(data, type=dict[str, str])


def answers(files: str) -> list[Answer]:
    return [_answered(case) for case in cases(files)]


def _answered(case: Case) -> Answer:
    found = of_files(case.files)
    guilty = None if case.guilty is None else _judged(found, case.guilty)
    return Answer(case=case, root=answer(found), exit_code=found.exit_code, guilty=guilty)


def _judged(found: Diagnosis, guilty: tuple[int, ...]) -> Guilt:
    if found.guilty is None:
        return "right" if not guilty else "could not tell"
    return "right" if found.guilty.ranks == guilty else "wrong"


@click.command()
@click.argument("kinds", nargs=-1)
def main(kinds: tuple[str, ...]) -> None:
    """How well the sets of these kinds are diagnosed, all of them by default."""
    for kind in kinds or KINDS:
        try:
            told = answers(kind)
        except FileNotFoundError:
            click.echo(f"{kind}: not run, ASCEND_DOCTOR_TEST_LOGS names no folder with its logs")
            continue
        judged = [one for one in told if one.guilty]
        for one in told:
            if not one.right or one.guilty == "wrong":
                said = f"{one.root} ({one.exit_code})" + (f", {one.guilty}" if one.guilty else "")
                click.echo(f"  {one.case.source}: {one.case.root}, told as {said}")
        known = [one for one in told if (one.case.now or one.case.root) not in {"unknown", "none"}]
        parts = [
            f"{kind}: {sum(one.right for one in told)} of {len(told)} right",
            f"known causes {sum(one.right for one in known)} of {len(known)}",
            f"{sum(one.exit_code == 0 for one in told)} with exit code 0",
            f"guilt right {sum(one.guilty == 'right' for one in judged)} of {len(judged)}",
            f"guilt wrong {sum(one.guilty == 'wrong' for one in judged)}",
        ]
        click.echo("; ".join(parts))


if __name__ == "__main__":
    main()
