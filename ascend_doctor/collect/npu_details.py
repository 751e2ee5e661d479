"""The other answers of npu-smi: ``info -l``, ``-m`` and ``-t TYPE``."""

from ascend_doctor.collect.vendor_text import first, parse_columns, parse_pairs, whole
from ascend_doctor.facts import NpuBoard, NpuEcc, NpuHealth, NpuMapping, NpuProcess, Topology
from ascend_doctor.patterns import patterns_of

_PROCESS, _TOPOLOGY_NAME = patterns_of(__file__)
# Cards of one server differ in serial numbers, slots and revisions, not in these.
_OF_A_KIND = {"Board ID", "Chip Count", "PCI Vendor ID", "PCI Device ID"} | {
    *("Subsystem Vendor ID", "Subsystem Device ID")
}
_IDS = frozenset({"NPU ID", "Chip ID", "Chip Count"})


def parse_list(text: str) -> int | None:
    """The card count of ``info -l``; it may list fewer. The 310 class says "Card Count"."""
    return whole(first(parse_pairs(text), "Total Count", "Card Count"))


def parse_map(text: str) -> tuple[NpuMapping, ...]:
    """``info -m``. Rows without a runtime number (``Mcu``) are not devices."""
    header, *rows = parse_columns(text) or ((),)
    places = {name: column for column, name in enumerate(header)}

    def cell(row: tuple[str, ...], name: str) -> str:
        column = places.get(name, len(row))
        return row[column] if column < len(row) else ""

    mappings = []
    for row in rows:
        npu, chip = whole(cell(row, "NPU ID")), whole(cell(row, "Chip ID"))
        numbers = (whole(cell(row, name)) for name in ("Chip Logic ID", "Chip Phy-ID"))
        if npu is not None and chip is not None and any(number is not None for number in numbers):
            mappings.append(NpuMapping(npu_id=npu, chip_id=chip))
    return tuple(mappings)


def parse_health(text: str, npu_id: int, chip_id: int = 0) -> NpuHealth | None:
    """``-t health``: codes on one line, texts on one line each. None without a state."""
    pairs = parse_pairs(text)
    if first(pairs, "Health Status", "Health") is None:
        return None
    texts = (first(pairs, "Error Information") or "").splitlines()
    return NpuHealth(
        npu_id=npu_id,
        chip_id=chip_id,
        codes=tuple((first(pairs, "Error Code") or "").split()),
        texts=tuple(text for text in texts if text),
    )


def parse_ecc(text: str, npu_id: int, chip_id: int = 0) -> NpuEcc | None:
    """``-t ecc``: every counter by its printed name. None without a counter."""
    counters = {
        key: number
        for key, value in parse_pairs(text)
        if key not in _IDS and (number := whole(value)) is not None
    }
    return NpuEcc(npu_id=npu_id, chip_id=chip_id, counters=counters) if counters else None


def parse_board(text: str, npu_id: int) -> NpuBoard | None:
    """``-t board``, with and without ``-c``. None without a version."""
    pairs = parse_pairs(text)
    board = NpuBoard(
        npu_id=npu_id,
        chip_name=first(pairs, "Chip Name"),
        npu_name=first(pairs, "NPU Name"),
        driver_version=first(pairs, "Software Version"),
        firmware_version=first(pairs, "Firmware Version"),
        compatibility=first(pairs, "Compatibility"),
        kind={key: value for key, value in pairs if key in _OF_A_KIND},
    )
    return board if board.driver_version or board.firmware_version else None


def parse_processes(text: str, npu_id: int, chip_id: int = 0) -> tuple[NpuProcess, ...]:
    """``-t proc-mem``: one process per line."""
    return tuple(
        NpuProcess(
            npu_id=npu_id, chip_id=chip_id, pid=int(pid), name=name.strip(), memory_mb=int(memory)
        )
        for pid, name, memory in _PROCESS.findall(text)
    )


def parse_topology(text: str) -> Topology | None:
    """``-t topo``. A missing or short row has "" instead of codes; None without rows."""
    names: tuple[str, ...] = ()
    links: dict[str, tuple[str, ...]] = {}
    for row in (line.split() for line in text.splitlines()):
        if not names:
            first_is_name = bool(row and _TOPOLOGY_NAME.match(row[0]))
            names = tuple(cell for cell in row if first_is_name and _TOPOLOGY_NAME.match(cell))
        elif row and row[0] in names and len(row) > len(names):
            links.setdefault(row[0], tuple(row[1 : len(names) + 1]))
    if not links:
        return None
    blank = ("",) * len(names)
    return Topology(names=names, links=tuple(links.get(name, blank) for name in names))
