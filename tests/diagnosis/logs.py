"""Diagnoses of texts, and of logs of several ranks."""

import functools
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ascend_doctor.diagnosis.job import JobOptions, JobReader
from ascend_doctor.diagnosis.logs import find
from ascend_doctor.diagnosis.patterns import Patterns
from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.matrix.catalog import Catalog


@functools.cache
def catalog() -> Catalog:
    return Catalog()


@functools.cache
def patterns() -> Patterns:
    return Patterns(catalog().failures.values())


def of_paths(*paths: Path, node_rank: int | None = None) -> Diagnosis:
    named, skipped = find(tuple(map(str, paths)))
    return reader(JobOptions(node_rank=node_rank)).diagnose(named, skipped)


def reader(options: JobOptions) -> JobReader:
    matrix = catalog()
    return JobReader(
        failures=matrix.failures, codes=matrix.error_codes, patterns=patterns(), options=options
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
