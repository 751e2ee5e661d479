"""Whether the packages that training stands on are there in full."""

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Distribution, ImportPath, Python
from ascend_doctor.judging import Case, Findings, Remedy, Texts, error, first_of
from ascend_doctor.judging.chip import ascend
from ascend_doctor.judging.packages import npu_only, pip, torch_wanted

TEXTS = Texts("package-files")

# The record of an installed package (PEP 376, PEP 427).
_RECORD = "https://packaging.python.org/en/latest/specifications/recording-installed-packages/"
_MODULES = {"torch": "torch", "torch-npu": "torch_npu"}
_SHOWN = 4


@TEXTS.check("torch-importable", caused_by=("stack-readable",))
def _torch_importable(case: Case) -> Findings:
    npu_only(case)
    python = case.need(Python)
    torch_npu, torch = python.find("torch-npu"), python.find("torch")
    if torch_npu is None:
        if python.find("mindspeed") is None:
            raise NotApplicable("neither torch_npu nor MindSpeed is installed")
        ascend(case)
        yield error(
            "MindSpeed is installed, and torch_npu is not",
            observed="no torch-npu among the installed packages",
            required="the torch_npu that the CANN of this machine is published for",
            because="MindSpeed imports torch_npu; without it nothing runs on an NPU.",
            remedy="Install the torch_npu for your torch and CANN; the matrix lists the pairs",
            commands=("ascend-doctor matrix show torch-npu",),
        )
        return
    if torch is None:
        is_wanted = torch_wanted(python, torch_npu)
        yield error(
            "torch_npu is installed, and torch is not",
            observed=f"torch_npu {torch_npu.version}, no torch",
            required=is_wanted,
            because="`import torch_npu` ends with: No module named 'torch'.",
            remedy="Install the torch of the same number",
            commands=(pip(case, "install", is_wanted),),
        )
    for distribution in (torch, torch_npu):
        if distribution is not None:
            yield from _missing_files(case, distribution)


def _missing_files(case: Case, distribution: Distribution) -> Findings:
    module = _MODULES[distribution.name]
    path = case.facts.import_path or ImportPath()
    kinds = [copy.kind for copy in path.find(module).copies[:1]]
    importable = case.need(Python).importable.get(module)
    if importable is None and not kinds:
        raise Unknown(f"it was not looked for the module {module}")
    if importable is False or kinds == ["namespace"]:
        yield error(
            f"{distribution.name} {distribution.version} is listed as installed, and "
            f"`import {module}` cannot work",
            observed=f"{distribution.location}/{module} has no __init__.py"
            if kinds
            else f"no module {module} on the path of {case.need(Python).executable}",
            required=f"the package {module}",
            because="Its metadata are there and its files are not.",
            remedy=_install_again(case, distribution),
        )


@TEXTS.check("package-files")
def _package_files(case: Case) -> Findings:
    python = case.need(Python)
    looked = [
        distribution
        for distribution in python.distributions
        if distribution.files_listed is not None
    ]
    if not looked:
        raise NotApplicable("no list of files was compared")
    for distribution in looked:
        if distribution.shadowed or not distribution.files_missing:
            continue
        shown = first_of(distribution.files_missing, _SHOWN)
        yield error(
            f"Files of {distribution.name} {distribution.version} are missing",
            observed=f"gone from {distribution.location}: {shown}",
            required=f"the {distribution.files_listed} modules and libraries of its RECORD",
            because="An import or a call ends with ModuleNotFoundError or an attribute error.",
            remedy=_install_again(case, distribution),
            refs=(_RECORD,),
        )


def _install_again(case: Case, package: Distribution) -> Remedy:
    pin = f"{package.name}=={package.version}"
    return Remedy(
        summary="Install it again, the same version and build",
        commands=(pip(case, "install", "--force-reinstall", "--no-deps", pin),),
    )
