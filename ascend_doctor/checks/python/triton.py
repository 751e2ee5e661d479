"""Triton for NPUs: the right package, in front, and of CANN's release."""

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import ImportPath
from ascend_doctor.judging import Case, Findings, Remedy, Texts, error, matrix_fit, warning
from ascend_doctor.judging.packages import (
    cann_version,
    distribution,
    find_distribution,
    npu_only,
    pip,
    variable,
)
from ascend_doctor.judging.version_compare import is_in_range

TEXTS = Texts("triton")

_FAQ = TEXTS.names["faq"]


@TEXTS.check("triton-overwritten")
def _triton_overwritten(case: Case) -> Findings:
    npu_only(case)
    ascend, triton = find_distribution(case, "triton-ascend"), find_distribution(case, "triton")
    if triton is None:
        raise NotApplicable("the common triton is not installed")
    if ascend is None:
        yield TEXTS.finding(
            "plain-triton", commands=(pip(case, "uninstall", "-y", "triton"),), triton=triton
        )
        return
    repair = Remedy(
        summary="Remove both and install triton-ascend again",
        commands=(
            pip(case, "uninstall", "-y", "triton", "triton-ascend"),
            pip(case, "install", f"triton-ascend=={ascend.version}"),
        ),
    )
    alone = is_in_range(ascend.version, "<3.2.1.dev0")
    seen = _read_version(case)
    if alone or seen == triton.version != ascend.version:
        yield (error if alone else warning)(
            f"triton {triton.version} is installed beside triton-ascend {ascend.version}"
            if alone
            else f"triton {triton.version} has overwritten triton-ascend {ascend.version}",
            observed=f"both; the folder triton says {seen or 'no version'}",
            required="triton-ascend alone" if alone else "triton-ascend installed after triton",
            because="Both write into the folder triton; kernels fail with 0 active drivers.",
            remedy=repair,
            refs=(_FAQ, "https://github.com/triton-lang/triton-ascend/issues/306"),
        )
    else:
        yield TEXTS.finding("shared-folder", triton=triton, ascend=ascend)


def _read_version(case: Case) -> str | None:
    copies = case.need(ImportPath).find("triton").copies
    return next(iter(copies[0].versions.values()), None) if copies else None


@TEXTS.check("triton-cann")
def _triton_cann(case: Case) -> Findings:
    npu_only(case)
    triton, cann = distribution(case, "triton-ascend"), cann_version(case)
    row = matrix_fit.release(case, "triton-ascend", triton.version)
    relations = list(matrix_fit.relations(case, row, "cann")) if row else []
    if not relations:
        raise Unknown(f"no table says which CANN triton-ascend {triton.version} is for")
    for relation in relations:
        if relation.fit in ("doubt", "bad"):
            yield TEXTS.finding(
                "triton-ascend",
                because=relation.need.because
                or "Kernels are compiled by CANN; another release may refuse them.",
                refs=relation.refs,
                cann=cann,
                relation=relation,
                triton=triton,
            )


@TEXTS.check("triton-two-drivers")
def _triton_two_drivers(case: Case) -> Findings:
    npu_only(case)
    distribution(case, "triton-ascend")
    value = variable(case, "TORCH_TRANSFER_TO_NPU")
    if value == "1":
        yield TEXTS.finding("two-drivers")


@TEXTS.check("triton-machine")
def _triton_machine(case: Case) -> Findings:
    npu_only(case)
    triton = distribution(case, "triton-ascend")
    row = matrix_fit.release(case, "triton-ascend", triton.version)
    for relation in (
        matrix_fit.relations(case, row, "python", "soc", "glibc", "triton") if row else ()
    ):
        if relation.fit != "fits":
            yield TEXTS.finding(
                "other-machine", refs=relation.refs, triton=triton, relation=relation
            )
