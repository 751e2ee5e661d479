"""Whether torch and torch_npu are a pair, built for this processor and this Python."""

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Distribution, Host, Native, Python
from ascend_doctor.findings import Finding
from ascend_doctor.judging import matrix_fit
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.judging.packages import distribution, torch_pair, torch_wanted
from ascend_doctor.judging.requirements import requirements
from ascend_doctor.judging.version_compare import is_in_range, leading

_SETUP = "Ascend/pytorch@v26.1.0-pytorch2.7.1:setup.py"


@check("torch-npu-base-mismatch", "torch and torch_npu versions match")
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
            observed=f"torch {torch.version}, torch_npu {torch_npu.version}",
            required="the same first three numbers",
            because="Importing torch_npu ends with undefined symbols, or crashes.",
            remedy=torch_pair(case),
            refs=(_SETUP, "https://github.com/Ascend/pytorch/issues/35"),
        )


@check("torch-x86-not-cpu", "torch is the build that torch_npu requires")
def torch_x86_not_cpu(case: Case) -> Iterator[Finding]:
    """On x86_64 most torch_npu wheels require the +cpu build of torch and accept no other.

    `pip install torch==2.7.1` brings the CUDA build there; its number is the same. The +cpu build
    comes from PyTorch's own index. On aarch64 the plain number is the CPU build up to torch 2.10
    (wheels of the package index, 2026-11-22). From torch_npu 2.12 on the wheel asks for the number
    alone.
    """
    torch_npu, torch = distribution(case, "torch-npu"), distribution(case, "torch")
    is_wanted = torch_wanted(case.need(Python), torch_npu)
    if case.need(Python).machine != "x86_64" or not is_wanted.endswith("+cpu"):
        raise NotApplicable(f"torch_npu {torch_npu.version} does not ask for a +cpu build here")
    base = leading(torch.version, 3) == leading(torch_npu.version, 3)
    if base and not is_in_range(torch.version, is_wanted.removeprefix("torch")):
        yield error(
            f"torch {torch.version} is not the +cpu build that torch_npu {torch_npu.version} needs",
            observed=f"torch {torch.version}",
            required=is_wanted,
            because="On x86_64 the plain wheel of this number is a CUDA build.",
            remedy=torch_pair(case),
            refs=(_SETUP,),
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


@check("torch-python", "torch_npu supports this Python")
def torch_python(case: Case) -> Iterator[Finding]:
    """torch_npu is built and tested for certain Python releases, per PyTorch line.

    Another Python may work where the package could be installed at all; its table does not say so.
    """
    torch_npu = distribution(case, "torch-npu")
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
            observed=f"{native.torch_npu}: {native.machine}",
            required=host.arch,
            because="Its files cannot be loaded.",
            remedy=f"Make the environment anew on {host.arch}",
        )
