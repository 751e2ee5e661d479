"""Folders of PATH from which the doctor starts nothing."""

from ascend_doctor.facts import Environment, PathEntry
from ascend_doctor.judging import Case, Finding, Findings, NotApplicable, Texts, warning

TEXTS = Texts("search-path")

_EXEC = "https://man7.org/linux/man-pages/man3/exec.3.html"


@TEXTS.check("search-path")
def search_path(case: Case) -> Findings:
    left_out = case.need(Environment).path_left_out
    if left_out is None:
        raise NotApplicable("this record does not list the folders of PATH")
    for entry in left_out:
        yield _finding(entry)


def _finding(entry: PathEntry) -> Finding:
    passed = (
        f"{', '.join(entry.programs)} in it not started" if entry.programs else "no program needed"
    )
    return warning(
        f"PATH has an entry that is not safe: {entry.text or 'an empty one'}",
        observed=f"{entry.reason}; {passed}",
        required="absolute folders that only you and root can write",
        because="Whoever writes into that folder chooses what the next command starts.",
        remedy="Remove the entry from PATH, or let only its owner write the folder; name "
        "an interpreter in it with --python",
        refs=(_EXEC,),
    )
