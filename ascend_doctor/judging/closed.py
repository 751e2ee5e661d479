"""Paths that this user may not open: what lies there is not known to be absent."""

from collections.abc import Iterator

from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, warning


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


def odd_lines(case: Case, *starts: str) -> Iterator[Finding]:
    """Lines that their readers do not take, of files whose paths begin so."""
    for odd in case.facts.host.odd_lines if case.facts.host else ():
        if odd.path.startswith(starts):
            returns = odd.text.endswith("\r")
            yield warning(
                f"Line {odd.line} of {odd.path} "
                + ("ends with a carriage return (CR LF)" if returns else "is not of its format"),
                observed=f"{odd.path}:{odd.line}: {odd.text!r}",
                required="a line of the form of the others, without blanks around",
                because="It is left out, or taken for something else.",
                remedy=f"Correct line {odd.line} of {odd.path}",
                commands=(f"sudo sed -i 's/\\r$//' {odd.path}",) if returns else (),
            )


def list_import_places(case: Case) -> Iterator[str]:
    """Folders that the examined Python imports from, checkouts in editable mode included."""
    python = case.facts.python
    if python is not None:
        yield from (entry for entry in python.sys_path if entry.startswith("/"))
        for package in python.distributions:
            if package.editable and package.direct_url:
                yield package.direct_url.removeprefix("file://")
