"""Source trees on the import path, in the words of the matrix: Megatron-LM and MindSpeed."""

import re
from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import GitState, ImportPath, PackageCopy
from ascend_doctor.judging.judge import Case
from ascend_doctor.judging.packages import find_distribution
from ascend_doctor.matrix.schema import Release
from ascend_doctor.patterns import defer

# MindSpeed's branches and tags carry their Megatron's version.
_LINE = defer(r"core_r(\d+)\.(\d+)(?:\.\d+)*$")


def copies(case: Case, name: str) -> tuple[PackageCopy, ...]:
    """The copies of an import name, the winner first. Raises Unknown, NotApplicable for none."""
    package_copies = case.need(ImportPath).find(name).copies
    if not package_copies:
        raise NotApplicable(f"{name} cannot be imported")
    return package_copies


def winner(package_copies: tuple[PackageCopy, ...], part: str) -> PackageCopy | None:
    """The first copy with ``<name>.<part>``; a package with __init__.py in front hides others."""
    if package_copies[0].kind != "namespace":
        return package_copies[0] if part in package_copies[0].parts else None
    return next((copy for copy in package_copies if part in copy.parts), None)


def core(case: Case) -> PackageCopy:
    """The copy that gives ``megatron.core``. Raises Unknown and NotApplicable."""
    copy = winner(copies(case, "megatron"), "core")
    if copy is None:
        raise NotApplicable("there is no megatron.core")
    return copy


def core_version(case: Case) -> str:
    """The version that megatron.core reports. Raises Unknown and NotApplicable."""
    version = core(case).versions.get("core")
    if version is None:
        raise Unknown(f"{core(case).path} does not tell its version")
    return version


def names(git: GitState | None) -> Iterator[str]:
    """Names of a checkout's commit: its branch, then the tags and branches at it."""
    if git is not None:
        yield from (name for name in (git.branch, *git.refs) if name)


def mindspeed(case: Case) -> Release:
    """The importable MindSpeed's row by ref or commit. Raises Unknown and NotApplicable.

    Its distribution's version is the same for different Megatrons.
    """
    git = copies(case, "mindspeed")[0].git
    distribution = find_distribution(case, "mindspeed") if git is None else None
    return _row(case, "mindspeed", git, distribution.commit if distribution else None)


def megatron(case: Case) -> Release:
    """The row of megatron.core's checkout, by its refs. Raises Unknown and NotApplicable."""
    return _row(case, "megatron-lm", core(case).git, None)


def _row(case: Case, component: str, git: GitState | None, commit: str | None) -> Release:
    rows = case.catalog.component(component).releases
    same = {ref.ref: ref.use for ref in case.catalog.component(component).refs if ref.exists}
    for name in names(git):
        for row in rows:
            if (same.get(name) or name) in (row.version, row.ref, row.attributes.get("tag")):
                return row
    commit = git.commit if git else commit
    for row in rows:
        if commit and row.commit and row.commit.startswith(commit):
            return row
    raise Unknown(
        f"the branch of {component} at commit {commit[:12]} could not be told"
        if commit
        else f"{component} is no git checkout, and its version does not tell its branch"
    )


def mindspeed_line(case: Case) -> tuple[int, int]:
    """MindSpeed's Megatron line: (0, 16) of core_r0.16.0. Raises Unknown and NotApplicable."""
    for name in names(copies(case, "mindspeed")[0].git):
        match = _LINE.search(name)
        if match:
            return int(match[1]), int(match[2])
    numbers = re.match(r"(\d+)\.(\d+)", mindspeed(case).attributes.get("core", ""))
    if numbers is None:
        raise Unknown("the Megatron line of this MindSpeed is not known")
    return int(numbers[1]), int(numbers[2])


def find_megatron_ref(case: Case) -> str:
    """The Megatron-LM ref that this MindSpeed documents, a tag before a branch; "" for none."""
    try:
        needs = [
            require for require in mindspeed(case).requires if require.component == "megatron-lm"
        ]
    except (Unknown, NotApplicable):
        return ""
    refs = [
        part.strip().removeprefix("==")
        for need in needs
        for part in (*need.versions.split("||"), *need.also.split("||"))
        if part.strip()
    ]
    known = case.catalog.component("megatron-lm")
    rows = {ref: known.release(ref) for ref in refs}
    tags = [ref for ref, row in rows.items() if row is not None and not row.moving]
    return next(iter((*tags, *refs)), "")
