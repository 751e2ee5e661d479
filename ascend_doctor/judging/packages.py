"""What is installed on a machine, in the words of the matrix; shared by the checks."""

import re
import shlex

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Cann, CannInstall, Distribution, Environment, Python
from ascend_doctor.findings import Remedy
from ascend_doctor.judging.judge import Case
from ascend_doctor.judging.requirements import range_declared
from ascend_doctor.judging.version_compare import is_in_range
from ascend_doctor.matrix.schema import Family

# Named by Ascend/MindSpeed@049987d2:docs/zh/user-guide/install_guide.md.
CANN_DOWNLOAD = "https://www.hiascend.com/cann/download"
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


def npu_only(case: Case) -> None:
    """Raises NotApplicable if the examined device is not an NPU."""
    if case.device != "npu":
        raise NotApplicable(f"the examined device is {case.device}, not an NPU")


def distribution(case: Case, name: str) -> Distribution:
    """The distribution of this normalised name. Raises Unknown, and NotApplicable for none."""
    package = case.need(Python).find(name)
    if package is None:
        raise NotApplicable(f"{name} is not installed")
    return package


def find_distribution(case: Case, name: str) -> Distribution | None:
    """The distribution of this normalised name. Raises Unknown."""
    return case.need(Python).find(name)


def cann_in_use(case: Case) -> CannInstall:
    """The CANN that this environment uses. Raises Unknown, and NotApplicable for none."""
    cann = case.need(Cann)
    if cann.in_use is None:
        raise NotApplicable("no CANN is in use")
    return cann.in_use


def cann_version(case: Case) -> str:
    """The release of the CANN in use. Raises Unknown and NotApplicable."""
    install = cann_in_use(case)
    if install.version is None:
        raise Unknown(f"{install.root} does not tell its version")
    return install.version


def family(case: Case) -> Family:
    """The NPUs' family by npu-smi, else PCI id. Raises Unknown, NotApplicable without any NPU."""
    npus, driver = case.facts.npus, case.facts.driver
    for name in dict.fromkeys(device.name for device in npus.devices) if npus else ():
        family_of = case.catalog.family_of(name)
        if family_of is not None:
            return family_of
    for function in (driver.pci or ()) if driver else ():
        for other in case.catalog.families:
            # Vendor and device may be joined: only the last four digits are the device.
            if other.pci_device and other.pci_device[-4:].lower() == function.device[-4:].lower():
                return other
    if driver is not None and not driver.present and not (npus and npus.devices):
        raise NotApplicable("there is no trace of an NPU on this machine")
    raise Unknown("the chip of this machine could not be told")


def variable(case: Case, name: str) -> str | None:
    """The value of an environment variable. Raises Unknown."""
    environment = case.need(Environment)
    if name in environment.withheld:
        raise Unknown(f"{name} is set, but its value was not recorded")
    return environment.variables.get(name)


def autoloads(case: Case) -> bool:
    """Whether ``import torch`` loads torch_npu: from 2.5 on, unless the variable is not "1"."""
    torch = distribution(case, "torch")
    if not is_in_range(torch.version, ">=2.5.0.dev0"):
        return False
    value = variable(case, AUTOLOAD)
    return value is None or value == "1"


def statement(case: Case) -> str:
    """The statement that fails if torch_npu cannot be imported."""
    try:
        return "import torch" if autoloads(case) else "import torch_npu"
    except (NotApplicable, Unknown):
        return "import torch_npu"


def pip(case: Case, *arguments: str) -> str:
    """A pip command for the examined interpreter, quoted for a POSIX shell."""
    python = case.need(Python).executable or "python3"
    return shlex.join([python, "-m", "pip", *arguments])


def source(path: str) -> str:
    """The command that reads a set_env.sh into this shell."""
    return f"source {shlex.quote(path)}"


def torch_pair(case: Case) -> Remedy:
    """Restore the torch that the installed torch_npu requires: the CPU build of its version."""
    required_torch = torch_wanted(case.need(Python), distribution(case, "torch-npu"))
    return Remedy(
        summary="Install the CPU build of torch that this torch_npu was made for. Builds marked "
        "+cpu come from PyTorch's own index of CPU builds; point pip to it with --index-url",
        commands=(pip(case, "install", "--force-reinstall", "--no-deps", required_torch),),
    )


def torch_wanted(python: Python, torch_npu: Distribution) -> str:
    """torch_npu's declared requirement on torch; its base version without one."""
    # 2.7.1.post2 and 2.7.1rc1 are of torch 2.7.1.
    base = re.split(r"[+]|[.]?(?:post|rc|dev)", torch_npu.version)[0]
    return f"torch{range_declared(python, torch_npu, 'torch') or f'=={base}'}"
