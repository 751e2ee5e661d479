"""Tables of ``npu-smi info``: the frames and oddities of its releases, with values of our own.

The name of a table says chip, size, state and release; the README says what is special about it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Frame(NamedTuple):
    """A release's output: widths in characters, and column names."""

    cells: tuple[int, ...]
    head: tuple[tuple[str, ...], tuple[str, ...]]
    columns: tuple[int, int] = (12, 18)
    title: int = 25
    number: int = 6
    pairs: tuple[int, int, int] = (5, 5, 5)
    table: tuple[tuple[str, int], ...] = (("Process name", 26), ("Process memory(MB)", 25))


class Chip(NamedTuple):
    """The two rows of a chip. ``chip`` begins the lower one."""

    npu: int
    name: str
    chip: str
    bus: str
    power: str
    temperature: int
    load: int
    memory: tuple[int, int]
    hbm: tuple[int, int] | None
    health: str = "OK"
    pages: int = 0


class Process(NamedTuple):
    npu: int
    chip: int
    pid: int
    name: str
    memory: int


_USAGE = ("Power(W)", "Temp(C)", "Hugepages-Usage(page)")
_LOAD = ("AICore(%)", "Memory-Usage(MB)", "HBM-Usage(MB)")
_CONTAINER = (("Process name", 20), ("Process memory(MB)", 23), ("Process id in container", 25))
_A2_HEAD = (("NPU   Name", "Health", *_USAGE), ("Chip", "Bus-Id", *_LOAD))
_A3_HEAD = (_A2_HEAD[0], ("Chip  Phy-ID", "Bus-Id", *_LOAD))
_310_HEAD = (("NPU     Name", "Health", *_USAGE), ("Chip    Device", "Bus-Id", *_LOAD[:2], ""))
_950_HEAD = (("NPU ID", "Name", "Health", *_USAGE), ("", "", "Bus-Id", "NPU Util(%)", *_LOAD[1:]))
_310_TABLE = (("Process name", 26), ("Process memory(MB)", 27))
_950_TABLE = (("Process name", 26), ("Process memory(MB)", 26))
A2 = Frame((27, 15, 52), _A2_HEAD)
A3 = Frame((27, 15, 52), _A3_HEAD)
A2_WIDE = Frame((27, 15, 70), _A2_HEAD, (21, 24), title=36, table=_CONTAINER)
A3_WIDE = A2_WIDE._replace(head=_A3_HEAD)
A310_NARROW = Frame((19, 17, 54), _310_HEAD, (13, 18), title=29, number=8)
A310 = Frame(
    (31, 17, 54), _310_HEAD, (13, 18), title=41, number=8, pairs=(6, 5, 5), table=_310_TABLE
)
A950 = Frame((8, 18, 15, 53), _950_HEAD, title=41, pairs=(6, 5, 6), table=_950_TABLE)
A950_WIDE = A950._replace(
    cells=(8, 18, 15, 70), columns=(22, 25), pairs=(6, 6, 6), table=_CONTAINER
)


def _edge(widths: Iterable[int], sign: str = "-") -> str:
    return "+" + "+".join(sign * width for width in widths) + "+"


def _row(frame: Frame, texts: tuple[str, ...]) -> str:
    count = len(frame.cells) - 1
    middle, right = frame.columns
    last = f"{texts[count]:<{middle}}{texts[count + 1]:<{right}}{texts[count + 2]}"
    cells = zip((*texts[:count], last), frame.cells, strict=True)
    return "|" + "|".join(f" {text:<{width - 1}}" for text, width in cells) + "|"


def _two_rows(frame: Frame, chip: Chip) -> tuple[str, str]:
    upper: tuple[str, ...] = (f"{chip.npu:<{frame.number}}{chip.name}",)
    lower: tuple[str, ...] = (chip.chip,)
    if frame.head is _950_HEAD:
        upper, lower = (str(chip.npu), chip.name), ("", "")
    pages, memory, hbm = (
        "" if pair is None else f"{pair[0]:<{width}}/ {pair[1]}"
        for pair, width in zip(
            ((chip.pages, chip.pages), chip.memory, chip.hbm), frame.pairs, strict=True
        )
    )
    usage = (chip.power, str(chip.temperature), pages)
    return (
        _row(frame, (*upper, chip.health, *usage)),
        _row(frame, (*lower, chip.bus, str(chip.load), memory, hbm)),
    )


def rows(frame: Frame, chips: Iterable[Chip]) -> Iterator[str]:
    before = None
    for chip in chips:
        if before == chip.npu:
            yield _edge(frame.cells if frame.head is _310_HEAD else (_whole(frame),))
        elif before is not None:
            yield _edge(_lower_cells(frame), "=")
        yield from _two_rows(frame, chip)
        before = chip.npu


def _whole(frame: Frame) -> int:
    return sum(frame.cells) + len(frame.cells) - 1


def _lower_cells(frame: Frame) -> tuple[int, ...]:
    """Cells of the process table, which also close the devices of the wide 950."""
    return frame.cells if frame is A950 else _process_cells(frame)


def _process_cells(frame: Frame) -> tuple[int, ...]:
    *left, middle, right = frame.cells
    return (sum(left) + len(left) - 1, middle, right)


def table(frame: Frame, release: str, chips: Iterable[Chip], driver: str = "") -> list[str]:
    """The upper part of an answer, which some releases end with."""
    whole = _whole(frame)
    title = f" npu-smi {release:<{frame.title - 1}} Version: {driver or release}"
    return [
        _edge((whole,)),
        f"|{title:<{whole}}|",
        _edge(frame.cells),
        *(_row(frame, head) for head in frame.head),
        _edge(frame.cells, "="),
        *rows(frame, chips),
        _edge(_lower_cells(frame), "="),
    ]


def processes(frame: Frame, idle: Iterable[int], running: Iterable[Process] = ()) -> list[str]:
    cells = _process_cells(frame)
    left = "NPU ID" if frame.head is _950_HEAD else "NPU     Chip"
    heads = "|".join(f" {head:<{width - 1}}" for head, width in frame.table)
    closing = _edge(cells, "=")
    lines = [_edge(cells), f"| {left:<{cells[0] - 1}}| {'Process id':<{cells[1] - 1}}|{heads}|"]
    lines.append(closing)
    by_npu: dict[int, list[Process]] = {npu: [] for npu in idle}
    for process in running:
        by_npu.setdefault(process.npu, []).append(process)
    for npu, listed in sorted(by_npu.items()):
        none = f"No running processes found in NPU {npu}"
        lines += [_process(frame, process) for process in listed] or [
            f"| {none:<{_whole(frame) - 1}}|"
        ]
        lines.append(closing)
    return lines


def _process(frame: Frame, process: Process) -> str:
    npu = f"{process.npu:<8}{process.chip}"
    widths = [width - 2 for _, width in frame.table]
    if frame.head is _950_HEAD:
        npu = str(process.npu)
    if frame is A950:
        widths[-1] -= 1  # its rows are a character shorter than its frame
    texts = (process.name, str(process.memory), "NA")
    usage = "|".join(f" {text:<{width}} " for text, width in zip(texts, widths, strict=False))
    left, middle, _ = _process_cells(frame)
    return f"| {npu:<{left - 1}}| {process.pid:<{middle - 1}}|{usage}|"
