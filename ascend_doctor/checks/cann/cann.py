"""CANN: installed, loaded into the environment, of one release, complete for this chip."""

import shlex
from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Cann, CannInstall
from ascend_doctor.findings import Level, Remedy, quantity
from ascend_doctor.judging import Case, Findings, Texts, matrix_fit
from ascend_doctor.judging.closed import require_open
from ascend_doctor.judging.container_fix import run_image
from ascend_doctor.judging.env_values import settings
from ascend_doctor.judging.packages import (
    AUTOLOAD,
    CANN_DOWNLOAD,
    distribution,
    find_distribution,
    npu_only,
    source,
    statement,
)

TEXTS = Texts("cann")

_GUIDE = "Ascend/MindSpeed@26.0.0_core_r0.12.1:docs/zh/user-guide/install_guide.md"
# The folder of all installers, also below a home folder. Its content is not the user's own.
_VENDOR = "/Ascend/"
# No library is loaded.
_TOOLS = ("PATH", "TOOLCHAIN_HOME", "CMAKE_PREFIX_PATH")
# Folders that torch_npu looks for at import.
_IMPORTED = ("runtime", "compiler")


def _installs(case: Case) -> tuple[Cann, tuple[CannInstall, ...]]:
    npu_only(case)
    cann = case.need(Cann)
    if not cann.installs:
        raise NotApplicable("no CANN is installed")
    return cann, cann.installs


def list_installs(installs: tuple[CannInstall, ...]) -> str:
    return "; ".join(f"{install.title} in {install.root}" for install in installs)


def _cann_for_torch_npu(case: Case, cann: Cann) -> CannInstall | None:
    try:
        row = matrix_fit.release(case, "torch-npu", distribution(case, "torch-npu").version)
    except (NotApplicable, Unknown):
        row = None
    return (matrix_fit.find_cann(case, row) if row else None) or cann.in_use


def _fresh(case: Case, install: CannInstall | None) -> Remedy:
    own = ":".join(map(shlex.quote, _own_modules(case)))
    return Remedy(
        summary="Take every trace of CANN out of this shell and source one set_env.sh; then add "
        "your own entries of LD_LIBRARY_PATH again",
        commands=(
            "unset LD_LIBRARY_PATH PYTHONPATH ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME ASCEND_OPP_PATH",
            *_scripts(case, install),
            *((f"export PYTHONPATH={own}${{PYTHONPATH:+:$PYTHONPATH}}",) if own else ()),
        ),
    )


def _scripts(case: Case, install: CannInstall | None) -> Iterator[str]:
    if install is None or not install.set_env:
        return
    yield source(install.set_env)
    nnal = case.need(Cann).nnal
    if nnal and nnal[0].set_env:
        yield source(nnal[0].set_env)


def _own_modules(case: Case) -> list[str]:
    cann, path = case.need(Cann), case.facts.import_path
    roots = (
        *(install.root for install in cann.installs),
        *filter(None, (cann.shell.home, cann.shell.toolkit_home)),
        *cann.shell.stale,
    )
    return [
        entry
        for entry in (path.pythonpath if path else ())
        if entry
        and _VENDOR not in entry
        and not any(f"{entry}/".startswith(f"{root}/") for root in roots)
    ]


@TEXTS.check("cann-installed")
def _cann_installed(case: Case) -> Findings:
    npu_only(case)
    cann = case.need(Cann)
    if cann.installs:
        return
    driver = case.facts.driver
    if find_distribution(case, "torch-npu") is None and not (driver and driver.present):
        raise NotApplicable("there is no trace of an NPU and no torch_npu on this machine")
    require_open(case, "/usr/local/Ascend", *filter(None, (cann.shell.home,)))
    yield TEXTS.finding("no-cann", remedy=_install_cann(case), refs=(_GUIDE,))


def _install_cann(case: Case) -> Remedy:
    distribution = find_distribution(case, "torch-npu")
    row = matrix_fit.release(case, "torch-npu", distribution.version) if distribution else None
    cann = matrix_fit.describe_range(row, "cann") if row else ""
    release = "the CANN release that belongs to your torch_npu"
    if distribution is not None and cann:
        release = f"CANN {cann}, which torch_npu {distribution.version} is published for"
    summary = (
        f"Install the toolkit, the operators of your chip and NNAL of {release}, from "
        f"{CANN_DOWNLOAD}, and source its set_env.sh"
    )
    if commands := run_image(case, cann):
        return Remedy(summary=f"{summary}; or start an image that has them", commands=commands)
    if statement(case) == "import torch":
        summary += f". {AUTOLOAD}=0 lets `import torch` pass until then, without the NPU"
    return Remedy(summary=summary)


@TEXTS.check("cann-sourced")
def _cann_sourced(case: Case) -> Findings:
    cann, installs = _installs(case)
    if cann.shell.sourced:
        root = cann.shell.home or cann.shell.toolkit_home
        if cann.in_use is None and root not in cann.shell.stale:
            yield TEXTS.finding(
                "unknown-cann",
                observed=f"{root} does not tell what it is; installed: {list_installs(installs)}",
                remedy=_fresh(case, next(iter(installs))),
            )
        if not cann.shell.opp:
            yield TEXTS.finding(
                "no-opp",
                observed=f"ASCEND_HOME_PATH={cann.shell.home or cann.shell.toolkit_home}; "
                "ASCEND_OPP_PATH unset",
                remedy=_fresh(case, cann.in_use),
                refs=("hicann/runtime@681ef761:docs/zh/env_vars",),
            )
        return
    native = case.facts.native
    fails = native is not None and "libhccl.so" in native.missing
    sourced = next((install for install in installs if install.set_env), None)
    yield TEXTS.finding(
        "not-loaded" if fails else "no-operators",
        commands=tuple(_scripts(case, sourced)),
        refs=(_GUIDE,),
        first=installs[0],
        listed=list_installs(installs),
    )


@TEXTS.check("cann-stale")
def _cann_stale(case: Case) -> Findings:
    npu_only(case)
    cann = case.need(Cann)
    if not cann.shell.stale:
        return
    require_open(case, *cann.shell.stale)
    root = cann.shell.home or cann.shell.toolkit_home
    gone = root is not None and any(
        f"{root}/".startswith(f"{folder}/") for folder in cann.shell.stale
    )
    shown = ", ".join(
        f"{folder} ({', '.join(name for name, text in settings(case).items() if folder in text)})"
        for folder in cann.shell.stale[:4]
    )
    if torn := [part for part in _IMPORTED if f"{root}/{part}" in cann.shell.stale]:
        yield TEXTS.finding(
            "torn-cann",
            torn=" and ".join(torn),
            places=", ".join(f"{root}/{part}" for part in torn),
            parts=" and ".join(_IMPORTED),
        )
        return
    yield TEXTS.finding(
        "gone" if gone else "lacks",
        remedy=_fresh(case, next(iter(cann.installs), None)),
        count=quantity(len(cann.shell.stale), "folder"),
        shown=shown + (" ..." if cann.shell.stale[4:] else ""),
    )


@TEXTS.check("cann-mixed")
def _cann_mixed(case: Case) -> Findings:
    cann, _ = _installs(case)
    shell = cann.shell
    by_root = {install.root: install for install in cann.installs}
    leading = {name: by_root[root] for name, root in shell.named.items() if root in by_root}
    loaded = {install.version for name, install in leading.items() if name not in _TOOLS}
    behind = [by_root.get(root) for root in (*shell.library_roots, *shell.python_roots)]
    if len({install.version for install in leading.values()}) > 1:
        yield TEXTS.finding(
            "mixed",
            level=Level.WARNING if len(loaded) == 1 else None,
            remedy=_fresh(case, _cann_for_torch_npu(case, cann)),
            releases=", ".join(sorted({of.version or "unknown" for of in leading.values()})),
            places="; ".join(
                f"{of.title} ({of.root}): {', '.join(names)}"
                for of in cann.installs
                if (names := [name for name, install in leading.items() if install == of])
            ),
        )
    elif len({install.version for install in behind if install}) > 1:
        others = sorted(
            {install.title for install in behind if install and install not in leading.values()}
        )
        yield TEXTS.finding(
            "second-cann", remedy=_fresh(case, cann.in_use), others=", ".join(others)
        )
    if shell.in_front:
        yield TEXTS.finding("in-front", paths=", ".join(shell.in_front))
