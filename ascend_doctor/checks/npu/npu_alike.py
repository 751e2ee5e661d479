"""The NPUs of one server beside each other: the same chip, memory, driver, firmware; not hot."""

from collections import Counter
from collections.abc import Iterable

from ascend_doctor.checks.npu.npus import NPU_SMI_SOURCE, visible_npus
from ascend_doctor.facts import Npus
from ascend_doctor.judging import Case, Finding, Findings, Texts
from ascend_doctor.judging.chip import npu_name, npu_names, require_answers

TEXTS = Texts("npu-alike")

# MindCluster ToolBox measures below this; no public source says where chips throttle.
_HOT_C = 90
_TOOLBOX = "hiascend.com MindCluster ToolBox guide 26.1 (toolboxug_0015)"


def _groups(values: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    pairs = [(value, owner) for value, owner in values if value]
    order = Counter(value for value, _ in pairs).most_common()
    return {value: [owner for other, owner in pairs if other == value] for value, _ in order}


def _describe_groups(groups: dict[str, list[str]]) -> str:
    (usual, most), *odd = groups.items()
    listed = [f"{usual} on {len(most)}"]
    return "; ".join((*listed, *(f"{value} on {', '.join(of)}" for value, of in odd)))


@TEXTS.check("npu-alike")
def _npu_alike(case: Case) -> Findings:
    npus = visible_npus(case)
    families = {
        family.id
        for device in npus.devices
        if (family := case.catalog.family_of(device.name)) is not None
    }
    chips = _groups((device.name, npu_name(device)) for device in npus.devices)
    pci = (case.facts.driver.pci or ()) if case.facts.driver else ()
    functions = _groups((function.device, function.address) for function in pci)
    if len(families) > 1 or len(functions) > 1:
        yield TEXTS.finding(
            "families",
            observed=_describe_groups(chips if len(chips) > 1 else functions),
            refs=(NPU_SMI_SOURCE,),
        )
    elif len(chips) > 1:
        yield _differ("chips", chips)
    buses = {
        "PCIe lanes": _groups((function.width, function.address) for function in pci),
        "kernel drivers": _groups((function.driver, function.address) for function in pci),
    }
    for what, values in (buses | _compare(npus)).items():
        if len(values) > 1:
            yield _differ(what, values)
    boards = {board.npu_id: board for board in reversed(npus.boards)}
    require_answers(npus.devices, "the board", lambda npu: npu.npu_id in boards or None)
    require_answers(npus.devices, "the driver", lambda npu: boards[npu.npu_id].driver_version)
    require_answers(npus.devices, "the firmware", lambda npu: boards[npu.npu_id].firmware_version)
    if npus.layout != "310":  # its table has no column for HBM
        require_answers(npus.devices, "the memory", lambda npu: npu.hbm)


def _compare(npus: Npus) -> dict[str, dict[str, list[str]]]:
    # A chip's board (A3), with a chip name, is not a card.
    cards = [board for board in npus.boards if board.chip_name is None]
    return {
        "memory sizes": _groups(
            (f"{device.hbm.total} MB", npu_name(device)) for device in npus.devices if device.hbm
        ),
        "drivers": _groups((card.driver_version or "", f"NPU {card.npu_id}") for card in cards),
        "firmware": _groups((card.firmware_version or "", f"NPU {card.npu_id}") for card in cards),
        **{
            f"values of {name}": _groups(
                (card.kind.get(name, ""), f"NPU {card.npu_id}") for card in cards
            )
            for name in sorted({name for card in cards for name in card.kind})
        },
    }


def _differ(what: str, values: dict[str, list[str]]) -> Finding:
    return TEXTS.finding(
        "differ",
        observed=_describe_groups(values),
        because="Ranks of one job differ in speed or memory, and all wait for the slowest."
        if what in {"chips", "memory sizes", "PCIe lanes"}
        else "Cards of several releases were never tested together.",
        refs=(NPU_SMI_SOURCE,),
        what=what,
    )


@TEXTS.check("npu-temperature")
def _npu_temperature(case: Case) -> Findings:
    npus = visible_npus(case)
    hot = [device for device in npus.devices if (device.temperature_c or 0) >= _HOT_C]
    if hot:
        yield TEXTS.finding(
            "hot-chip",
            title=f"{npu_names(hot).capitalize() if len(hot) > 1 else npu_name(hot[0])} "
            f"{'are' if len(hot) > 1 else 'is'} at {max(npu.temperature_c or 0 for npu in hot)} °C",
            observed="; ".join(f"{npu_name(npu)}: {npu.temperature_c} °C" for npu in hot),
            required=f"below {_HOT_C} °C",
            refs=(_TOOLBOX,),
            devices=tuple(npu.device for npu in hot if npu.device is not None),
        )
    # No chip that runs is at 0 °C.
    require_answers(
        npus.devices, "the temperature", lambda npu: max(npu.temperature_c or 0, 0) or None
    )
