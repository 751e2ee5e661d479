"""Whether torch_npu, CANN, the driver and vllm-ascend belong together."""

from ascend_doctor.facts import Cann
from ascend_doctor.judging import Findings, Remedy, Texts, Unknown, matrix_fit
from ascend_doctor.judging.judge import Case, error, warning
from ascend_doctor.judging.packages import cann_version, distribution, npu_only, pip, source
from ascend_doctor.judging.version_compare import is_in_range, leading
from ascend_doctor.matrix.schema import Release
from ascend_doctor.matrix.versions import key

TEXTS = Texts("stack")


@TEXTS.check("torch-npu-cann", caused_by=("cann-mixed",))
def torch_npu_cann(case: Case) -> Findings:
    npu_only(case)
    torch_npu, cann = distribution(case, "torch-npu"), cann_version(case)
    install = case.need(Cann).in_use
    if install is not None and install.simulated:
        yield TEXTS.finding("stand-cann", cann=cann, torch_npu=torch_npu)
        return
    row = matrix_fit.release(case, "torch-npu", torch_npu.version)
    if row is None:
        yield TEXTS.finding(
            "table-torch",
            because=_neighbours(case, torch_npu.version),
            cann=cann,
            torch_npu=torch_npu,
        )
        return
    for conflict in matrix_fit.conflicts(case, row, "cann"):
        yield TEXTS.finding(
            "torch-npu",
            required=_cann_of(row),
            because=conflict.need.because,
            remedy=_pair(case, row, cann),
            refs=conflict.refs,
            cann=cann,
            torch_npu=torch_npu,
        )
        return
    relations = list(matrix_fit.relations(case, row, "cann"))
    if not relations:
        yield TEXTS.finding(
            "known-which",
            because=f"{row.note} {_neighbours(case, torch_npu.version)}",
            cann=cann,
            torch_npu=torch_npu,
        )
    for relation in relations:
        yield from _fit(case, row, relation, cann)


def _fit(case: Case, row: Release, relation: matrix_fit.Relation, cann: str) -> Findings:
    version = distribution(case, "torch-npu").version
    if relation.fit == "near":
        yield TEXTS.finding(
            "cann-line", refs=relation.refs, cann=cann, relation=relation, version=version
        )
    elif relation.fit != "fits":
        yield TEXTS.finding(
            "torch-npu-2",
            because=relation.need.because
            if relation.allowed
            else f"No table names this pair. {relation.need.because}",
            remedy=_pair(case, row, cann),
            refs=relation.refs,
            cann=cann,
            relation=relation,
            version=version,
        )


def _cann_of(row: Release) -> str:
    return matrix_fit.describe_range(row, "cann")


def _neighbours(case: Case, version: str) -> str:
    base = leading(version, 3)
    nearest = [
        f"{release.version} (CANN {matrix_fit.describe_range(release, 'cann')})"
        for release in case.catalog.component("torch-npu").releases
        if leading(release.version, 3) == base and _cann_of(release)
    ]
    if not nearest:
        return "No table has a package of this PyTorch line."
    return f"Packages of this PyTorch line that a table has: {', '.join(nearest)}."


def _pair(case: Case, row: Release, cann: str) -> Remedy:
    here = matrix_fit.find_cann(case, row)
    if here is not None and here.set_env is not None:
        return Remedy(
            summary=f"CANN {here.version} is installed too; source its set_env.sh in a new shell",
            commands=(source(here.set_env),),
        )
    base = leading(row.version, 3)
    fitting = [
        release
        for release in case.catalog.component("torch-npu").releases
        if leading(release.version, 3) == base
        and any(
            need.component == "cann" and matrix_fit.relation(case, need, cann).fit == "fits"
            for need in release.requires
        )
    ]
    if fitting:
        best = max(fitting, key=lambda release: key("pep440", release.version))
        return Remedy(
            summary=f"Install torch_npu {best.version}, which is published for CANN {cann}; or "
            f"install and source CANN {matrix_fit.describe_range(row, 'cann')}",
            commands=(pip(case, "install", "--no-deps", f"torch-npu=={best.version}"),),
        )
    return Remedy(
        summary=f"Install CANN {matrix_fit.describe_range(row, 'cann')} and source its set_env.sh"
    )


@TEXTS.check(
    "cann-hdk", caused_by=("container-devices", "container-driver", "driver-loaded", "cann-mixed")
)
def cann_hdk(case: Case) -> Findings:
    npu_only(case)
    cann = cann_version(case)
    row = matrix_fit.release(case, "cann", cann)
    driver = matrix_fit.present(case, "driver")
    if row is None:
        raise Unknown(f"no table has CANN {cann}")
    relations = list(matrix_fit.relations(case, row, "driver", "driver-950"))
    if not relations:
        raise Unknown(f"no table says which driver CANN {cann} needs")
    bad = [relation for relation in relations if relation.fit == "bad"]
    for relation in bad or [
        relation for relation in relations if relation.fit == "doubt" and not relation.allowed
    ]:
        yield (error if bad else warning)(
            f"The driver {driver} is {'too old for' if bad else 'named by no table beside'} "
            f"CANN {cann}",
            observed=f"driver {driver}",
            required=f"driver {relation.range_text}"
            + (f" (also {matrix_fit.spoken(relation.need.also)})" if relation.need.also else ""),
            because=relation.need.because,
            remedy="Have the administrator of the host install such a driver and its firmware "
            "and restart, or use a CANN that this driver serves",
            refs=relation.refs,
        )


@TEXTS.check("vllm-ascend-torch")
def vllm_ascend_torch(case: Case) -> Findings:
    npu_only(case)
    vllm = distribution(case, "vllm-ascend")
    for name in ("torch", "torch-npu"):
        asked = matrix_fit.range_of(case, "vllm-ascend", name)
        if asked is None:
            raise Unknown(f"what vllm-ascend {vllm.version} pins is not known")
        have = matrix_fit.present(case, name)
        if not is_in_range(have, asked):
            yield TEXTS.finding(
                "calls-operators",
                title=f"vllm-ascend {vllm.version} pins {name} {matrix_fit.spoken(asked)}, "
                f"installed is {have}",
                commands=(pip(case, "install", f"{name}{asked}"),) if name == "torch-npu" else (),
                asked=asked,
                have=have,
                name=name,
            )
    row = matrix_fit.release(case, "vllm-ascend", vllm.version)
    for relation in matrix_fit.relations(case, row, "cann", "triton-ascend", "vllm") if row else ():
        if relation.fit in ("doubt", "bad"):
            yield TEXTS.finding(
                "vllm-ascend",
                because=relation.need.because,
                refs=relation.refs,
                relation=relation,
                vllm=vllm,
            )
