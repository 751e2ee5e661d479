"""Which copy of a package Python would import, and whether PYTHONPATH is as it should be."""

import shlex

from ascend_doctor.facts import ImportName, ImportPath, PackageCopy, Python
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts
from ascend_doctor.judging.closed import require_open
from ascend_doctor.judging.packages import distribution
from ascend_doctor.patterns import defer

TEXTS = Texts("import-path")

_OF_PYTHON = defer(r"/python(3\.\d+)/(?:site|dist)-packages")


@TEXTS.check("pythonpath-entries")
def pythonpath_entries(case: Case) -> Findings:
    path = case.need(ImportPath)
    if not path.pythonpath:
        raise NotApplicable("PYTHONPATH is not set")
    python = case.facts.python
    entries = [
        entry
        for entry in path.pythonpath
        if entry.startswith("/") and entry not in path.absent and not _is_foreign(entry, python)
    ]
    remedy = Remedy(
        summary="Set it to the full paths that are there",
        commands=(f"export PYTHONPATH={shlex.quote(':'.join(entries))}",),
    )
    empty = path.pythonpath.count("")
    if empty:
        yield TEXTS.finding("empty-entry", remedy=remedy, empty=empty, count=len(path.pythonpath))
    relative = [entry for entry in path.pythonpath if entry and not entry.startswith("/")]
    if relative:
        yield TEXTS.finding("relative-entries", remedy=remedy, relative=", ".join(relative))
    for entry in path.pythonpath:
        if _is_foreign(entry, python):
            yield TEXTS.finding("other-python", remedy=remedy, entry=entry, python=python)
    absent = [entry for entry in path.pythonpath if entry.startswith("/") and entry in path.absent]
    if absent:
        require_open(case, *absent)
        yield TEXTS.finding("absent-folders", remedy=remedy, absent=", ".join(absent))


def _is_foreign(entry: str, python: Python | None) -> bool:
    match = _OF_PYTHON.search(entry)
    return bool(match and python and not python.version.startswith(f"{match[1]}."))


@TEXTS.check("pythonpath-order")
def pythonpath_order(case: Case) -> Findings:
    path = case.need(ImportPath)
    entries = {entry.rstrip("/") for entry in path.pythonpath if entry}
    if not entries:
        raise NotApplicable("PYTHONPATH is not set")
    for name in path.names:
        hidden = _hidden(name, entries)
        if hidden is not None:
            winner = name.copies[0]
            yield TEXTS.finding("hidden-copy", name=name, winner=winner, hidden=hidden)


def _hidden(name: ImportName, entries: set[str]) -> PackageCopy | None:
    if not name.copies or name.copies[0].entry.rstrip("/") in entries:
        return None
    return next((copy for copy in name.copies[1:] if copy.entry.rstrip("/") in entries), None)


@TEXTS.check("torch-npu-copy")
def torch_npu_copy(case: Case) -> Findings:
    path = case.need(ImportPath)
    for name in ("torch", "torch_npu"):
        npu_distribution = distribution(case, name.replace("_", "-"))
        copies = path.find(name).copies
        if (
            copies
            and not npu_distribution.editable
            and copies[0].entry.rstrip("/") != npu_distribution.location
        ):
            yield TEXTS.finding(
                "other-copy", name=name, copies=copies, npu_distribution=npu_distribution
            )


@TEXTS.check("checkouts")
def checkouts(case: Case) -> Findings:
    path = case.need(ImportPath)
    seen = False
    for name in path.names:
        git = name.copies[0].git if name.copies else None
        if git is None:
            continue
        seen = seen or git.dirty is not None or bool(git.branch)
        commit = (git.commit or "an unknown commit")[:12]
        if git.unmerged:
            unmerged = ", ".join(git.unmerged[:3])
            look = (f"git -C {shlex.quote(git.root)} status",)
            yield TEXTS.finding("unmerged", commands=look, name=name, unmerged=unmerged)
        elif git.dirty:
            yield TEXTS.finding("changed-checkout", name=name, git=git, commit=commit)
        elif git.branch:
            yield TEXTS.finding("on-branch", name=name, git=git, commit=commit)
    if not seen:
        raise NotApplicable("git looked at no checkout that is imported")
