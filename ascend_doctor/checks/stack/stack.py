"""Whether torch_npu, CANN, the driver and vllm-ascend belong together."""

from ascend_doctor.facts import Cann
from ascend_doctor.judging import Findings, Remedy, Unknown, matrix_fit
from ascend_doctor.judging.judge import Case, check, error, note, unknown, warning
from ascend_doctor.judging.packages import cann_version, distribution, npu_only, pip, source
from ascend_doctor.judging.version_compare import is_in_range, leading
from ascend_doctor.matrix.schema import Release
from ascend_doctor.matrix.versions import key


@check("torch-npu-cann", "CANN is a release that torch_npu supports", caused_by=("cann-mixed",))
def torch_npu_cann(case: Case) -> Findings:
    """Each torch_npu is published for one release of CANN; a table of the project pairs them.

    The number of torch_npu does not show it: 2.7.1 is for CANN 8.3, 2.7.1.post4 for 9.0. Notes of
    later releases allow more pairs, and contradict each other about some. A pair of the table is
    fine; a pair that only some source allows, or that no source names, is a warning. A pair that
    is known to fail is an error. For packages newer than every table the check cannot tell.
    """
    npu_only(case)
    torch_npu, cann = distribution(case, "torch-npu"), cann_version(case)
    install = case.need(Cann).in_use
    if install is not None and install.simulated:
        yield note(
            f"The stand-in for CANN was built for torch_npu {torch_npu.version}",
            observed=f"simulated; it claims to be {cann}, which says nothing about a real CANN",
        )
        return
    row = matrix_fit.release(case, "torch-npu", torch_npu.version)
    if row is None:
        yield unknown(
            f"No table has torch_npu {torch_npu.version}: whether it fits CANN {cann} could not be "
            "told",
            observed=f"torch_npu {torch_npu.version}, CANN {cann}",
            because=_neighbours(case, torch_npu.version),
        )
        return
    for conflict in matrix_fit.conflicts(case, row, "cann"):
        yield error(
            f"torch_npu {torch_npu.version} fails on CANN {cann}",
            observed=f"CANN {cann}",
            required=_cann_of(row),
            because=conflict.need.because,
            remedy=_pair(case, row, cann),
            refs=conflict.refs,
        )
        return
    relations = list(matrix_fit.relations(case, row, "cann"))
    if not relations:
        yield unknown(
            f"It is not known for which CANN torch_npu {torch_npu.version} was published",
            observed=f"CANN {cann}",
            because=f"{row.note} {_neighbours(case, torch_npu.version)}",
        )
    for relation in relations:
        yield from _fit(case, row, relation, cann)


def _fit(case: Case, row: Release, relation: matrix_fit.Relation, cann: str) -> Findings:
    version = distribution(case, "torch-npu").version
    if relation.fit == "near":
        yield note(
            f"CANN {cann} is of the line that torch_npu {version} is published for",
            observed=f"CANN {cann}; published for {relation.range_text}",
            refs=relation.refs,
        )
    elif relation.fit != "fits":
        yield warning(
            f"torch_npu {version} is published for CANN {relation.range_text}, in use is {cann}",
            observed=f"CANN {cann}",
            required=f"CANN {relation.range_text}",
            because=relation.need.because
            if relation.allowed
            else f"No table names this pair. {relation.need.because}",
            remedy=_pair(case, row, cann),
            refs=relation.refs,
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


@check(
    "cann-hdk",
    "The driver is new enough for CANN",
    caused_by=("container-devices", "container-driver", "driver-loaded", "cann-mixed"),
)
def cann_hdk(case: Case) -> Findings:
    """CANN needs a driver (Huawei calls driver and firmware HDK) of a minimum release.

    CANN's release notes have the table. Below the minimum, devices cannot be opened. A driver
    that no table names beside this CANN is a warning. Drivers of Ascend 950 have numbers of their
    own, lower than those of other chips, and are compared by equality only.
    """
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


@check("vllm-ascend-torch", "torch and torch_npu match vllm-ascend's pins")
def vllm_ascend_torch(case: Case) -> Findings:
    """vllm-ascend pins one torch and one torch_npu, so it decides them for the environment.

    Where training and rollout share an environment, take torch, torch_npu and CANN from the row
    of vllm-ascend. Another torch_npu lacks operators that it calls, or has others under the name.
    """
    npu_only(case)
    vllm = distribution(case, "vllm-ascend")
    for name in ("torch", "torch-npu"):
        asked = matrix_fit.range_of(case, "vllm-ascend", name)
        if asked is None:
            raise Unknown(f"what vllm-ascend {vllm.version} pins is not known")
        have = matrix_fit.present(case, name)
        if not is_in_range(have, asked):
            yield error(
                f"vllm-ascend {vllm.version} pins {name} {matrix_fit.spoken(asked)}, "
                f"installed is {have}",
                observed=f"{name} {have}",
                required=f"{name}{asked}",
                because="It calls operators of that release.",
                remedy="Install what it pins, and the CANN of that torch_npu",
                commands=(pip(case, "install", f"{name}{asked}"),) if name == "torch-npu" else (),
                refs=(
                    "vllm-project/vllm-ascend@main:docs/source/community/versioning_policy.md",
                    "https://github.com/vllm-project/vllm-ascend/issues/340",
                ),
            )
    row = matrix_fit.release(case, "vllm-ascend", vllm.version)
    for relation in matrix_fit.relations(case, row, "cann", "triton-ascend", "vllm") if row else ():
        if relation.fit in ("doubt", "bad"):
            yield warning(
                f"vllm-ascend {vllm.version} is documented with {relation.need.component} "
                f"{relation.range_text}, here is {relation.have}",
                observed=f"{relation.need.component} {relation.have}",
                required=f"{relation.need.component} {relation.range_text}",
                because=relation.need.because,
                refs=relation.refs,
            )
