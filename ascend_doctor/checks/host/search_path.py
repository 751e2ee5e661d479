"""Folders of PATH from which the doctor starts nothing."""

from ascend_doctor.facts import Environment
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts

TEXTS = Texts("search-path")


@TEXTS.check("search-path")
def search_path(case: Case) -> Findings:
    left_out = case.need(Environment).path_left_out
    if left_out is None:
        raise NotApplicable("this record does not list the folders of PATH")
    for entry in left_out:
        names, text = ", ".join(entry.programs), entry.text or "an empty one"
        passed = f"{names} in it not started" if names else "no program needed"
        yield TEXTS.finding("not-safe", text=text, entry=entry, passed=passed)
