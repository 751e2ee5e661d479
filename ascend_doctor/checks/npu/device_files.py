"""Cards that are gone: device files against the bus, npu-smi, /etc/hccn.conf and servers."""

from collections.abc import Iterator

from ascend_doctor.checks.npu.devices import SOURCE, with_devices
from ascend_doctor.findings import quantity, spans
from ascend_doctor.judging import Case, Findings, Texts, Unknown, error, warning
from ascend_doctor.judging.chip import MOST_DEVICES, container, family_or_none, require_answers
from ascend_doctor.judging.closed import require_open
from ascend_doctor.judging.container_fix import pci_devices

TEXTS = Texts("device-files")


@TEXTS.check("device-files")
def _device_files(case: Case) -> Findings:
    driver = with_devices(case)
    present = sorted(device.number for device in driver.devices if device.number is not None)
    if case.facts.host is None:
        if traces := [*_on_bus(case, present), *_numbering(case, present)]:
            yield TEXTS.finding("no-telling", traces="; ".join(traces))
    elif container(case) is None:
        gone = list(_on_bus(case, present))
        if not _virtual(case):
            gone += [*_numbering(case, present), *_number_of_servers(case, present)]
        if gone:
            yield TEXTS.finding("lost", gone="; ".join(gone), there=spans(present) or "none")
            return
    yield from _against_table(case, present)


def _virtual(case: Case) -> bool:
    """Whether this may be a virtual machine, which has only its assigned cards."""
    return case.facts.host is None or case.facts.host.virtual_machine is not None


def _on_bus(case: Case, present: list[int]) -> Iterator[str]:
    require_open(case, "/sys/bus/pci/devices")
    on_bus, family = pci_devices(case), family_or_none(case)
    if on_bus is None:
        return
    single = family is not None and family.devices_per_npu == 1
    if on_bus > len(present) or (single and 0 < on_bus < len(present)):
        yield (
            f"{quantity(on_bus, 'device')} on the PCI bus, {quantity(len(present), 'device file')}"
        )


def _numbering(case: Case, present: list[int]) -> Iterator[str]:
    last = max(present, default=-1)
    gaps = set(range(last + 1)) - set(present)
    if gaps:
        yield f"no /dev/davinci{spans(gaps)}"
    conf = case.facts.hccn.conf if case.facts.hccn else None
    named = {
        int(number)
        for key, value in (conf or {}).items()
        if (number := key.removeprefix("address_")) != key and number.isdecimal() and value
    }
    if beyond := {number for number in named if last < number < MOST_DEVICES}:
        yield (
            f"/etc/hccn.conf has addresses of devices {spans(named)}, and {spans(beyond)} "
            + ("is" if len(beyond) == 1 else "are")
            + " not there"
        )


def _number_of_servers(case: Case, present: list[int]) -> Iterator[str]:
    """A count that no server has; cards without links between them have any count."""
    npus, chips = case.facts.npus, family_or_none(case)
    if chips is None or not chips.servers or len(present) in chips.servers:
        return
    topology = npus.topology if npus is not None else None
    codes = {code for row in topology.links for code in row} if topology is not None else set()
    if codes and not any(code.startswith("HCCS") for code in codes):
        return
    usual = ", ".join(map(str, chips.servers))
    yield f"{quantity(len(present), 'device')}; servers of this kind have {usual}"


def _against_table(case: Case, present: list[int]) -> Findings:
    npus, family = case.facts.npus, family_or_none(case)
    if npus is None or not npus.complete or not npus.devices:
        if pci_devices(case) is None or family is None or family.devices_per_npu != 1:
            raise Unknown("neither npu-smi nor the PCI bus counts the devices")
        return
    if npus.layout == "310":  # its table has no numbers of devices
        return
    require_answers(npus.devices, "the device number", lambda npu: npu.device)
    known = [npu.device for npu in npus.devices if npu.device is not None]
    if sorted(known) == present:
        return
    only = sorted(set(known) ^ set(present))
    # A container's table may show more than it has; a file without a card is dead.
    has_subset = container(case) is not None or _virtual(case)
    yield (warning if has_subset and set(present) <= set(known) else error)(
        "npu-smi and /dev do not show the same devices",
        observed=f"npu-smi: {spans(known)}; /dev: {spans(present) or 'none'}",
        required="the same numbers",
        because="Device "
        + spans(only)
        + " is in one of them only. npu-smi shows all cards of the container or host.",
        remedy="Look at both; in a container, hand in every device that you mean to use",
        commands=("npu-smi info", "ls -l /dev/davinci*"),
        refs=(SOURCE,),
    )
