"""Diagnoses of texts, and of logs of several ranks."""

import functools
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ascend_doctor.diagnosis.job import JobOptions, JobReader
from ascend_doctor.diagnosis.logs import find
from ascend_doctor.diagnosis.patterns import Patterns
from ascend_doctor.diagnosis.result import Diagnosis, Guilt
from ascend_doctor.matrix.catalog import Catalog
from tests.present import present


@functools.cache
def catalog() -> Catalog:
    return Catalog()


@functools.cache
def patterns() -> Patterns:
    return Patterns(catalog().recognized_failures.values())


def of_paths(*paths: Path, node_rank: int | None = None) -> Diagnosis:
    named, skipped = find(tuple(map(str, paths)))
    return reader(JobOptions(node_rank=node_rank)).diagnose(named, skipped)


def reader(options: JobOptions) -> JobReader:
    matrix = catalog()
    return JobReader(
        failures=matrix.recognized_failures,
        codes=matrix.error_codes,
        patterns=patterns(),
        options=options,
    )


def of_files(files: Mapping[str, str | bytes]) -> Diagnosis:
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return of_paths(Path(folder))


def of_text(text: str | bytes) -> Diagnosis:
    return of_files({"train.log": text})


def answer(diagnosis: Diagnosis) -> str:
    """The id of the root cause, unknown or none."""
    if diagnosis.causes:
        return diagnosis.causes[0].id
    return "unknown" if diagnosis.unexplained else "none"


def guilty_of(diagnosis: Diagnosis) -> Guilt:
    return present(diagnosis.guilty)


def read_pairs(table: str) -> list[tuple[str, str]]:
    """Lines of logs with their answers, of a text that has them indented below their answer."""
    pairs, identity = [], ""
    for row in table.strip("\n").split("\n"):
        if row.startswith("  "):
            pairs.append((row[2:].encode().decode("unicode_escape"), identity))
        else:
            identity = row
    return pairs
