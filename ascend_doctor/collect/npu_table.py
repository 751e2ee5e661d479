"""The table of ``npu-smi info``: five layouts, told apart by their header rows.

Sources: printf texts of hicann/driver@ef377e95:src/custom/dev_prod/user/npucli/src and the
samples in tests/samples.
"""

import msgspec

from ascend_doctor.collect.vendor_text import whole
from ascend_doctor.facts import Npu, NpuProcess, Npus, Usage
from ascend_doctor.patterns import defer, patterns_of

_TITLE, _BUS, _USAGE, _HEADER, _CELL = patterns_of(__file__)
# People paste these instead of rows into an issue.
_ELIDED = defer(r"(?:\.{3,}|…+)$")


# Cells of a device row in every layout; 950 puts a frame line into the first.
_DEVICE_CELLS = 3
_PROCESS_CELLS = 4


class _TableReader(msgspec.Struct, kw_only=True):
    versions: tuple[str | None, str | None] = (None, None)
    layout: str | None = None
    headers: list[str] = msgspec.field(default_factory=list)
    upper: tuple[list[str], str, str] | None = None
    devices: list[Npu] = msgspec.field(default_factory=list)
    processes: list[NpuProcess] | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    closed: bool = False
    cut: bool = False

    def line(self, line: str) -> None:
        if line.startswith("|"):
            self.row([cell.strip() for cell in line.strip("|").split("|")])
        elif line.startswith("+=") and self.processes is None:
            self.closed = self.upper is None
        elif line.startswith("[WARNING]"):
            self.warnings.append(line)
        elif _ELIDED.match(line):
            self.cut = True

    def row(self, cells: list[str]) -> None:
        if not self.devices:
            self.headers += _HEADER.findall(cells[-1])
        if title := _TITLE.search(cells[0]):
            self.versions = (title.group(1), title.group(2))
        elif cells[0].startswith("NPU") and "Process id" in cells:
            self.cut |= not self.closed
            self.processes = []
        elif "Bus-Id" in cells:
            self.layout = _layout(cells)
        elif self.processes is None:
            self.device_row(cells)
        elif process := _process(cells):
            self.processes.append(process)

    def device_row(self, cells: list[str]) -> None:
        """A device's upper row has name and health, the lower one the bus id."""
        if len(cells) < _DEVICE_CELLS:
            return
        left, middle, right = " ".join(cells[:-2]).split(), cells[-2], cells[-1]
        self.closed = False
        if all(part.isdecimal() for part in left) and (
            middle in {"NA", "-"} or _BUS.match(middle) is not None
        ):
            if self.upper is None:
                self.cut = True
                return
            self.layout = self.layout or _guess_layout(left, right)
            device = _device(self.layout, self.upper, (left, middle, right))
            texts = _CELL.findall(f"{self.upper[2]} {right}")
            if len(texts) == len(self.headers):
                cells_of = dict(zip(self.headers, texts, strict=True))
                device = msgspec.structs.replace(device, cells=cells_of)
            self.devices.append(device)
            self.upper = None
        elif len(left) > 1 and whole(left[0]) is not None:
            self.cut |= self.upper is not None
            self.upper = (left, middle, right)


def parse_info(text: str) -> Npus:
    """The facts of ``npu-smi info``. Never raises; text without a table gives no devices.

    Without header rows it has no layout; ``processes`` is None without their section.
    """
    reader = _TableReader()
    for line in text.splitlines():
        reader.line(line.strip())
    cut = reader.cut or reader.upper is not None or not reader.devices
    return Npus(
        tool_version=reader.versions[0],
        driver_version=reader.versions[1],
        layout=reader.layout,
        devices=tuple(reader.devices),
        complete=not cut and (reader.closed or reader.processes is not None),
        processes=None if reader.processes is None else tuple(reader.processes),
        warnings=tuple(reader.warnings),
    )


def _layout(cells: list[str]) -> str:
    first = " ".join(cells[0].split())
    return {"Chip Phy-ID": "a3", "Chip Device": "310", "": "950"}.get(first, "a2")


def _guess_layout(left: list[str], right: str) -> str | None:
    numbers = len(left)
    if len(_USAGE.findall(right)) > 1:
        return {0: "950", 1: "a2"}.get(numbers, "a3")
    return "310" if numbers > 1 else None


def _device(
    layout: str | None, upper: tuple[list[str], str, str], lower: tuple[list[str], str, str]
) -> Npu:
    """One device. The columns after the bus id are used/total pairs with a slash.

    On A2 and 950 the NPU id is the device number; on A3 it is the Phy-ID. The second number of 310
    is the runtime's index (``device_logic_id`` in print_chip_total_info), not a device number.
    """
    (npu, *name), health, state = upper
    numbers, bus, load = lower
    npu_id = whole(npu) or 0
    ids = [whole(number) for number in numbers]
    device: int | None = npu_id if layout in {"a2", "950"} else None
    if layout == "a3" and len(ids) > 1:
        device = ids[1]
    _, temperature, *_ = [*state.split(), "", ""]
    usages = [_usage(*pair) for pair in _USAGE.findall(load)]
    return Npu(
        npu_id=npu_id,
        chip_id=(ids[0] if ids else 0) or 0,
        device=device,
        name=" ".join(name),
        bus=bus,
        health=health,
        temperature_c=whole(temperature),
        utilisation=whole(load.split()[0]) if load.split() else None,
        memory=usages[0] if usages else None,
        hbm=usages[1] if len(usages) > 1 else None,
    )


def _usage(used: str, total: str) -> Usage | None:
    numbers = whole(used), whole(total)
    if numbers[0] is None or numbers[1] is None:
        return None
    return Usage(used=numbers[0], total=numbers[1])


def _process(cells: list[str]) -> NpuProcess | None:
    """A row of the process table: ids, pid, name, MB; from 26.0 also the pid in the container."""
    ids = [whole(word) for word in cells[0].split()]
    pid = whole(cells[1]) if len(cells) >= _PROCESS_CELLS else None
    if pid is None or not ids or ids[0] is None:
        return None
    return NpuProcess(
        npu_id=ids[0],
        chip_id=(ids[1] if len(ids) > 1 else 0) or 0,
        pid=pid,
        name=cells[2],
        memory_mb=whole(cells[3]),
    )
