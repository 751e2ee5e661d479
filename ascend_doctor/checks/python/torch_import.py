"""Whether torch and torch_npu can be imported, told from files alone."""

import shlex

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Cann, Driver, MissingSymbol, Native, Needed
from ascend_doctor.judging import Case, Findings, Remedy, Texts, error
from ascend_doctor.judging.closed import odd_lines
from ascend_doctor.judging.packages import (
    AUTOLOAD,
    autoloads,
    distribution,
    npu_only,
    pip,
    source,
    statement,
    torch_pair,
    variable,
)

TEXTS = Texts("torch-import")

# NEEDED entries of libtorch_npu.so and libtensorpipe.so of the torch_npu 2.13.0 wheel.
OF_CANN = (
    *("libhccl.so", "libascendcl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so"),
    "libacl_tdt_channel.so",
)
_OF_TORCH = ("libtorch", "libc10", "libshm")
# CANN's libraries load the driver's; npu-smi needs libc_sec.so from the same folders.
_C_SEC = "libc_sec.so"
_OF_DRIVER = ("libascend_hal.so", _C_SEC)
_FAQ = "https://gitcode.com/Ascend/pytorch/blob/master/docs/zh/installation_guide/faq.md"
AUTOLOAD_REF = "https://github.com/pytorch/pytorch/pull/127074"


def native_of(case: Case) -> Native:
    """The ELF facts of torch_npu. Raises Unknown, and NotApplicable without torch_npu."""
    distribution(case, "torch-npu")
    return case.need(Native)


def absent(native: Native) -> tuple[Needed, ...]:
    """Missing libraries that break the import itself, CANN's first."""
    libraries = [needed for needed in native.needed if needed.path is None and needed.at_import]
    order = {name: position for position, name in enumerate(OF_CANN)}
    return tuple(sorted(libraries, key=lambda needed: order.get(needed.name, len(order))))


_JUDGED_BY = {"cann": "torch-npu-cann-symbols", "torch": "torch-npu-torch-symbols", "nnal": "nnal"}


def symbols(native: Native, owner: str) -> tuple[MissingSymbol, ...]:
    """Undefined symbols of this owner that stop the import itself."""
    return tuple(
        symbol for symbol in native.missing_symbols if symbol.owner == owner and symbol.at_import
    )


def require_torch_npu(case: Case) -> None:
    """Raises NotApplicable if torch_npu is neither wanted nor disturbing."""
    if case.device != "npu" and not autoloads(case):
        raise NotApplicable(f"torch_npu is not loaded for {case.device}: {AUTOLOAD} is off")


def load_cann(case: Case) -> Remedy:
    """How to bring CANN's libraries into the environment."""
    cann = case.need(Cann)
    scripts = {install.root: install.set_env for install in cann.installs if install.set_env}
    script = scripts.get(cann.active or "") or next(iter(scripts.values()), None)
    if script is not None:
        return Remedy(
            summary="Load the environment of CANN in every shell, service or job that starts "
            "Python",
            commands=(source(script),),
        )
    return Remedy(
        summary="Install the CANN toolkit and the operator package of your chip, then source its "
        "set_env.sh. To use torch without the NPU until then, switch the automatic import off",
        commands=(f"export {AUTOLOAD}=0",),
    )


@TEXTS.check(
    "torch-npu-libraries",
    caused_by=("stack-readable", "cann-installed", "cann-sourced", "cann-stale"),
)
def torch_npu_libraries(case: Case) -> Findings:
    native = native_of(case)
    missing = absent(native)
    if not native.needed:
        raise Unknown("the files of torch_npu could not be read")
    if missing:
        require_torch_npu(case)
        names = ", ".join(f"{lib.name} ({lib.by})" if lib.by else lib.name for lib in missing)
        of = "CANN " if all(needed.name in OF_CANN for needed in missing) else ""
        yield error(
            f"`{statement(case)}` will fail: {len(missing)} "
            f"{of}librar{'y is' if len(missing) == 1 else 'ies are'} not found",
            observed=f"not found: {names}",
            required="the loader finds each of them",
            because="The message names only one of them, as in: "
            f"{missing[0].name}: cannot open shared object file.",
            remedy=_bring(case, [needed.name for needed in missing]),
            refs=(_FAQ,),
        )


def _bring(case: Case, names: list[str]) -> Remedy | None:
    if any(name in OF_CANN for name in names):
        return load_cann(case)
    if any(name in _OF_DRIVER for name in names):
        return _driver_folders(case)
    if names[0].startswith("_C "):
        pin = f"torch-npu=={distribution(case, 'torch-npu').version}"
        command = pip(case, "install", "--force-reinstall", "--no-deps", pin)
        return Remedy(summary="Install torch_npu again for this Python", commands=(command,))
    if any(name.startswith(_OF_TORCH) for name in names):
        return torch_pair(case)
    return None


@TEXTS.check(
    "torch-autoload",
    caused_by=("torch-npu-libraries", "torch-npu-base-mismatch", "torch-npu-torch-symbols"),
)
def torch_autoload(case: Case) -> Findings:
    native = native_of(case)
    if not autoloads(case):
        raise NotApplicable("torch does not import torch_npu by itself here")
    if not native.needed:
        raise Unknown("the files of torch_npu could not be read")
    missing = absent(native)
    undefined = tuple(symbol for owner in _JUDGED_BY for symbol in symbols(native, owner))
    if missing or undefined:
        cause = "torch-npu-libraries" if missing else _JUDGED_BY[undefined[0].owner]
        lacks = (
            f"needs libraries that are not found: {', '.join(needed.name for needed in missing)}"
            if missing
            else f"has names undefined: {len(undefined)}, the first of them {undefined[0].name}"
        )
        yield TEXTS.finding(
            "no-autoload",
            observed=f"{AUTOLOAD} is {variable(case, AUTOLOAD) or 'unset'}; torch_npu {lacks}",
            refs=(AUTOLOAD_REF,),
            cause=cause,
        )


@TEXTS.check("driver-library", caused_by=("stack-readable",))
def driver_library(case: Case) -> Findings:
    npu_only(case)
    native = native_of(case)
    yield from odd_lines(case, "/etc/ld.so.conf")
    if native.hal is None:
        raise Unknown("libascend_hal.so was not looked for")
    if native.hal.path is None:
        driver = case.need(Driver)
        if not driver.present:
            raise NotApplicable("there is no trace of an NPU on this machine")
        if case.facts.host is not None and case.facts.host.container is not None:
            raise NotApplicable("container-driver looks for it in a container")
        yield TEXTS.finding("no-hal", remedy=_driver_folders(case), lib64=_lib64(driver))
        return
    if {"devlib", "stub"} & {*native.hal.path.split("/")} and case.need(Driver).devices:
        lib64 = shlex.quote(_lib64(case.facts.driver))
        yield TEXTS.finding("stand-in", hal=native.hal.path, lib64=lib64)
    libraries = case.facts.driver.libraries if case.facts.driver else ()
    if any(library.name == _C_SEC and library.path is None for library in libraries):
        yield TEXTS.finding(
            "no-sec", remedy=_driver_folders(case), native=native, lib64=_lib64(case.facts.driver)
        )


def _lib64(driver: Driver | None) -> str:
    return f"{(driver and driver.path) or '/usr/local/Ascend/driver'}/lib64"


def _driver_folders(case: Case) -> Remedy:
    root = _lib64(case.facts.driver)
    folders = shlex.quote(":".join((root, f"{root}/common", f"{root}/driver")))
    return Remedy(
        summary="Add the driver's folders to the loader's path; in a container mount the driver "
        "folder of the host first",
        commands=(f"export LD_LIBRARY_PATH=${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}{folders}",),
    )
