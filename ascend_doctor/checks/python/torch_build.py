"""Whether torch and torch_npu are a pair, built for this processor and this Python."""

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Distribution, Host, Native, Python
from ascend_doctor.judging import Case, Findings, Texts, error, matrix_fit, note, warning
from ascend_doctor.judging.packages import distribution, torch_pair, torch_wanted
from ascend_doctor.judging.requirements import requirements
from ascend_doctor.judging.version_compare import is_in_range, leading

TEXTS = Texts("torch-build")


@TEXTS.check("torch-npu-base-mismatch")
def torch_npu_base_mismatch(case: Case) -> Findings:
    torch_npu, torch = distribution(case, "torch-npu"), distribution(case, "torch")
    same = leading(torch.version, 3) == leading(torch_npu.version, 3)
    if not same:
        yield TEXTS.finding("other-base", remedy=torch_pair(case), torch=torch, torch_npu=torch_npu)


@TEXTS.check("torch-x86-not-cpu")
def torch_x86_not_cpu(case: Case) -> Findings:
    torch_npu, torch = distribution(case, "torch-npu"), distribution(case, "torch")
    is_wanted = torch_wanted(case.need(Python), torch_npu)
    if case.need(Python).machine != "x86_64" or not is_wanted.endswith("+cpu"):
        raise NotApplicable(f"torch_npu {torch_npu.version} does not ask for a +cpu build here")
    base = leading(torch.version, 3) == leading(torch_npu.version, 3)
    if base and not is_in_range(torch.version, is_wanted.removeprefix("torch")):
        yield TEXTS.finding(
            "no-cpu-build",
            remedy=torch_pair(case),
            torch=torch,
            torch_npu=torch_npu,
            is_wanted=is_wanted,
        )


@TEXTS.check("torch-cuda-build")
def torch_cuda_build(case: Case) -> Findings:
    distribution(case, "torch-npu")
    torch = distribution(case, "torch")
    built_for = _accelerator(case.need(Python), torch)
    if built_for is None:
        return
    yield (warning if case.device == "cpu" else error)(
        f"torch {torch.version} is built for {built_for}, beside torch_npu",
        observed=f"torch {torch.version}, built for {built_for}",
        required="a CPU build of torch",
        because="torch_npu refuses to share a process with another accelerator.",
        remedy=torch_pair(case),
        refs=("Ascend/pytorch@v26.1.0-pytorch2.7.1:setup.py",),
    )


def _accelerator(python: Python, torch: Distribution) -> str | None:
    """What this torch was built for, None for the CPU: by its label or requirements.

    Metadata of a CPU build for aarch64 names nvidia's packages, too, for x86_64 alone.
    """
    label = torch.version.partition("+")[2].lower()
    if label.startswith(("cu", "rocm", "xpu")):
        return label
    if not label and any(
        requirement.name.startswith("nvidia-") for requirement in requirements(python, torch)
    ):
        return "CUDA"
    return None


@TEXTS.check("torch-python")
def torch_python(case: Case) -> Findings:
    torch_npu, python = distribution(case, "torch-npu"), case.need(Python)
    if python.implementation not in {"", "cpython"}:
        yield TEXTS.finding("other-python", python=python)
    row = matrix_fit.release(case, "torch-npu", torch_npu.version)
    relations = list(matrix_fit.relations(case, row, "python")) if row else []
    if not relations:
        raise Unknown(f"no table says which Python torch_npu {torch_npu.version} takes")
    unfit = [relation for relation in relations if relation.fit != "fits"]
    if unfit:
        allowed = all(relation.allowed for relation in unfit)
        have = unfit[0].have
        yield (note if allowed else warning)(
            f"Python {have} is not in the table of torch_npu {torch_npu.version}",
            observed=f"Python {have}; the table has "
            + "; ".join(relation.range_text for relation in unfit),
            because=" ".join(relation.need.because for relation in unfit),
            refs=tuple(ref for relation in unfit for ref in relation.refs),
        )


@TEXTS.check("torch-npu-arch")
def torch_npu_arch(case: Case) -> Findings:
    distribution(case, "torch-npu")
    native, host = case.need(Native), case.need(Host)
    if native.machine is None or not host.arch:
        raise Unknown("the processor type of torch_npu or of the host is not known")
    python = case.need(Python)
    for name, path, arch in (
        ("torch_npu", native.torch_npu, native.machine),
        ("The examined Python", python.executable, python.machine),
    ):
        if arch and arch != host.arch:
            yield TEXTS.finding("other-arch", name=name, arch=arch, host=host, path=path)
