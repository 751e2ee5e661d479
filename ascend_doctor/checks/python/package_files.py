"""Whether the packages that training stands on are there in full."""

from ascend_doctor.facts import Distribution, ImportPath, Python
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts, Unknown, first_of
from ascend_doctor.judging.chip import ascend
from ascend_doctor.judging.closed import list_import_places, require_open
from ascend_doctor.judging.packages import npu_only, pip, torch_wanted

TEXTS = Texts("package-files")

# The record of an installed package (PEP 376, PEP 427).
_RECORD = "https://packaging.python.org/en/latest/specifications/recording-installed-packages/"
_MODULES = {"torch": "torch", "torch-npu": "torch_npu"}
_WITH_PATH = ("mindspeed", "mcore_bridge", "megatron_adaptor")
_SHOWN = 4
_OPTIONAL = ("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl", "zlib")


@TEXTS.check("torch-importable", caused_by=("stack-readable",))
def _torch_importable(case: Case) -> Findings:
    npu_only(case)
    python = case.need(Python)
    if lost := [name for name in _OPTIONAL if python.importable.get(name) is False]:
        yield TEXTS.finding("no-stdlib", lost=", ".join(lost), python=python)
    torch_npu, torch = python.find("torch-npu"), python.find("torch")
    if torch_npu is None:
        if python.find("mindspeed") is None:
            raise NotApplicable("neither torch_npu nor MindSpeed is installed")
        ascend(case)
        yield TEXTS.finding("no-torch-npu")
        return
    if torch is None:
        is_wanted = torch_wanted(python, torch_npu)
        yield TEXTS.finding(
            "no-torch",
            required=is_wanted,
            commands=(pip(case, "install", is_wanted),),
            torch_npu=torch_npu,
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
        yield TEXTS.finding(
            "no-package",
            observed=f"{distribution.location}/{module} has no __init__.py"
            if kinds
            else f"no module {module} on the path of {case.need(Python).executable}",
            remedy=_install_again(case, distribution),
            distribution=distribution,
            module=module,
        )


@TEXTS.check("package-files")
def _package_files(case: Case) -> Findings:
    python = case.need(Python)
    yield from _of_another_release(case, python)
    for distribution in python.distributions:
        if not distribution.version:
            again = _install_again(case, distribution)
            yield TEXTS.finding("no-version", remedy=again, refs=(_RECORD,), name=distribution.name)
        module = distribution.name.replace("-", "_")
        path = case.facts.import_path
        lost = distribution.editable and path and not path.find(module).copies
        if lost and module in _WITH_PATH:
            require_open(case, *list_import_places(case))
            yield TEXTS.finding("no-module", distribution=distribution, module=module)
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
        yield TEXTS.finding(
            "missing",
            remedy=_install_again(case, distribution),
            refs=(_RECORD,),
            distribution=distribution,
            shown=shown,
        )


def _of_another_release(case: Case, python: Python) -> Findings:
    path = case.facts.import_path or ImportPath()
    for distribution in python.distributions:
        module = distribution.name.replace("-", "_")
        for copy in path.find(module).copies[:1]:
            release, _, _ = copy.versions.get(module, "").partition("+")
            own = copy.path.startswith(f"{distribution.location}/")
            if own and release and release != distribution.version.partition("+")[0]:
                yield TEXTS.finding(
                    "other-release",
                    remedy=_install_again(case, distribution),
                    refs=(_RECORD,),
                    copy=copy,
                    distribution=distribution,
                    release=release,
                    module=module,
                )


def _install_again(case: Case, package: Distribution) -> Remedy:
    pin = f"{package.name}=={package.version}".removesuffix("==")
    return Remedy(
        summary="Install it again, the same version and build",
        commands=(pip(case, "install", "--force-reinstall", "--no-deps", pin),),
    )
