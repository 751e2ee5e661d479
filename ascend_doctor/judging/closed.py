"""Paths that this user may not open: what lies there is not known to be absent."""

from collections.abc import Iterator

from ascend_doctor.errors import Unknown
from ascend_doctor.judging.judge import Case


def list_closed(case: Case, *places: str) -> Iterator[str]:
    """Closed paths at, above or below one of ``places``."""
    for path in case.facts.refused:
        for folder in places:
            inner, outer = f"{path}/", f"{folder.rstrip('/')}/"
            if inner.startswith(outer) or outer.startswith(inner):
                yield path


def require_open(case: Case, *places: str) -> None:
    """Raises Unknown for a closed path. Call it before a finding calls something there absent."""
    for path in list_closed(case, *places):
        raise Unknown(f"this user may not open {path}")


def list_import_places(case: Case) -> Iterator[str]:
    """Folders that the examined Python imports from, checkouts in editable mode included."""
    python = case.facts.python
    if python is not None:
        yield from (entry for entry in python.sys_path if entry.startswith("/"))
        for package in python.distributions:
            if package.editable and package.direct_url:
                yield package.direct_url.removeprefix("file://")
