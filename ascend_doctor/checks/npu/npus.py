"""The NPUs themselves: healthy, without memory errors, linked as their server has it."""

import itertools
import math
from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Npu, Npus, Topology, require_known
from ascend_doctor.findings import Remedy, first_of, quantity
from ascend_doctor.judging import Case, Findings, Texts, error, warning
from ascend_doctor.judging.chip import ascend, container, family_or_none, npu_name, npu_names

TEXTS = Texts("npus")

NPU_SMI_SOURCE = TEXTS.names["npu_smi_source"]
_TOPOLOGY = "hicann/driver@ef377e95"
# HCCS links sixteen A2 cards within each half, not across halves.
_CARDS_OF_A_GROUP = 8
# The legend of `npu-smi info -t topo`: paths over PCIe.
_SLOW = frozenset({"SYS", "PHB", "PIX", "PXB"})
_SHOWN = 6


def visible_npus(case: Case) -> Npus:
    """What npu-smi shows. Raises Unknown for no device, NotApplicable if explained elsewhere."""
    ascend(case)
    npus = case.need(Npus)
    if npus.devices:
        return npus
    if npus.error is not None:
        raise NotApplicable("npu-smi shows no device (see npu-smi)")
    driver = case.facts.driver
    if not npus.tool and driver is not None and not driver.nodes:
        raise NotApplicable("no device is here to look at")
    raise Unknown("npu-smi is not there" if not npus.tool else "npu-smi shows no device")


def _query(kind: str, npu: Npu, layout: str | None) -> str:
    # npu-smi of 950 takes no -c.
    chip = "" if layout == "950" else f" -c {npu.chip_id}"
    return f"npu-smi info -t {kind} -i {npu.npu_id}{chip}"


@TEXTS.check("npu-table")
def npu_table(case: Case) -> Findings:
    npus = visible_npus(case)
    cards = {device.npu_id for device in npus.devices}
    if not npus.complete:
        raise Unknown(f"the table was cut after {quantity(len(npus.devices), 'device')}")
    counts = max(npus.listed or 0, len({mapping.npu_id for mapping in npus.mapping or ()} | cards))
    if counts <= len(cards):
        counts = require_known(npus.listed, "how many cards npu-smi counts")
    lost = counts > len(cards)
    if counts != len(cards):
        yield (error if lost and container(case) is None else warning)(
            f"npu-smi counts {counts} cards and shows {len(cards)}",
            observed=f"shown: NPU {', '.join(map(str, sorted(cards)))}",
            required=f"{max(counts, len(cards))} cards",
            because="A card that is not shown was lost, or does not answer."
            if lost
            else "Both answers come from the driver, and one of them is wrong.",
            remedy="See which one is missing, then restart the host"
            if lost
            else "Ask both again; restart the host where they still differ",
            commands=("npu-smi info -l", "npu-smi info"),
            refs=(NPU_SMI_SOURCE,),
        )
    odd = [
        f"{npu_name(npu)}: {name} {text}"
        for npu in npus.devices
        for name, text in npu.cells.items()
        if not _is_possible(name, text)
    ]
    if odd := [*odd, *_off_bus(case, npus)]:
        yield TEXTS.finding("odd-table", odd=first_of(odd, _SHOWN))
    for npu in npus.devices:
        # The second chip of a card has no power of its own (A3).
        peers = [other.cells for other in npus.devices if other.chip_id == npu.chip_id]
        names = dict.fromkeys(name for cells in peers for name in cells if _is_told(cells[name]))
        silent = [name for name in names if not _is_told(npu.cells.get(name, ""))]
        if silent:
            raise Unknown(f"npu-smi did not report {', '.join(silent)} of {npu_name(npu)}")


def _off_bus(case: Case, npus: Npus) -> Iterator[str]:
    """Bus ids that the PCI bus lacks, or of two devices. On A3 a function may stand for two."""
    driver, family = case.facts.driver, family_or_none(case)
    there = {function.address for function in (driver.pci or () if driver else ())}
    buses = [npu.bus.lower()[-12:] for npu in npus.devices if ":" in npu.bus]  # 4 digits of domain
    if there and family is not None and family.devices_per_npu == 1:
        odd = [bus for bus in buses if bus not in there or buses.count(bus) > 1]
        yield from (f"Bus-Id {bus}" for bus in odd)


def _is_told(text: str) -> bool:
    return text.strip("NA-/ ") != ""


def _is_possible(name: str, text: str) -> bool:
    """Whether a cell has numbers of its column: a share up to 100, no more used than there is."""
    if not _is_told(text):
        return True
    try:
        used, *total = (float(word) for word in text.split("/"))
    except ValueError:
        return False
    return 0 <= used <= (total[0] if total else 100 if name.endswith("(%)") else math.inf)


@TEXTS.check("npu-health")
def npu_health(case: Case) -> Findings:
    npus = visible_npus(case)
    details = {(health.npu_id, health.chip_id): health for health in npus.health}
    for npu in npus.devices:
        if npu.health == "OK":
            continue
        detail = details.get((npu.npu_id, npu.chip_id))
        codes = ", ".join(detail.codes) if detail else ""
        observed = f"{npu_name(npu)}: {npu.health or 'no state'}"
        if codes:
            observed += f"; codes {codes}"
        if detail and detail.texts:
            observed += f"; {'; '.join(detail.texts)}"
        remedy = Remedy(
            summary="Read the codes; keep the device out of jobs until it is OK again "
            "(restart the host once, then have it serviced)",
            commands=(_query("health", npu, npus.layout),),
        )
        devices = () if npu.device is None else (npu.device,)
        if npu.health in {"Alarm", "Critical", "Warning"}:
            works = npu.health == "Warning"
            yield (warning if works else error)(
                f"{npu_name(npu)} is in state {npu.health}",
                observed=observed,
                required="OK",
                because="It works, and something is not as it should be."
                if works
                else "It may fail under load, or compute wrongly.",
                remedy=remedy,
                refs=(NPU_SMI_SOURCE,),
                devices=devices,
            )
        else:
            yield TEXTS.finding(
                "untold-health", remedy=remedy, card=npu_name(npu), observed=observed
            )


@TEXTS.check("npu-ecc")
def npu_ecc(case: Case) -> Findings:
    npus = visible_npus(case)
    if not npus.ecc:
        raise Unknown("npu-smi told no error counters")
    places = {(device.npu_id, device.chip_id): device for device in npus.devices}
    for ecc in npus.ecc:
        counted = {name: count for name, count in ecc.counters.items() if count}
        due = [n for n in counted if "Double Bit Error" in n or "Next-Isolated" in n]
        isolated = [n for n in counted if "Double Bit Isolated" in n]
        npu = places.get((ecc.npu_id, ecc.chip_id), Npu(npu_id=ecc.npu_id, chip_id=ecc.chip_id))
        observed = "; ".join(f"{name}: {count}" for name, count in counted.items())
        if due:
            yield TEXTS.finding(
                "open-errors",
                commands=(_query("ecc", npu, npus.layout), "sudo reboot"),
                devices=() if npu.device is None else (npu.device,),
                card=npu_name(npu),
                observed=observed,
            )
        elif isolated:
            yield TEXTS.finding(
                "isolated-pages",
                commands=(_query("ecc", npu, npus.layout),),
                devices=() if npu.device is None else (npu.device,),
                card=npu_name(npu),
                observed=observed,
            )
        elif counted:
            yield TEXTS.finding("past-errors", card=npu_name(npu), observed=observed)
    names = {name for row in npus.ecc for name in row.counters}
    complete = {(row.npu_id, row.chip_id) for row in npus.ecc if names <= row.counters.keys()}
    silent = [device for device in npus.devices if (device.npu_id, device.chip_id) not in complete]
    if silent:
        raise Unknown(f"npu-smi did not tell all error counters of {npu_names(silent)}")


@TEXTS.check("npu-topology")
def npu_topology(case: Case) -> Findings:
    npus = visible_npus(case)
    family = family_or_none(case)
    if family is None or not family.topology:
        raise NotApplicable("no topology is expected of this chip")
    if npus.topology is None:
        raise Unknown("npu-smi told no topology")
    pairs = list(_pairs(npus.topology, a3=family.topology == "card"))
    bad = [pair for pair in pairs if pair[2] in _SLOW]
    if bad:
        inside = case.facts.host is not None and case.facts.host.virtual_machine is not None
        yield warning(
            f"{len(bad)} pairs of NPUs have no HCCS between them",
            observed=first_of([f"{a}-{b} {code}" for a, b, code in bad], _SHOWN),
            required="SIO inside a card, HCCS or HCCS_SW to all others"
            if family.topology == "card"
            else "HCCS between all cards of a group of 8",
            because="Their traffic takes the slow way"
            + (", as it does in virtual machines without HCCS." if inside else "; a link is lost."),
            remedy="See whether the health of these cards has codes, and restart the host",
            commands=("npu-smi info -t topo",),
            refs=(_TOPOLOGY,),
        )
    silent = [f"{a}-{b} {code}".rstrip() for a, b, code in pairs if code not in _SLOW]
    if silent:
        more = " and others" if len(silent) > _SHOWN else ""
        raise Unknown(f"npu-smi did not tell the links {', '.join(silent[:_SHOWN])}{more}")
    shown_numbers = {_number(name) for name in npus.topology.names}
    lacking = [
        device
        for device in npus.devices
        if (device.device if npus.layout == "a3" else device.npu_id) not in shown_numbers
    ]
    if lacking:
        raise Unknown(f"the topology does not have {npu_names(lacking)}")


def _pairs(topology: Topology, *, a3: bool) -> Iterator[tuple[str, str, str]]:
    """Pairs of NPUs not known to be linked fast, each once, slow codes first."""
    fast = {"HCCS", "HCCS_SW", "SIO"} if a3 else {"HCCS"}
    groups = [_number(name) // _CARDS_OF_A_GROUP for name in topology.names]
    for (row, left), (column, other) in itertools.combinations(enumerate(topology.names), 2):
        codes = (topology.links[row][column], topology.links[column][row])
        if not a3 and groups[row] != groups[column]:
            continue
        code = next((code for code in codes if code in _SLOW), None)
        if code is None:
            code = next((code for code in codes if code not in fast), None)
        if code is not None:
            yield left, other, code


def _number(name: str) -> int:
    """The number at the end of NPU5 or Phy-ID12."""
    return int("0" + name[len(name.rstrip("0123456789")) :][:9])
