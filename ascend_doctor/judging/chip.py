"""The machine that is judged: whether it has NPUs, and where its checks run."""

from collections.abc import Callable, Iterable

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Container, Npu
from ascend_doctor.findings import spans
from ascend_doctor.judging.judge import Case
from ascend_doctor.judging.packages import family, npu_only
from ascend_doctor.matrix.schema import Family

# Ids as the runtime counts devices, and so ASCEND_RT_VISIBLE_DEVICES and torch.
MOST_DEVICES = 64


def ascend(case: Case) -> None:
    """Raises NotApplicable for another device than an NPU, and without any trace of Ascend."""
    npu_only(case)
    driver, npus = case.facts.driver, case.facts.npus
    traces = (driver is None or driver.present, npus is not None and (npus.tool or npus.devices))
    if not any(traces):
        raise NotApplicable("no Ascend device on this machine")


def container(case: Case) -> Container | None:
    """The container of the doctor; None on a host, and if unknown."""
    return case.facts.host.container if case.facts.host else None


def lacks_root(case: Case) -> bool:
    """Whether the doctor runs as a user who sees less than root."""
    host = case.facts.host
    return host is not None and host.uid not in {None, 0}


def family_or_none(case: Case) -> Family | None:
    try:
        return family(case)
    except (Unknown, NotApplicable):
        return None


def device_count(case: Case) -> int | None:
    """Devices visible to the runtime, by device files, else by npu-smi's table."""
    driver, npus = case.facts.driver, case.facts.npus
    numbered = [node for node in driver.nodes if node.kind != "manager"] if driver else []
    if numbered:
        return len(numbered)
    if npus is not None and npus.devices and npus.complete:
        return len(npus.devices)
    # Both sources were read, and neither shows one.
    return 0 if driver is not None and npus is not None and npus.error is None else None


def require_answers(npus: Iterable[Npu], what: str, answer: Callable[[Npu], object]) -> None:
    """Raises Unknown for NPUs without an answer of npu-smi, whether one or all."""
    silent = [npu for npu in npus if answer(npu) in {None, ""}]
    if silent:
        raise Unknown(f"npu-smi did not report {what} of {npu_names(silent)}")


def npu_name(npu: Npu) -> str:
    device = "" if npu.device is None else f", device {npu.device}"
    return f"NPU {npu.npu_id} chip {npu.chip_id}{device}"


def npu_names(npus: Iterable[Npu]) -> str:
    listed = list(npus)
    if len(listed) == 1:
        return npu_name(listed[0])
    if all(npu.device is not None for npu in listed):
        return f"devices {spans(npu.device for npu in listed if npu.device is not None)}"
    return f"{len(listed)} NPUs"
