"""The Python side of CANN: its modules, and the packages that they import."""

from ascend_doctor.checks.python.packages import LISTED, STOPS
from ascend_doctor.facts import Cann, Python
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown
from ascend_doctor.judging.packages import (
    cann_in_use,
    cann_version,
    distribution,
    find_distribution,
    npu_only,
    pip,
    source,
)
from ascend_doctor.judging.version_compare import is_in_range

TEXTS = Texts("cann-python")


@TEXTS.check("tbe-python")
def tbe_python(case: Case) -> Findings:
    npu_only(case)
    install = cann_in_use(case)
    distribution(case, "torch-npu")
    if not case.need(Cann).shell.sourced:
        raise NotApplicable("the environment of CANN is not loaded")
    importable = case.need(Python).importable
    known = [name for name in ("tbe", "te", "acl") if name in importable]
    if not known:
        raise Unknown("it was not looked for them")
    absent = [name for name in known if not importable[name]]
    if absent:
        yield TEXTS.finding(
            "operators-must",
            title=f"Python modules of CANN {install.version or ''} cannot be imported: "
            f"{', '.join(absent)}".replace("  ", " "),
            observed=f"not on the path of {case.need(Python).executable}: {', '.join(absent)}",
            commands=(source(install.set_env),) if install.set_env else (),
        )


@TEXTS.check("cann-python-packages")
def cann_python_packages(case: Case) -> Findings:
    npu_only(case)
    distribution(case, "torch-npu")
    absent = [stop for stop in STOPS if not _can_import(case, stop, STOPS[stop])]
    if absent:
        names = [STOPS[module] for module in absent]
        yield TEXTS.finding(
            "missing-packages",
            commands=(pip(case, "install", *names),),
            names=", ".join(names),
            absent=", ".join(absent),
        )
    listed = [name for module, name in LISTED.items() if not _can_import(case, module, name)]
    if listed:
        yield TEXTS.finding(
            "missing-listed", commands=(pip(case, "install", *listed),), listed=", ".join(listed)
        )


def _can_import(case: Case, module: str, name: str) -> bool:
    importable = case.need(Python).importable
    return importable[module] if module in importable else find_distribution(case, name) is not None


@TEXTS.check("numpy-torch")
def numpy_torch(case: Case) -> Findings:
    torch, numpy = distribution(case, "torch"), distribution(case, "numpy")
    if is_in_range(torch.version, "<2.3.0.dev0") and is_in_range(numpy.version, ">=2.0.0.dev0"):
        yield TEXTS.finding(
            "old-torch-numpy", commands=(pip(case, "install", "numpy<2"),), torch=torch, numpy=numpy
        )


@TEXTS.check("numpy-cann")
def numpy_cann(case: Case) -> Findings:
    npu_only(case)
    numpy, cann = distribution(case, "numpy"), cann_version(case)
    if is_in_range(numpy.version, ">=2.0.0.dev0") and is_in_range(cann, "<=8.2.X", "ascend"):
        yield TEXTS.finding(
            "cann-numpy", commands=(pip(case, "install", "numpy<2"),), numpy=numpy, cann=cann
        )
