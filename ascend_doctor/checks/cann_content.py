"""What is inside the CANN in use: its parts, its operators, and NNAL beside it."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.checks.installed import (
    cann_in_use,
    distribution,
    family,
    npu_only,
    source,
)
from ascend_doctor.checks.told import held
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Cann, Host, Native, Nnal
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judge import Case, check, error, warning

_GUIDE = "Ascend/MindSpeed@26.0.0_core_r0.12.1:docs/zh/user-guide/install_guide.md"
# Numbered on its own, not by the release of the toolkit.
_OWN_NUMBERS = ("mindstudio-toolkit",)


def _name(version: str | None) -> str:
    return f"CANN {version or 'of unknown version'}"


@check("cann-components", "All parts of CANN are of one release")
def cann_components(case: Case) -> Iterator[Finding]:
    """The toolkit consists of parts (runtime, compiler, hccl, opp ...) with a version file each.

    A partial upgrade leaves parts of two releases in one folder. Then libraries miss functions of
    each other, or the operators are refused. Install the whole toolkit again.
    """
    npu_only(case)
    install = cann_in_use(case)
    parts = [one for one in install.components if one.public and one.name not in _OWN_NUMBERS]
    if install.version is None or not parts:
        raise Unknown(f"the parts of {install.root} do not tell their release")
    odd = [one for one in parts if not _same(one.public or "", install.version)]
    if odd:
        yield warning(
            f"Parts of {_name(install.version)} are of another release",
            found=", ".join(f"{one.name} {one.public}" for one in odd),
            wanted=f"{install.version} in all parts",
            because="Parts of two releases were never tested together.",
            remedy=Remedy(summary=f"Install the whole toolkit {install.version} again"),
        )


def _same(one: str, other: str) -> bool:
    return held(one, f"=={other}", "ascend") or held(other, f"=={one}", "ascend")


@check("cann-arch", "CANN was made for this processor")
def cann_arch(case: Case) -> Iterator[Finding]:
    """CANN comes for aarch64 and for x86_64; libraries of the other one cannot be loaded.

    The wrong one is usually a folder shared by machines of both kinds, or a copied image.
    """
    npu_only(case)
    install, host = cann_in_use(case), case.need(Host)
    if not install.arch or not host.arch:
        raise Unknown("the processor type of CANN or of the host is not known")
    if install.arch != host.arch:
        yield error(
            f"{_name(install.version)} is for {install.arch}, this machine is {host.arch}",
            found=install.arch,
            wanted=host.arch,
            because="Its libraries cannot be loaded here.",
            remedy=Remedy(summary=f"Install CANN for {host.arch}"),
        )


@check("ops-package", "The operator package of this chip is installed")
def ops_package(case: Case) -> Iterator[Finding]:
    """The toolkit alone has no compiled operators; they come in a package per chip family.

    Up to release 8.3 it is called kernels, from 8.5 on ops. Without it, or with the package of
    another family, the simplest operator on the NPU fails with error 561103 and a hint to check
    the opp_kernel package. The check compares the folders of compiled operators with the chip.
    """
    npu_only(case)
    install = cann_in_use(case)
    if install.simulated:
        raise NotApplicable("this CANN is a simulation")
    chip = family(case)
    if chip.id in install.kernels:
        return
    package = " or ".join(chip.ops_packages) or f"the operator package for {chip.id}"
    there = ", ".join(install.kernels)
    yield error(
        f"The operators of {_name(install.version)} are for {there}, the chip is {chip.id}"
        if there
        else f"{_name(install.version)} has no operator package",
        found=f"compiled operators for: {there or 'no chip'}; packages: "
        f"{', '.join(install.ops_packages) or 'none'}",
        wanted=f"compiled operators for {chip.id} ({chip.title})",
        because="Operators fail with error 561103 on this chip.",
        remedy=Remedy(summary=f"Install {package} of release {install.version or 'this CANN'}"),
        refs=(_GUIDE,),
    )


@check("nnal", "NNAL is installed, loaded and of the same release as CANN")
def nnal(case: Case) -> Iterator[Finding]:
    """NNAL brings ATB, a library of fused transformer operators, as a package of its own.

    torch_npu and CANN start without it; ATB operators then fail later with "libatb.so: cannot
    open shared object file", and older torch_npu fail at import. It has its own set_env.sh, to be
    sourced after that of CANN, with bash or zsh. Its release must be that of CANN.
    """
    npu_only(case)
    install = cann_in_use(case)
    distribution(case, "torch-npu")
    cann = case.need(Cann)
    if not cann.nnal:
        yield warning(
            f"NNAL is not installed beside {_name(install.version)}",
            found="no NNAL",
            wanted=f"NNAL {install.version or 'of the same release'}",
            because="Operators of ATB will fail: libatb.so cannot be loaded.",
            remedy=Remedy(
                summary="Install Ascend-cann-nnal of the same release, then source its set_env.sh"
            ),
            refs=("https://github.com/vllm-project/vllm-ascend/issues/152", _GUIDE),
        )
        return
    used = _used(cann)
    if used is None:
        yield warning(
            "NNAL is installed, but its environment is not loaded",
            found=f"ATB_HOME_PATH is {cann.shell.atb or 'unset'}; NNAL in {cann.nnal[0].root}",
            wanted="its set_env.sh sourced after that of CANN",
            because="Operators of ATB will fail: libatb.so cannot be loaded.",
            remedy=_source_nnal(cann.nnal[0]),
            refs=("https://github.com/vllm-project/vllm-ascend/issues/152",),
        )
    one = used or cann.nnal[0]
    if one.version and install.version and _other(one.version, install.version):
        yield warning(
            f"NNAL {one.version} stands beside {_name(install.version)}",
            found=f"NNAL {one.version} in {one.root}",
            wanted=f"NNAL {install.version}",
            because="ATB of another release may lack functions that torch_npu calls.",
            remedy=Remedy(summary=f"Install NNAL {install.version}"),
            refs=("https://github.com/vllm-project/vllm-ascend/issues/117",),
        )
    yield from _atb_symbols(case, one)


def _used(cann: Cann) -> Nnal | None:
    atb = cann.shell.atb
    return next((one for one in cann.nnal if atb and f"{atb}/".startswith(f"{one.root}/")), None)


def _source_nnal(one: Nnal) -> Remedy:
    return Remedy(
        summary="Source it after the set_env.sh of CANN, in bash or zsh",
        commands=(source(one.set_env),) if one.set_env else (),
    )


def _other(version: str, cann: str) -> bool:
    return not _same(version, cann)


def _atb_symbols(case: Case, one: Nnal) -> Iterator[Finding]:
    native = case.need(Native)
    lacking = [
        symbol
        for symbol in native.missing_symbols
        if symbol.name.startswith("_ZN3atb") or not symbol.at_import
    ]
    if lacking and native.atb and native.atb.path:
        yield error(
            f"torch_npu needs functions that the ATB of NNAL {one.version or ''} lacks".rstrip(),
            found=f"{len(lacking)} undefined, the first is {lacking[0].name}; {native.atb.path}",
            wanted="no undefined symbols",
            because="ATB is older than the one torch_npu was built with, or for the other C++ ABI.",
            remedy=Remedy(
                summary="Install the NNAL of the CANN release that belongs to torch_npu and source "
                "its set_env.sh last"
            ),
            refs=("https://github.com/vllm-project/vllm-ascend/issues/117",),
        )
