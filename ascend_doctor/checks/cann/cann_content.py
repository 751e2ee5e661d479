"""What is inside the CANN in use: its parts, its operators, and NNAL beside it."""

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import (
    Cann,
    CannComponent,
    CannInstall,
    Host,
    Native,
    Nnal,
    Python,
    require_known,
)
from ascend_doctor.judging import Case, Findings, Remedy, Texts, error
from ascend_doctor.judging.chip import container
from ascend_doctor.judging.closed import odd_lines, require_open
from ascend_doctor.judging.container_fix import run_image
from ascend_doctor.judging.packages import (
    CANN_DOWNLOAD,
    cann_in_use,
    distribution,
    family,
    find_distribution,
    npu_only,
    source,
)
from ascend_doctor.judging.version_compare import is_in_range, leading
from ascend_doctor.patterns import defer

TEXTS = Texts("cann-content")

_WITHOUT_ATB = "Operators of ATB will fail: libatb.so cannot be loaded."
_ISSUE = "https://github.com/vllm-project/vllm-ascend/issues/152"
_GUIDE = TEXTS.names["guide"]
_LEAST = defer(r"(?:>=\s*)?(\d[\w.]*)")
# Has its own numbers, not those of the toolkit's release.
_OWN_NUMBERS = ("mindstudio-toolkit",)
# Upgradable alone from 8.5.0 on; a toolkit fits operators of its major release and the two beside.
_ALONE = ("opp", "ops", "hccl", "hixl")
_CANN_DOCUMENTS = "https://www.hiascend.com/document/detail"
_ALONE_REF = f"{_CANN_DOCUMENTS}/en/canncommercial/850/releasenote/releasenote_0000.html"
_IMAGE = "or start an image that has it"
_WINDOW = f"{_CANN_DOCUMENTS}/en/CANNCommunityEdition/900/softwareinst/instg/instg_0030.html"


@TEXTS.check("cann-components")
def _cann_components(case: Case) -> Findings:
    npu_only(case)
    install = cann_in_use(case)
    yield from odd_lines(case, f"{install.root}/", f"{case.need(Cann).shell.home or install.root}/")
    parts = [
        component
        for component in install.components
        if component.public and component.name not in _OWN_NUMBERS
    ]
    if install.version is None or not parts:
        raise Unknown(f"the parts of {install.root} do not tell their release")
    release = install.version
    odd = [part for part in parts if not _same(part.public or "", release)]
    allowed = [part for part in odd if _may_differ(part, release)]
    mixed = [part for part in odd if part not in allowed]
    if mixed:
        yield TEXTS.finding(
            "mixed-parts", refs=(_WINDOW,), install=install, parts=_releases(mixed), release=release
        )
    if allowed:
        yield TEXTS.finding(
            "beside", refs=(_WINDOW, _ALONE_REF), install=install, parts=_releases(allowed)
        )
    require_open(case, install.root)
    if unmet := [*_list_unmet(case, install)]:
        yield TEXTS.finding("unmet", observed="; ".join(unmet), refs=(_WINDOW,), release=release)


def _list_unmet(case: Case, install: CannInstall) -> Iterator[str]:
    """Lower bounds that parts of CANN set and that CANN or the driver does not meet."""
    versions = {f"package {part.name}": part.version for part in install.components}
    # A container has no driver of its own.
    driver = None if container(case) else case.facts.driver
    for part in install.components:
        for name, text in part.requires.items():
            have, least = versions.get(name), _LEAST.match(text)
            if driver and name.startswith("driver "):
                have = require_known(driver.parts.get(name[7:]), f"the version of {name}")
            if least and have and leading(have, 3, "ascend") < leading(least[1], 3, "ascend"):
                yield f"{part.name} requires {name} {least[1]}, there is {have}"


def _releases(parts: list[CannComponent]) -> str:
    return ", ".join(f"{part.name} {part.public}" for part in parts)


def _may_differ(part: CannComponent, release: str) -> bool:
    """Whether CANN's documents allow this part another release than the toolkit's."""
    other = part.public or ""
    if not part.name.startswith(_ALONE) or not (
        is_in_range(other, ">=8.5.0", "ascend") and is_in_range(release, ">=8.5.0", "ascend")
    ):
        return False
    return abs(leading(other, 1, "ascend")[0] - leading(release, 1, "ascend")[0]) <= 1


def _same(version: str, other: str) -> bool:
    return is_in_range(version, f"=={other}", "ascend") or is_in_range(
        other, f"=={version}", "ascend"
    )


@TEXTS.check("cann-arch")
def _cann_arch(case: Case) -> Findings:
    npu_only(case)
    install, host = cann_in_use(case), case.need(Host)
    if not install.arch or not host.arch:
        raise Unknown("the processor type of CANN or of the host is not known")
    parts = {
        install.title: install.arch,
        "The operator package": install.ops_arch,
        **{f"NNAL in {nnal.root}": nnal.arch for nnal in case.need(Cann).nnal},
    }
    for name, arch in parts.items():
        if arch and arch != host.arch:
            yield TEXTS.finding("other-arch", name=name, arch=arch, host=host)


@TEXTS.check("ops-package")
def _ops_package(case: Case) -> Findings:
    npu_only(case)
    install = cann_in_use(case)
    if install.simulated:
        raise NotApplicable("this CANN is a simulation")
    chip = family(case)
    if chip.id in install.kernels:
        yield from _of_release(install)
        return
    require_open(case, f"{install.root}/opp")
    package = " or ".join(chip.ops_packages) or f"the operator package for {chip.id}"
    there = ", ".join(install.kernels)
    yield error(
        f"The operators of {install.title} are for {there}, the chip is {chip.id}"
        if there
        else f"{install.title} has no operator package",
        observed=f"compiled operators for: {there or 'no chip'}; packages: "
        f"{', '.join(install.ops_packages) or 'none'}",
        required=f"compiled operators for {chip.id} ({chip.title})",
        because="Operators fail with error 561103 on this chip.",
        remedy=_install_operators(case, package, install.version),
        refs=(_GUIDE,),
    )


def _install_operators(case: Case, package: str, release: str | None) -> Remedy:
    commands = run_image(case, release)
    page = f"{CANN_DOWNLOAD}; {_IMAGE}" if commands else CANN_DOWNLOAD
    summary = f"Install {package} of release {release or 'this CANN'} from {page}"
    return Remedy(summary=summary, commands=commands)


def _of_release(install: CannInstall) -> Findings:
    """Operator packages name their release after their name."""
    for package in install.ops_packages:
        name, _, version = package.partition(" ")
        if version and install.version and not _same(version, install.version):
            yield TEXTS.finding(
                "other-ops", name=name, version=version, install=install, package=package
            )


@TEXTS.check("nnal", caused_by=("stack-readable", "cann-mixed", "cann-installed"))
def _nnal(case: Case) -> Findings:
    npu_only(case)
    install = cann_in_use(case)
    distribution(case, "torch-npu")
    cann = case.need(Cann)
    if not cann.nnal:
        require_open(case, "/usr/local/Ascend/nnal", *filter(None, (cann.shell.atb,)))
        yield TEXTS.finding("no-nnal", refs=(_ISSUE, _GUIDE), install=install, because=_WITHOUT_ATB)
        return
    used = _nnal_in_use(cann)
    if used is None:
        yield TEXTS.finding(
            "not-loaded",
            observed=f"ATB_HOME_PATH is {cann.shell.atb or 'unset'}; NNAL in {cann.nnal[0].root}",
            because=_WITHOUT_ATB,
            remedy=_source_nnal(cann.nnal[0]),
            refs=(_ISSUE,),
        )
    chosen_nnal = used or cann.nnal[0]
    version = chosen_nnal.version
    if version and install.version and not _same(version, install.version):
        there = [nnal for nnal in cann.nnal if _same(nnal.version or "", install.version)]
        remedy = _source_nnal(there[0]) if there else None
        yield TEXTS.finding(
            "other-nnal", remedy=remedy, version=version, install=install, chosen_nnal=chosen_nnal
        )
    yield from _other_abi(case, cann.shell.atb or "", chosen_nnal)
    yield from _atb_symbols(case, chosen_nnal)
    native = case.need(Native)
    if used is not None and native.atb is not None and native.atb.path is None:
        yield TEXTS.finding(
            "no-libatb",
            because=_WITHOUT_ATB,
            commands=(source(chosen_nnal.set_env),) if chosen_nnal.set_env else (),
            refs=(_ISSUE,),
            cann=cann,
        )
    if chosen_nnal.version is None:
        raise Unknown(f"{chosen_nnal.root} does not tell its version")


def _other_abi(case: Case, atb: str, nnal: Nnal) -> Findings:
    torch, abi = find_distribution(case, "torch"), case.need(Python).torch_abi
    if abi is None and torch and is_in_range(torch.version, ">=2.7.0.dev0"):
        abi = 1  # all wheels of torch; from 2.8 on all of torch
    if abi is not None and f"cxx_abi_{1 - abi}" in atb:
        yield TEXTS.finding("other-abi", remedy=_source_nnal(nnal), atb=atb, torch=torch, abi=abi)


def _nnal_in_use(cann: Cann) -> Nnal | None:
    atb = cann.shell.atb
    return next((nnal for nnal in cann.nnal if atb and f"{atb}/".startswith(f"{nnal.root}/")), None)


def _source_nnal(nnal: Nnal) -> Remedy:
    return Remedy(
        summary="Source it after the set_env.sh of CANN, in bash or zsh",
        commands=(source(nnal.set_env),) if nnal.set_env else (),
    )


def _atb_symbols(case: Case, nnal: Nnal) -> Findings:
    native = case.need(Native)
    lacking = [
        symbol
        for symbol in native.missing_symbols
        if symbol.owner == "nnal" or not symbol.at_import
    ]
    if lacking and native.atb and native.atb.path:
        yield TEXTS.finding(
            "atb-older",
            nnal=nnal.version or "",
            observed=f"{len(lacking)} undefined, the first is {lacking[0].name}; {native.atb.path}",
        )
