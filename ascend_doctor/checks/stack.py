"""Whether torch, torch_npu, CANN, driver and Python belong together."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.checks import fit
from ascend_doctor.checks.installed import (
    cann_version,
    distribution,
    npu_only,
    pip,
    torch_pair,
    torch_wanted,
)
from ascend_doctor.checks.told import held, leading
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Distribution, Host, Native, Python
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judge import Case, check, error, note, unknown, warning
from ascend_doctor.stacks import Release
from ascend_doctor.versions import key

_SETUP = "Ascend/pytorch@v26.1.0-pytorch2.7.1:setup.py"


@check("torch-npu-base-mismatch", "torch and torch_npu have the same version number")
def torch_npu_base_mismatch(case: Case) -> Iterator[Finding]:
    """torch_npu reaches into torch and is built for one exact release of it.

    The first three numbers must be equal: torch 2.7.1 goes with torch_npu 2.7.1, 2.7.1.post2 and
    so on. What follows (.post4, +cpu) may differ. Another package that requires its own torch is
    the usual way into this fault.
    """
    torch_npu, torch = distribution(case, "torch-npu"), distribution(case, "torch")
    same = leading(torch.version, 3) == leading(torch_npu.version, 3)
    if not same:
        yield error(
            f"torch {torch.version} does not go with torch_npu {torch_npu.version}",
            found=f"torch {torch.version}, torch_npu {torch_npu.version}",
            wanted="the same first three numbers",
            because="Importing torch_npu ends with undefined symbols, or crashes.",
            remedy=torch_pair(case),
            refs=(_SETUP, "https://github.com/Ascend/pytorch/issues/35"),
        )


@check("torch-x86-not-cpu", "torch is the build that torch_npu requires")
def torch_x86_not_cpu(case: Case) -> Iterator[Finding]:
    """On x86_64 most torch_npu wheels require the +cpu build of torch and accept no other.

    `pip install torch==2.7.1` brings the CUDA build there; its number is the same. The +cpu build
    comes from PyTorch's own index. On aarch64 the plain number is right. From torch_npu 2.12 on
    the wheel asks for the number alone.
    """
    torch_npu, torch = distribution(case, "torch-npu"), distribution(case, "torch")
    wanted = torch_wanted(torch_npu)
    if case.need(Python).machine != "x86_64" or not wanted.endswith("+cpu"):
        raise NotApplicable(f"torch_npu {torch_npu.version} does not ask for a +cpu build here")
    base = leading(torch.version, 3) == leading(torch_npu.version, 3)
    if base and not held(torch.version, wanted.removeprefix("torch")):
        yield error(
            f"torch {torch.version} is not the +cpu build that torch_npu {torch_npu.version} needs",
            found=f"torch {torch.version}",
            wanted=wanted,
            because="On x86_64 the plain wheel of this number is a CUDA build.",
            remedy=torch_pair(case),
            refs=(_SETUP,),
        )


@check("torch-npu-cann", "CANN is the release that torch_npu is published for")
def torch_npu_cann(case: Case) -> Iterator[Finding]:
    """Each torch_npu is published for one release of CANN; a table of the project pairs them.

    The number of torch_npu does not show it: 2.7.1 is for CANN 8.3, 2.7.1.post4 for 9.0. Notes of
    later releases allow more pairs, and contradict each other about some. A pair of the table is
    fine; a pair that only some source allows, or that no source names, is a warning; a pair that
    is known to fail is an error. For packages newer than every table the check cannot tell.
    """
    npu_only(case)
    torch_npu, cann = distribution(case, "torch-npu"), cann_version(case)
    row = fit.release(case, "torch-npu", torch_npu.version)
    if row is None:
        yield unknown(
            f"No table has torch_npu {torch_npu.version}: whether it fits CANN {cann} could not be "
            "told",
            found=f"torch_npu {torch_npu.version}, CANN {cann}",
            because=_neighbours(case, torch_npu.version),
        )
        return
    for one in fit.conflicts(case, row, "cann"):
        yield error(
            f"torch_npu {torch_npu.version} fails on CANN {cann}",
            found=f"CANN {cann}",
            wanted=_cann_of(row),
            because=one.need.because,
            remedy=_pair(case, row, cann),
            refs=one.refs,
        )
        return
    found = list(fit.relations(case, row, "cann"))
    if not found:
        yield unknown(
            f"It is not known for which CANN torch_npu {torch_npu.version} was published",
            found=f"CANN {cann}",
            because=f"{row.note} {_neighbours(case, torch_npu.version)}",
        )
    for one in found:
        if one.fit == "near":
            yield note(
                f"CANN {cann} is of the line that torch_npu {torch_npu.version} is published for",
                found=f"CANN {cann}; published for {one.wanted}",
                refs=one.refs,
            )
        elif one.fit != "fits":
            yield warning(
                f"torch_npu {torch_npu.version} is published for CANN {one.wanted}, "
                f"in use is {cann}",
                found=f"CANN {cann}",
                wanted=f"CANN {one.wanted}",
                because=one.need.because
                if one.allowed
                else f"No table names this pair. {one.need.because}",
                remedy=_pair(case, row, cann),
                refs=one.refs,
            )


def _cann_of(row: Release) -> str:
    return " or ".join(fit.spoken(one.versions) for one in row.requires if one.component == "cann")


def _neighbours(case: Case, version: str) -> str:
    base = leading(version, 3)
    nearest = [
        f"{one.version} (CANN {_cann_of(one)})"
        for one in case.catalog.component("torch-npu").releases
        if leading(one.version, 3) == base and _cann_of(one)
    ]
    if not nearest:
        return "No table has a package of this PyTorch line."
    return f"Packages of this PyTorch line that a table has: {', '.join(nearest)}."


def _pair(case: Case, row: Release, cann: str) -> Remedy:
    """The package of the same PyTorch line for this CANN, else the CANN for this package."""
    base = leading(row.version, 3)
    fitting = [
        one
        for one in case.catalog.component("torch-npu").releases
        if leading(one.version, 3) == base
        and any(
            need.component == "cann" and fit.relation(case, need, cann).fit == "fits"
            for need in one.requires
        )
    ]
    if fitting:
        best = max(fitting, key=lambda one: key("pep440", one.version))
        return Remedy(
            summary=f"Install torch_npu {best.version}, which is published for CANN {cann}; or "
            f"install and source CANN {_cann_of(row)}",
            commands=(pip(case, "install", "--no-deps", f"torch-npu=={best.version}"),),
        )
    return Remedy(summary=f"Install CANN {_cann_of(row)} and source its set_env.sh")


@check("cann-hdk", "The driver is new enough for CANN")
def cann_hdk(case: Case) -> Iterator[Finding]:
    """CANN needs a driver (Huawei calls driver and firmware HDK) of a minimum release.

    CANN's release notes have the table. Below the minimum, devices cannot be opened. A driver
    that no table names beside this CANN is a warning. Drivers of Ascend 950 have numbers of their
    own, lower than those of other chips, and are compared by equality only.
    """
    npu_only(case)
    cann = cann_version(case)
    row = fit.release(case, "cann", cann)
    driver = fit.present(case, "driver")
    if row is None:
        raise Unknown(f"no table has CANN {cann}")
    found = list(fit.relations(case, row, "driver", "driver-950"))
    if not found:
        raise Unknown(f"no table says which driver CANN {cann} needs")
    bad = [one for one in found if one.fit == "bad"]
    for one in bad or [one for one in found if one.fit == "doubt" and not one.allowed]:
        yield (error if bad else warning)(
            f"The driver {driver} is {'too old for' if bad else 'named by no table beside'} "
            f"CANN {cann}",
            found=f"driver {driver}",
            wanted=f"driver {one.wanted}"
            + (f" (also {fit.spoken(one.need.also)})" if one.need.also else ""),
            because=one.need.because,
            remedy=Remedy(
                summary="Have the administrator of the host install such a driver and its firmware "
                "and restart, or use a CANN that this driver serves"
            ),
            refs=one.refs,
        )


@check("torch-python", "torch_npu has this Python in its table")
def torch_python(case: Case) -> Iterator[Finding]:
    """torch_npu is built and tested for certain Python releases, per PyTorch line."""
    torch_npu = distribution(case, "torch-npu")
    row = fit.release(case, "torch-npu", torch_npu.version)
    found = list(fit.relations(case, row, "python")) if row else []
    if not found:
        raise Unknown(f"no table says which Python torch_npu {torch_npu.version} takes")
    for one in found:
        if one.fit != "fits":
            yield (note if one.allowed else warning)(
                f"Python {one.have} is not in the table of torch_npu {torch_npu.version}",
                found=f"Python {one.have}; the table has {one.wanted}",
                because=one.need.because,
                refs=one.refs,
            )


@check("torch-npu-arch", "torch_npu was built for this processor")
def torch_npu_arch(case: Case) -> Iterator[Finding]:
    """torch_npu comes for aarch64 and for x86_64; the files of the other one cannot be loaded.

    The wrong one is usually an environment that was copied from, or is shared with, a machine of
    the other kind.
    """
    distribution(case, "torch-npu")
    native, host = case.need(Native), case.need(Host)
    if native.machine is None or not host.arch:
        raise Unknown("the processor type of torch_npu or of the host is not known")
    if native.machine != host.arch:
        yield error(
            f"torch_npu is built for {native.machine}, this machine is {host.arch}",
            found=f"{native.torch_npu}: {native.machine}",
            wanted=host.arch,
            because="Its files cannot be loaded.",
            remedy=Remedy(summary=f"Make the environment anew on {host.arch}"),
        )


@check("torch-cuda-build", "torch is not a CUDA build beside torch_npu")
def torch_cuda_build(case: Case) -> Iterator[Finding]:
    """Torch serves one accelerator. A torch that was built for CUDA or ROCm may already hold it.

    Where such a torch sees a GPU, importing torch_npu ends with "Two accelerators cannot be used
    at the same time". Packages that depend on torch like to bring the CUDA build in. Install the
    CPU build of the same version.
    """
    distribution(case, "torch-npu")
    torch = distribution(case, "torch")
    built_for = _accelerator(torch)
    if built_for is None:
        return
    yield (warning if case.device == "cpu" else error)(
        f"torch {torch.version} is built for {built_for}, beside torch_npu",
        found=f"torch {torch.version}, built for {built_for}",
        wanted="a CPU build of torch",
        because="torch_npu refuses to share a process with another accelerator.",
        remedy=torch_pair(case),
        refs=("Ascend/pytorch@v26.1.0-pytorch2.7.1:setup.py",),
    )


def _accelerator(torch: Distribution) -> str | None:
    """What this torch was built for, None for the CPU: by its label or by its requirements."""
    label = torch.version.partition("+")[2].lower()
    if label.startswith(("cu", "rocm", "xpu")):
        return label
    if not label and any(one.lower().startswith("nvidia-") for one in torch.requires):
        return "CUDA"
    return None


@check("vllm-ascend-torch", "torch and torch_npu are those that vllm-ascend pins")
def vllm_ascend_torch(case: Case) -> Iterator[Finding]:
    """vllm-ascend pins one torch and one torch_npu, so it decides them for the environment.

    Where training and rollout share an environment, take torch, torch_npu and CANN from the row
    of vllm-ascend. Another torch_npu lacks operators that it calls, or has others under the name.
    """
    npu_only(case)
    vllm = distribution(case, "vllm-ascend")
    for name in ("torch", "torch-npu"):
        wanted = fit.asked(case, "vllm-ascend", name)
        if wanted is None:
            raise Unknown(f"what vllm-ascend {vllm.version} pins is not known")
        have = fit.present(case, name)
        if not held(have, wanted):
            yield error(
                f"vllm-ascend {vllm.version} pins {name} {fit.spoken(wanted)}, installed is {have}",
                found=f"{name} {have}",
                wanted=f"{name}{wanted}",
                because="It calls operators of that release.",
                remedy=Remedy(
                    summary="Install what it pins, and the CANN of that torch_npu",
                    commands=(pip(case, "install", f"{name}{wanted}"),)
                    if name == "torch-npu"
                    else (),
                ),
                refs=(
                    "vllm-project/vllm-ascend@main:docs/source/community/versioning_policy.md",
                    "https://github.com/vllm-project/vllm-ascend/issues/340",
                ),
            )
    row = fit.release(case, "vllm-ascend", vllm.version)
    for one in fit.relations(case, row, "cann", "triton-ascend", "vllm") if row else ():
        if one.fit in ("doubt", "bad"):
            yield warning(
                f"vllm-ascend {vllm.version} is documented with {one.need.component} {one.wanted}, "
                f"here is {one.have}",
                found=f"{one.need.component} {one.have}",
                wanted=f"{one.need.component} {one.wanted}",
                because=one.need.because,
                refs=one.refs,
            )
