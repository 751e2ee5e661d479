"""An installed Ascend stack on a machine without an NPU."""

from collections.abc import Iterator

from ascend_doctor.facts import Driver
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, quantity
from ascend_doctor.judging.expectations import NPUS
from ascend_doctor.judging.packages import find_distribution, npu_only

TEXTS = Texts("presence")


@TEXTS.check("npu-present", caused_by=("container-devices", "driver-loaded", "device-access"))
def _npu_present(case: Case) -> Findings:
    npu_only(case)
    if any(expectation.check == NPUS for expectation in case.expected):
        raise NotApplicable("--expect says how many NPUs are meant to be here")
    installed = list(_list_installed(case))
    if not installed:
        raise NotApplicable("no driver, CANN or torch_npu is installed")
    driver, npus = case.need(Driver), case.facts.npus
    if driver.devices or (npus is not None and npus.devices):
        return
    on_bus = f", {quantity(len(driver.pci), 'NPU')} on the PCI bus" if driver.pci else ""
    yield TEXTS.finding("no-npu", observed=f"no /dev/davinciN{on_bus}; {', '.join(installed)}")


def _list_installed(case: Case) -> Iterator[str]:
    driver, cann = case.facts.driver, case.facts.cann
    if driver is not None and driver.present:
        yield f"driver {driver.version or driver.package_version or 'of unknown version'}"
    for install in cann.installs[:1] if cann else ():
        yield f"CANN {install.version or 'of unknown version'}"
    torch_npu = find_distribution(case, "torch-npu")
    if torch_npu is not None:
        yield f"torch_npu {torch_npu.version}"
