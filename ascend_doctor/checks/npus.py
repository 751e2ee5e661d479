"""The NPUs themselves: healthy, without memory errors, linked as their server has it."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_doctor.checks.machine import ascend, family_or_none, npu_name
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Npu, Npus, Topology
from ascend_doctor.findings import Finding, Remedy, counted
from ascend_doctor.judge import Case, check, error, note, unknown, warning

_SOURCE = "hicann/driver@ef377e95:npucli/npu_smi.c"
_ECC = (
    "https://github.com/hicann/runtime/blob/master/docs/en/error_code_ref/EZ2001-Execution_Error.md"
)
_TOPOLOGY = "hicann/driver@ef377e95"
_CARDS_OF_A_GROUP = 8


def shown(case: Case) -> Npus:
    """What npu-smi shows. Raises Unknown for no device, NotApplicable where that is explained."""
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
    chip = "" if layout == "950" else f" -c {npu.chip_id}"
    return f"npu-smi info -t {kind} -i {npu.npu_id}{chip}"


@check("npu-table", "Every NPU that npu-smi counts is in its table")
def npu_table(case: Case) -> Iterator[Finding]:
    """npu-smi counts cards in one place (info -l) and shows them in another (info).

    A card that is counted and not shown was lost while the machine ran. A table that was cut is
    not judged.
    """
    npus = shown(case)
    cards = {one.npu_id for one in npus.devices}
    if not npus.complete:
        raise Unknown(f"the table was cut after {counted(len(npus.devices), 'device')}")
    if npus.listed is not None and npus.listed > len(cards):
        yield warning(
            f"npu-smi counts {npus.listed} cards and shows {len(cards)}",
            found=f"shown: NPU {', '.join(map(str, sorted(cards)))}",
            wanted=f"{npus.listed} cards",
            because="A card that is not shown was lost, or does not answer.",
            remedy=Remedy(
                summary="See which one is missing, then restart the host",
                commands=("npu-smi info -l", "npu-smi info -m"),
            ),
            refs=(_SOURCE,),
        )


@check("npu-health", "Every NPU is healthy")
def npu_health(case: Case) -> Iterator[Finding]:
    """The driver rates every NPU: OK, Warning, Alarm or Critical, with codes that say why.

    A warning needs no stop, but an eye. With an alarm or a critical state the NPU may not compute,
    may compute wrongly, or goes away under load; take it out of use and have the codes looked up
    in the health documents of your product. UNKNOWN means that the card did not say.
    """
    npus = shown(case)
    details = {(one.npu_id, one.chip_id): one for one in npus.health}
    for npu in npus.devices:
        if npu.health == "OK":
            continue
        detail = details.get((npu.npu_id, npu.chip_id))
        codes = ", ".join(detail.codes) if detail else ""
        found = f"{npu_name(npu)}: {npu.health or 'no state'}"
        if codes:
            found += f"; codes {codes}"
        if detail and detail.texts:
            found += f"; {'; '.join(detail.texts)}"
        remedy = Remedy(
            summary="Read the codes; keep the device out of jobs until it is OK again "
            "(restart the host once, then have it serviced)",
            commands=(_query("health", npu, npus.layout),),
        )
        devices = () if npu.device is None else (npu.device,)
        if npu.health in {"Alarm", "Critical"}:
            yield error(
                f"{npu_name(npu)} is in state {npu.health}",
                found=found,
                wanted="OK",
                because="It may fail under load, or compute wrongly.",
                remedy=remedy,
                refs=(_SOURCE,),
                devices=devices,
            )
        elif npu.health == "Warning":
            yield warning(
                f"{npu_name(npu)} is in state Warning",
                found=found,
                wanted="OK",
                because="It works, and something is not as it should be.",
                remedy=remedy,
                refs=(_SOURCE,),
                devices=devices,
            )
        else:
            yield unknown(
                f"The health of {npu_name(npu)} could not be told",
                found=found,
                because="The card did not tell its state.",
                remedy=remedy,
            )


@check("npu-ecc", "The NPUs' memory has no errors that were not corrected")
def npu_ecc(case: Case) -> Iterator[Finding]:
    """NPUs count errors of their memory and take bad pages out of use.

    Single-bit errors are corrected; a few do no harm. A double-bit error is not: a job that meets
    one ends, and its page is isolated at the next reset. Pages that wait for isolation mean that a
    restart is due. Pages that were isolated before are history, and noted only.
    """
    npus = shown(case)
    if not npus.ecc:
        raise Unknown("npu-smi told no error counters")
    places = {(one.npu_id, one.chip_id): one for one in npus.devices}
    for ecc in npus.ecc:
        counted = {name: count for name, count in ecc.counters.items() if count}
        due = [n for n in counted if "Double Bit Error" in n or "Next-Isolated" in n]
        npu = places.get((ecc.npu_id, ecc.chip_id), Npu(npu_id=ecc.npu_id, chip_id=ecc.chip_id))
        found = "; ".join(f"{name}: {count}" for name, count in counted.items())
        if due:
            yield warning(
                f"{npu_name(npu)} has memory errors that were not corrected",
                found=found,
                wanted="no double-bit errors, no pages waiting for isolation",
                because="A job that meets such a page ends with an uncorrectable error.",
                remedy=Remedy(
                    summary="Restart the host, which isolates the pages; a card whose count goes "
                    "on rising has to be replaced",
                    commands=(_query("ecc", npu, npus.layout), "sudo reboot"),
                ),
                refs=(_ECC,),
                devices=() if npu.device is None else (npu.device,),
            )
        elif counted:
            yield note(f"{npu_name(npu)} has a history of memory errors", found=found, refs=(_ECC,))


@check("npu-topology", "The NPUs are linked as their server has it")
def npu_topology(case: Case) -> Iterator[Finding]:
    """Collectives inside a server run over the links that `npu-smi info -t topo` shows.

    In an 8-card A2 server every pair is HCCS; of 16 cards that holds inside 0 to 7 and 8 to 15. On
    A3 the two dies of a card are SIO and all others HCCS or HCCS_SW. PIX, PXB, PHB or SYS between
    them means a lost link, or a virtual machine without HCCS. On 950 several products differ, and
    all are fine.
    """
    npus = shown(case)
    family = family_or_none(case)
    if family is None or family.id not in {"ascend910b", "ascend910_93"}:
        raise NotApplicable("no topology is expected of this chip")
    if npus.topology is None:
        raise Unknown("npu-smi told no topology")
    bad = list(_slow_pairs(npus.topology, a3=family.id == "ascend910_93"))
    if bad:
        pairs = ", ".join(f"{a}-{b} {code}" for a, b, code in bad[:6])
        inside = case.facts.host is not None and case.facts.host.virtual_machine is not None
        yield warning(
            f"{len(bad)} pairs of NPUs have no HCCS between them",
            found=pairs + (f" and {len(bad) - 6} more" if len(bad) > 6 else ""),  # noqa: PLR2004 - as cut
            wanted="SIO inside a card, HCCS or HCCS_SW to all others"
            if family.id == "ascend910_93"
            else "HCCS between all cards of a group of 8",
            because="Their traffic takes the slow way"
            + (", as it does in virtual machines without HCCS." if inside else "; a link is lost."),
            remedy=Remedy(
                summary="See whether the health of these cards has codes, and restart the host",
                commands=("npu-smi info -t topo",),
            ),
            refs=(_TOPOLOGY,),
        )


def _slow_pairs(topology: Topology, *, a3: bool) -> Iterator[tuple[str, str, str]]:
    fast = {"HCCS", "HCCS_SW", "SIO"} if a3 else {"HCCS"}
    groups = [_number(name) // _CARDS_OF_A_GROUP for name in topology.names]
    for row, codes in enumerate(topology.links):
        for column, code in enumerate(codes[: len(groups)]):
            apart = not a3 and groups[row] != groups[column]
            if column > row and code not in fast and not apart:
                yield topology.names[row], topology.names[column], code


def _number(name: str) -> int:
    """The number at the end of NPU5 or Phy-ID12."""
    return int("0" + name[len(name.rstrip("0123456789")) :][:9])
