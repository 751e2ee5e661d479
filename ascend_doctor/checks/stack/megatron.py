"""Megatron-LM and MindSpeed: one tree each, and the two that belong together."""

import posixpath
import shlex

from ascend_doctor.checks.python.packages import hazards
from ascend_doctor.facts import ImportPath, PackageCopy
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts, error, warning
from ascend_doctor.judging.closed import list_import_places, require_open
from ascend_doctor.judging.packages import find_distribution, npu_only, pip, variable
from ascend_doctor.judging.source_trees import copies, core, find_megatron_ref, winner
from ascend_doctor.judging.version_compare import is_in_range

TEXTS = Texts("megatron")

_NOT_OFFERED = ("end-of-life", "unlisted", "unmapped")
TWO_COPIES = "https://github.com/modelscope/ms-swift/issues/9661"
SWIFT_ON_NPUS = "modelscope/ms-swift@main:docs/source_en/BestPractices/NPU-support.md"


def _number(copy: PackageCopy) -> str:
    return copy.versions.get("core") or "of unknown version"


@TEXTS.check("megatron-two-copies")
def megatron_two_copies(case: Case) -> Findings:
    package_copies = copies(case, "megatron")
    trees = [copy for copy in package_copies if "core" in copy.parts]
    first = package_copies[0]
    if trees and first.kind != "namespace" and "core" not in first.parts:
        owner = find_distribution(case, "megatron-lm")
        yield TEXTS.finding(
            "hides-core",
            commands=(pip(case, "uninstall", "-y", owner.name),) if owner else (),
            first=first,
            tree=trees[0],
        )
    taken = core(case)
    mixed = _mixture(package_copies, taken)
    if mixed is not None:
        part, other = mixed
        versions = {taken.versions.get("core"), other.versions.get("core")} - {None}
        known = len(versions) == 2  # noqa: PLR2004 - two trees
        yield (error if known else warning)(
            f"Two Megatrons are mixed: megatron.core is {_number(taken)}, "
            f"megatron.{part} is {_number(other)}",
            observed=f"megatron.core from {taken.path}; megatron.{part} from {other.path}",
            required="both from one tree",
            because="Functions of one release are called with the arguments of another.",
            remedy=_one_tree(case, other),
            refs=(TWO_COPIES,),
        )
    elif len(trees) > 1:
        versions = {tree.versions.get("core") for tree in trees}
        yield TEXTS.finding(
            "one-imported",
            title=f"{len(trees)} Megatrons are on the import path; "
            + (
                f"megatron.core {_number(taken)} is imported"
                if len(versions) > 1
                else "both are of one release"
            ),
            observed="; ".join(f"{_number(tree)} in {tree.path}" for tree in trees),
            remedy=_one_tree(case, taken),
            refs=(TWO_COPIES,),
        )


def _mixture(
    package_copies: tuple[PackageCopy, ...], taken: PackageCopy
) -> tuple[str, PackageCopy] | None:
    # The other parts of Megatron-LM's namespace; each may come from its own tree.
    for part in ("training", "legacy", "rl", "post_training", "inference"):
        other = winner(package_copies, part)
        if other is not None and other.path != taken.path:
            return part, other
    return None


def _one_tree(case: Case, keep: PackageCopy) -> Remedy:
    if find_distribution(case, "megatron-core") is None:
        return Remedy(summary=f"Keep one tree on PYTHONPATH, as {keep.entry}")
    return Remedy(
        summary=f"Keep one tree. To keep {keep.entry} and remove what pip installed",
        commands=(pip(case, "uninstall", "-y", "megatron-core"),),
    )


@TEXTS.check("megatron-path", caused_by=("megatron-two-copies",))
def megatron_path(case: Case) -> Findings:
    value = variable(case, "MEGATRON_LM_PATH")
    if not value:
        raise NotApplicable("MEGATRON_LM_PATH is not set")
    try:
        taken = core(case)
    except NotApplicable:
        require_open(case, value, *list_import_places(case))
        yield TEXTS.finding(
            "megatron-lm-2", remedy=_clone(case), refs=(SWIFT_ON_NPUS,), value=value
        )
        return
    if posixpath.dirname(taken.path) != value.rstrip("/"):
        yield TEXTS.finding(
            "megatron-lm", remedy=prepend(value), refs=(SWIFT_ON_NPUS,), taken=taken, value=value
        )


def prepend(root: str) -> Remedy:
    """In front: an installed copy wins over appended paths."""
    return Remedy(
        summary="Put the checkout in front of PYTHONPATH, or uninstall megatron-core",
        commands=(f"export PYTHONPATH={shlex.quote(root)}${{PYTHONPATH:+:$PYTHONPATH}}",),
    )


@TEXTS.check("megatron-training")
def megatron_training(case: Case) -> Findings:
    npu_only(case)
    package_copies = copies(case, "megatron")
    taken = core(case)
    if (
        winner(package_copies, "training") is None
        and case.need(ImportPath).find("mindspeed").copies
    ):
        yield (error if taken.git else warning)(
            "megatron.training is missing: only megatron.core is "
            + ("in this checkout" if taken.git else "installed"),
            observed="; ".join(f"{copy.path}: {', '.join(copy.parts)}" for copy in package_copies),
            required="a Megatron-LM checkout on PYTHONPATH",
            because="MindSpeed-LLM and scripts that use megatron.training fail at import.",
            remedy=prepend(posixpath.dirname(taken.path))
            if taken.entry.endswith("_finder.py")
            else _clone(case),
            refs=("https://github.com/NVIDIA/Megatron-LM/issues/870",),
        )


def _clone(case: Case) -> Remedy:
    ref = find_megatron_ref(case)
    url = case.catalog.component("megatron-lm").obtain.url
    return Remedy(
        summary=f"Get Megatron-LM {ref or 'at the release of your MindSpeed branch'} and put it in "
        "front of PYTHONPATH",
        commands=(
            f"git clone --branch {shlex.quote(ref)} {shlex.quote(url)}",
            'export PYTHONPATH="$PWD/Megatron-LM${PYTHONPATH:+:$PYTHONPATH}"',
        )
        if ref
        else (),
    )


@TEXTS.check("mindspeed-installed")
def mindspeed_installed(case: Case) -> Findings:
    npu_only(case)
    taken = core(case)
    path = case.need(ImportPath)
    if any(hazard.name == "mindspeed" for hazard, _ in hazards(case)):
        raise NotApplicable("mindspeed-placeholder tells what is there in its place")
    if not path.find("mindspeed").copies and not path.find("megatron_adaptor").copies:
        require_open(case, *list_import_places(case))
        release = taken.versions.get("core")
        yield TEXTS.finding(
            "mindspeed-installed", remedy=_install_mindspeed(case, release), refs=(SWIFT_ON_NPUS,)
        )


def _install_mindspeed(case: Case, core_version: str | None) -> Remedy:
    known = case.catalog.component("mindspeed")
    scheme = case.catalog.component("megatron-core").scheme
    branch = next(
        (
            row.version
            for row in known.releases
            for need in row.requires
            if core_version
            and row.status not in _NOT_OFFERED
            and need.component == "megatron-core"
            and is_in_range(core_version, need.versions, scheme)
        ),
        "",
    )
    summary = "Install MindSpeed from its git repository, not from PyPI"
    if not branch:
        return Remedy(summary=f"{summary}, at the branch that fits this Megatron")
    return Remedy(
        summary=f"{summary}; `ascend-doctor setup` builds all that goes with this Megatron",
        commands=(
            f"git clone --branch {shlex.quote(branch)} {shlex.quote(known.obtain.url)}",
            pip(case, "install", "-e", "./MindSpeed"),
        ),
    )
