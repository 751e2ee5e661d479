"""Folders of PATH from which the doctor starts nothing."""

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Environment, PathEntry
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, warning

_EXEC = "https://man7.org/linux/man-pages/man3/exec.3.html"


@check("search-path", "PATH has only folders that other users cannot change")
def search_path(case: Case) -> Iterator[Finding]:
    """The shell and most launchers start programs by the order of PATH.

    A relative or empty entry means the current folder. A file named npu-smi there is started in
    place of the vendor's tool. For root, a folder that another user can write has the same
    effect. The doctor starts nothing from such folders, even if npu-smi, git or python3 is only
    there. Your jobs still do.
    """
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
