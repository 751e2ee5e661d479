"""Paths that this user may not open: what lies there is not known to be absent."""

from collections.abc import Iterator

from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Finding, spans
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
    lines = case.facts.host.odd_lines if case.facts.host else ()
    for path in dict.fromkeys(odd.path for odd in lines if odd.path.startswith(starts)):
        of = [odd for odd in lines if odd.path == path]
        returns = all(odd.text.endswith("\r") for odd in of)
        what = "end with a carriage return (CR LF)" if returns else "are not of its format"
        where = spans(odd.line for odd in of)
        yield warning(
            f"Lines of {path} {what}: {where}",
            observed="; ".join(f"{path}:{odd.line}: {odd.text!r}" for odd in of[:4]),
            required="lines of the form of the others, without blanks around",
            because="They are left out, or taken for something else.",
            remedy=f"Correct {path}, line {where}",
            commands=(f"sudo sed -i 's/\\r$//' {path}",) if returns else (),
        )


def list_import_places(case: Case) -> Iterator[str]:
    """Folders that the examined Python imports from, checkouts in editable mode included."""
    python = case.facts.python
    if python is not None:
        yield from (entry for entry in python.sys_path if entry.startswith("/"))
        for package in python.distributions:
            if package.editable and package.direct_url:
                yield package.direct_url.removeprefix("file://")
