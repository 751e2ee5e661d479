"""Which copy of a package Python would import, and whether PYTHONPATH is as it should be."""

import shlex

from ascend_doctor.facts import ImportName, ImportPath, PackageCopy
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts, note, warning
from ascend_doctor.judging.closed import require_open
from ascend_doctor.judging.packages import distribution

TEXTS = Texts("import-path")

_ENV = "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONPATH"


@TEXTS.check("pythonpath-entries")
def pythonpath_entries(case: Case) -> Findings:
    path = case.need(ImportPath)
    if not path.pythonpath:
        raise NotApplicable("PYTHONPATH is not set")
    entries = [
        entry for entry in path.pythonpath if entry.startswith("/") and entry not in path.absent
    ]
    remedy = Remedy(
        summary="Set it to the full paths that are there",
        commands=(f"export PYTHONPATH={shlex.quote(':'.join(entries))}",),
    )
    empty = path.pythonpath.count("")
    if empty:
        yield warning(
            "PYTHONPATH has an empty entry, which stands for the current folder",
            observed=f"{empty} empty of {len(path.pythonpath)} entries",
            required="no colon at the ends, no two in a row",
            because="Packages in the folder where the program starts hide installed ones.",
            remedy=remedy,
            refs=(_ENV,),
        )
    relative = [entry for entry in path.pythonpath if entry and not entry.startswith("/")]
    if relative:
        yield warning(
            f"PYTHONPATH has relative entries: {', '.join(relative)}",
            observed=", ".join(relative),
            required="full paths",
            because="What they name changes with the folder in which the program starts.",
            remedy=remedy,
        )
    absent = [entry for entry in path.pythonpath if entry.startswith("/") and entry in path.absent]
    if absent:
        require_open(case, *absent)
        yield warning(
            f"PYTHONPATH names folders that do not exist: {', '.join(absent)}",
            observed=", ".join(absent),
            required="folders that exist",
            because="A package that should come from there is taken from elsewhere, or is missing.",
            remedy=remedy,
        )


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
            yield warning(
                f"`import {name.name}` does not take the copy that PYTHONPATH names",
                observed=f"imported: {winner.path}; on PYTHONPATH: {hidden.path}",
                required=f"{hidden.path}",
                because="The code that runs is not the code that was meant.",
                remedy=f"Uninstall or move away the copy in {winner.path}",
            )


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
            yield warning(
                f"`import {name}` does not take the installed package",
                observed=f"imported: {copies[0].path}; installed in {npu_distribution.location}",
                required=f"the package in {npu_distribution.location}",
                because="A source tree has no compiled part: No module named torch_npu._C.",
                remedy=f"Take {copies[0].entry} off the path, or start elsewhere",
                refs=("https://github.com/Ascend/pytorch/issues/24",),
            )


@TEXTS.check("checkouts")
def checkouts(case: Case) -> Findings:
    path = case.need(ImportPath)
    seen = False
    for name in path.names:
        git = name.copies[0].git if name.copies else None
        if git is None:
            continue
        seen = True
        commit = (git.commit or "an unknown commit")[:12]
        if git.dirty:
            yield note(
                f"The checkout of {name.name} has local changes",
                observed=f"{git.root} at {commit}, with changes that are not committed",
                because="Another node does not have them.",
            )
        elif git.branch:
            yield note(
                f"The checkout of {name.name} is on the branch {git.branch}",
                observed=f"{git.root} at {commit}",
                because="A branch moves; compare the commit between nodes.",
            )
    if not seen:
        raise NotApplicable("nothing is imported from a git checkout")
