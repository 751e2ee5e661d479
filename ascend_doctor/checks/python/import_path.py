"""Which copy of a package Python would import, and whether PYTHONPATH is as it should be."""

import shlex
from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import ImportName, ImportPath, PackageCopy
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, note, warning
from ascend_doctor.judging.packages import distribution

_ENV = "https://docs.python.org/3/using/cmdline.html#envvar-PYTHONPATH"


@check("pythonpath-entries", "Every entry of PYTHONPATH is a folder with a full path")
def pythonpath_entries(case: Case) -> Iterator[Finding]:
    """PYTHONPATH is a list of folders, separated by colons, in which Python looks first.

    An empty entry (a colon at either end, or two in a row) stands for the folder in which the
    program is started, and so does a path without a leading slash. Then a folder that happens to
    be called megatron, mindspeed or torch_npu is imported in place of the installed package, on
    one node and not on another. `export PYTHONPATH=$PYTHONPATH:/path` makes such an entry when
    the variable was empty. Entries that do not exist are a sign of a moved checkout.
    """
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
        yield warning(
            f"PYTHONPATH names folders that do not exist: {', '.join(absent)}",
            observed=", ".join(absent),
            required="folders that exist",
            because="A package that should come from there is taken from elsewhere, or is missing.",
            remedy=remedy,
        )


@check("pythonpath-order", "What PYTHONPATH names is what Python imports")
def pythonpath_order(case: Case) -> Iterator[Finding]:
    """You put a checkout on PYTHONPATH to have it imported in place of an installed copy.

    Some things come before PYTHONPATH all the same: the folder of the started script, packages
    installed in editable mode, and a normal package beside a namespace package such as megatron
    (a namespace package has no __init__.py, and any folder that has one wins over it).
    """
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


@check("torch-npu-copy", "torch and torch_npu are imported from where they are installed")
def torch_npu_copy(case: Case) -> Iterator[Finding]:
    """A folder called torch_npu that comes earlier on the path hides the installed package.

    It is usually the source tree of torch_npu, in the folder where the program starts or on
    PYTHONPATH. It has no compiled part, and the import ends with "No module named torch_npu._C".
    Start the program elsewhere, or take the folder off the path.
    """
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


@check("checkouts", "Checkouts are at a reproducible commit")
def checkouts(case: Case) -> Iterator[Finding]:
    """Megatron-LM, MindSpeed and others are often used from a git checkout.

    A checkout on a branch moves with every pull, and local changes exist on this machine only.
    Both are fine for work and make a result hard to repeat and two nodes hard to compare. The
    check only notes them: compare commit and changes between nodes.
    """
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
