"""MindSpeed and what belongs to it: Megatron's line, NumPy, Python, bridges."""

import shlex

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import ImportPath
from ascend_doctor.judging import Case, Findings, Level, Remedy, Texts, matrix_fit
from ascend_doctor.judging.packages import distribution, find_distribution, npu_only, pip
from ascend_doctor.judging.source_trees import (
    copies,
    core,
    core_version,
    find_megatron_ref,
    mindspeed,
    mindspeed_line,
    names,
)
from ascend_doctor.judging.version_compare import behaviour, is_in_range, leading
from ascend_doctor.matrix.schema import urls

TEXTS = Texts("mindspeed")


@TEXTS.check("megatron-mindspeed-pair", caused_by=("megatron-two-copies",))
def megatron_mindspeed_pair(case: Case) -> Findings:
    line, version = mindspeed_line(case), core_version(case)
    here = leading(version, 2)
    if here != line:
        required_line = ".".join(map(str, line))
        git = copies(case, "mindspeed")[0].git
        branch = next(names(git), "this branch")
        yield TEXTS.finding(
            "other-pair",
            remedy=_checkout(case, required_line),
            branch=branch,
            required_line=required_line,
            version=version,
            path=core(case).path,
        )


def _checkout(case: Case, line: str) -> Remedy:
    ref, git = find_megatron_ref(case), core(case).git
    summary = f"Use Megatron-LM {ref or 'of the line ' + line}, or the MindSpeed branch for yours"
    if not ref or git is None or git.dirty:
        return Remedy(summary=summary)
    root = shlex.quote(git.root)
    return Remedy(
        summary=summary,
        commands=(f"git -C {root} fetch --tags", f"git -C {root} checkout {shlex.quote(ref)}"),
    )


@TEXTS.check("mindspeed-version-lies")
def mindspeed_version_lies(case: Case) -> Findings:
    row = mindspeed(case)
    distribution = find_distribution(case, "mindspeed")
    reported = distribution.version if distribution else row.reports
    line = row.attributes.get("core")
    if reported is None or line is None:
        raise Unknown("the version of the mindspeed package or its Megatron line is not known")
    same = leading(reported, 2) == leading(line, 2)
    if not same:
        read = "misread" if find_distribution(case, "mcore-bridge") else "other-version"
        yield TEXTS.finding(read, refs=urls(row.sources), row=row, reported=reported, line=line)


@TEXTS.check("megatron-tag-selfreport")
def megatron_tag_selfreport(case: Case) -> Findings:
    taken = core(case)
    if taken.git is None:
        raise NotApplicable("megatron.core is not imported from a git checkout")
    version = core_version(case)
    known = {release.ref: release for release in case.catalog.component("megatron-lm").releases}
    for name in names(taken.git):
        row = known.get(name)
        if row is not None and row.reports == version:
            yield TEXTS.finding(
                "other-report", refs=urls(row.sources), name=name, version=version, row=row
            )
            return


@TEXTS.check("python-megatron")
def python_megatron(case: Case) -> Findings:
    version = core_version(case)
    row = matrix_fit.line(case, "megatron-core", version)
    if row is None:
        raise Unknown(f"no table says which Python Megatron-core {version} needs")
    for relation in matrix_fit.relations(case, row, "python"):
        if relation.fit == "bad":
            fails = is_in_range(version, ">=0.18.0.dev0")
            yield TEXTS.finding(
                "no-override" if fails else "other-python",
                refs=relation.refs,
                version=version,
                relation=relation,
            )


@TEXTS.check("numpy-bound")
def numpy_bound(case: Case) -> Findings:
    for relation in matrix_fit.relations(case, mindspeed(case), "numpy"):
        if relation.fit == "bad":
            yield TEXTS.finding(
                "new-numpy",
                commands=(pip(case, "install", f"numpy{relation.need.versions}"),),
                refs=relation.refs,
                relation=relation,
            )


@TEXTS.check("mindspeed-stack")
def mindspeed_stack(case: Case) -> Findings:
    npu_only(case)
    row = mindspeed(case)
    relations = matrix_fit.relations(
        case, row, "cann", "torch", "torch-npu", "python", "soc", "transformers"
    )
    other = [relation for relation in relations if relation.fit in ("doubt", "bad")]
    if other:
        yield TEXTS.finding(
            "other-set",
            refs=urls(row.sources),
            row=row,
            asked=", ".join(f"{each.need.component} {each.range_text}" for each in other),
            here=", ".join(f"{each.need.component} {each.have}" for each in other),
        )


@TEXTS.check("megatron-adaptor")
def megatron_adaptor(case: Case) -> Findings:
    npu_only(case)
    if mindspeed_line(case) < (0, 17):
        raise NotApplicable("this MindSpeed stands alone")
    path = case.need(ImportPath)
    absent = [
        name for name in ("megatron_adaptor", "transformer_engine") if not path.find(name).copies
    ]
    if absent:
        level = Level.ERROR if absent[0] == "megatron_adaptor" else None
        lacks = ", ".join(absent)
        yield TEXTS.finding("absent-adaptor", level=level, absent=" and ".join(absent), lacks=lacks)


@TEXTS.check("mcore-bridge-range")
def mcore_bridge_range(case: Case) -> Findings:
    bridge, version = distribution(case, "mcore-bridge"), core_version(case)
    asked = matrix_fit.range_of(case, "mcore-bridge", "megatron-core")
    if asked is None:
        raise Unknown(f"the range of mcore-bridge {bridge.version} is not known")
    if not is_in_range(version, asked):
        fitting = matrix_fit.releases_for(case, "mcore-bridge", "megatron-core", version)
        yield TEXTS.finding(
            "other-bridge",
            remedy=Remedy(
                summary="Install the newest mcore-bridge for it",
                commands=(pip(case, "install", "--no-deps", f"mcore-bridge=={fitting[0]}"),),
            )
            if fitting
            else Remedy(summary="Move Megatron-LM and MindSpeed to a line that it takes"),
            bridge=bridge,
            version=version,
            path=core(case).path,
            asked=asked,
        )
    unsupported = behaviour(case, "mcore-bridge", "no-0.18-npu", bridge.version)
    if case.device == "npu" and unsupported and is_in_range(version, ">=0.18.0.dev0"):
        yield TEXTS.finding(
            "young-bridge",
            refs=urls(unsupported.sources),
            bridge=bridge,
            version=version,
            unsupported=unsupported,
        )
