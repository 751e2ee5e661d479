"""Answers of ``npu-smi info`` and ``-t topo``: no machine's, in the frames of their releases."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from . import npu_tables as tables
from .npu_tables import A2, A3, A310_NARROW, A950, Chip, Process, processes, table

Link = Callable[[int, int], str]

_NPUS = range(8)
# Bus numbers of an A2 server's eight cards, also printed in vendor documents.
_A2_BUS = ("C1", "C2", "81", "82", "01", "02", "41", "42")
_POWER = (95.4, 93.1, 96.8, 97.2, 94.6, 95.9, 98.3, 96.1)
_TEMPERATURE = (41, 38, 42, 40, 44, 43, 46, 42)
_IDLE_MB = (3402, 3398, 3398, 3398, 3398, 3398, 3398, 3399)


@cache
def texts() -> dict[str, str]:
    answers = {
        **{f"info-a2-{name}": lines for name, lines in _a2_tables().items()},
        **{f"info-a3-{name}": lines for name, lines in _a3_tables().items()},
        **{f"info-310{name}": lines for name, lines in _310_tables().items()},
        **{f"info-950{name}": lines for name, lines in _950_tables().items()},
        "fragment-a3-warning-wide": _warning_without_a_frame(),
        **{f"topo-{name}": lines for name, lines in _topologies().items()},
        "info-910-8cards-busy-23.0.rc3": _first_generation(),
    }
    return {f"{name}.txt": "\n".join(lines) + "\n" for name, lines in answers.items()}


def _a2_tables() -> dict[str, list[str]]:
    run = "/opt/venv/bin/p"  # 15 characters of a longer path
    helpers = [Process(0, 0, pid, run, 119) for pid in range(1202, 1209)]
    workers = [Process(npu, 0, 1201 + npu, run, 58102 if npu else 57800) for npu in _NPUS]
    hot = (46, 45, 47, 44, 50, 51, 49, 66)
    busy = [_a2(n, 150.4 + n, hot[n], 61702 + n % 2, load=33 + n % 5) for n in _NPUS]
    loaded = (0, 1, 4, 5, 6, 7)
    mixed = [Process(npu, 0, 804210 + 2 * npu, "", 60630 + npu) for npu in loaded]
    half_full = [_a2(n, 97.5 + n, 41 + n, 63980 + n if n in loaded else 3405) for n in _NPUS]
    elided = table(
        A2, "23.0.rc2", [_a2(n, 90.3 + n, 43 + n, 4102, name="910B1") for n in (0, 1, 7)]
    )
    two = [_a2(0, 90.2, 48, 18905, name="910B2C"), _a2(1, 97.5, 47, 18890, name="910B2C")]
    closed_thinly = processes(A2, (), [Process(0, 0, 88231, "python3.9", 15604)])
    wide = _a2(0, 80.3, 34, 0, name="910B4", hbm=(2790, 32768))
    return {
        "910b3-8cards-idle-24.1.rc1.b030": table(A2, "24.1.rc1.b030", _idle(_NPUS)),
        "910b3-4cards-idle-25.5.1": table(A2, "25.5.1", _idle(range(4))),
        "910b3-card5-lost-25.5.1": table(A2, "25.5.1", _idle(n for n in _NPUS if n != 5)),
        "910b3-8cards-busy-24.1.0": table(A2, "24.1.0", busy)
        + processes(A2, (), [helpers[-1], workers[0], *helpers[:-1], *workers[1:]]),
        "910b3-8cards-mixed-24.1.rc2": table(A2, "24.1.rc2", half_full)
        + processes(A2, (2, 3), mixed),
        "910b1-elided-23.0.rc2": [*elided[:12], "...", *elided[11:]],
        "910b2c-2cards-23.0.2.1": [
            *table(A2, "23.0.2.1", two),
            *(*closed_thinly[:-1], closed_thinly[0]),
        ],
        "910b2c-container-npu2-25.5.1": table(
            A2, "25.5.1", [_a2(2, 89.1, 33, 3391, name="910B2C")]
        ),
        "910b4-wide-no-closing-line-26.0.rc1": table(tables.A2_WIDE, "26.0.rc1", [wide])
        + processes(tables.A2_WIDE, (0,))[:-1],
    }


def _first_generation() -> list[str]:
    """A title narrower than its frame, and names that end a blank early."""
    memory = [(4410 + 13 * n, 15039 if n % 4 == 3 else 15137) for n in _NPUS]
    chips = [
        _a2(
            n,
            68.2 + n,
            37 + n,
            0,
            name="910A",
            memory=memory[n],
            hbm=(30650 + n, 32768),
            pages=1123,
        )
        for n in _NPUS
    ]
    python = [Process(npu, 0, 61320 - 19 * npu, "python", 30722) for npu in _NPUS]
    lines = table(A2, "23.0.rc3", chips, "23.0.rc2.3") + processes(A2, (), python)
    title = lines[1].replace("23.0.rc3        ", "23.0.rc3 ")
    return [lines[0], title, *(line.replace("910A ", "910A", 1) for line in lines[2:])]


def _a3_tables() -> dict[str, list[str]]:
    two = [_a3(0, 158.4, 36, 3127), _a3(1, 0, 36, 2870), _a3(2, 163.2, 37, 3110)]
    two.append(_a3(3, 0, 37, 10240))
    idle = [_a3(die, 158.4, 36, 2870 if die % 2 else 3127) for die in range(16)]
    busy = [_a3(die, 201.5 + die, 42 + die % 5, 60210 + die, load=6 + die % 3) for die in range(16)]
    # Contexts of seven other dies on the first one, of which no more than eight are listed.
    shown = [
        *(Process(0, 0, 710300 + 57 * die, "", 143) for die in (6, 9, 2, 5, 3, 12, 14, 1)),
        *(Process(die // 2, die % 2, 710300 + 57 * die, "", 57310 + die) for die in range(1, 16)),
    ]
    wide = [
        *(_a3(0, 199.6, 44, 58702, load=97), _a3(1, 0, 41, 58430, load=55)),
        *(_a3(10, 157.3, 38, 3135), _a3(11, 0, 39, 2877)),
    ]
    workers = [Process(0, chip, 402110 + 31 * chip, "train_worker", 55570) for chip in (0, 1)]
    return {
        "2cards-25.2.0": table(A3, "25.2.0", two)
        + processes(A3, (0,), [Process(1, 1, 318204, "python", 7410)]),
        "16dies-idle-25.2.0": table(A3, "25.2.0", idle) + processes(A3, _NPUS),
        "16dies-busy-25.2.0": table(A3, "25.2.0", busy) + processes(A3, (), shown),
        "slice-npu4-no-process-section-25.5.1": table(
            A3, "25.5.1", [_a3(8, 168.2, 47, 50110), _a3(9, 0, 48, 44870)]
        ),
        "wide-2of8-26.0.rc1": table(tables.A3_WIDE, "26.0.rc1", wide)
        + processes(tables.A3_WIDE, (5,), workers),
    }


def _310_tables() -> dict[str, list[str]]:
    frame_22_0_2 = A310_NARROW._replace(cells=(23, 17, 54), title=33)
    alarm = _310(0, "NA", 63, (3540, 15609), name="310B4", power="0.0", health="Alarm", pages=15)
    first = _310(0, "0000:3B:00.0", 52, (942, 21534), power="17.2")
    large = _310(2144, "0000:AF:00.0", 45, (1790, 21527))
    duo = [_310(8, "0000:02:00.0", 46, (1480 + n, 44280), chip=f"{n:<8}{n}") for n in (0, 1)]
    return {
        "b4-alarm-23.0.0": table(tables.A310, "23.0.0", [alarm]),
        "p3-22.0.0": table(A310_NARROW, "22.0.0", [first], "22.0.2"),
        "p3-npuid2144-22.0.2": table(frame_22_0_2, "22.0.2", [large], "22.0.4"),
        "p3-duo-npuid8-idle-25.0.rc1.1": table(tables.A310, "25.0.rc1.1", duo)
        + processes(tables.A310, (8,)),
    }


def _950_tables() -> dict[str, list[str]]:
    pr = [
        _950(0, "Ascend950PR", 203.2, 70, (88120, 114688)),
        _950(1, "Ascend950PR", 206.4, 61, (29870, 114688)),
        _950(2, "Ascend950PR", 191.8, 55, (5390, 131072)),
    ]
    pr = [chip._replace(bus=f"0000:{6 + chip.npu}1:00.0") for chip in pr]
    alarm = [*(chip._replace(health="Alarm", load=100) for chip in pr[:2]), pr[2]]
    dt = [_950(n, "Ascend950DT", 378.4 + n, 45 + n, (6580 + n, 86016)) for n in (0, 1, 6, 7)]
    names = ("/srv/ada/train_job.py", "/srv/eva/train_job.py", "/srv/eva/data_prep.py")
    listed = [Process(6, 0, 240117 + pid, name, 20000 + pid) for pid, name in enumerate(names)]
    python = [Process(0, 0, 118204, "python", 4702), Process(0, 0, 120377, "python", 4706)]
    return {
        "pr-alarm-25.7.rc1": table(A950, "25.7.rc1", alarm) + processes(A950, (), python),
        "dt-busid-na-25.6.rc1.b169": table(tables.A950_WIDE, "25.6.rc1.b169", dt)
        + processes(tables.A950_WIDE, (), listed),
    }


def _warning_without_a_frame() -> list[str]:
    dies = [_a3(die, 160.2 + die, 33, 2880 if die % 2 else 3094) for die in range(4)]
    dies[1] = dies[1]._replace(health="Warning")
    return [line for line in tables.rows(tables.A3_WIDE, dies) if line.startswith("|")]


def _idle(cards: Iterable[int]) -> list[Chip]:
    return [_a2(n, _POWER[n], _TEMPERATURE[n], _IDLE_MB[n]) for n in cards]


def _a2(npu: int, power: float, temperature: int, used: int, **changes: Any) -> Chip:
    bus, hbm = f"0000:{_A2_BUS[npu]}:00.0", (used, 65536)
    chip = Chip(npu, "910B3", "0", bus, f"{power:.1f}", temperature, 0, (0, 0), hbm)
    return chip._replace(**changes)


def _a3(die: int, power: float, temperature: int, used: int, load: int = 0) -> Chip:
    """A die by physical number. The first die's row has the card's power."""
    npu, chip = divmod(die, 2)
    shown, bus = "-" if chip else f"{power:.1f}", f"0000:{0xA1 + 2 * die:02X}:00.0"
    hbm = (used, 65536)
    return Chip(npu, "Ascend910", f"{chip:<6}{die}", bus, shown, temperature, load, (0, 0), hbm)


def _310(npu: int, bus: str, temperature: int, memory: tuple[int, int], **changes: Any) -> Chip:
    chip = Chip(npu, "310P3", f"{0:<8}{0}", bus, "NA", temperature, 0, memory, None)
    return chip._replace(**changes)


def _950(npu: int, name: str, power: float, temperature: int, hbm: tuple[int, int]) -> Chip:
    return Chip(npu, name, "", "NA", f"{power:.1f}", temperature, 0, (0, 0), hbm)


def _topology(names: Sequence[str], link: Link, affinity: Sequence[str] = ()) -> list[str]:
    heads = (*names, *(["CPU Affinity"] if affinity else ()))
    lines = [(" " * 11 + "".join(f"{head:<11}" for head in heads)).rstrip()]
    for row, name in enumerate(names):
        links = ("X" if row == column else link(row, column) for column in range(len(names)))
        cells = (name, *links, *affinity[row : row + 1])
        lines.append("".join(f"{cell:<11}" for cell in cells).rstrip())
    return lines


def _dies(numbers: Iterable[int]) -> list[str]:
    """A3: SIO within a card, a switch between cards."""
    return _topology(
        [f"Phy-ID{number}" for number in numbers],
        lambda row, column: "SIO" if row // 2 == column // 2 else "HCCS_SW",
    )


def _topologies() -> dict[str, list[str]]:
    cores = [f"{first}-{first + 23}" for first in (168, 72, 24, 120) for _ in range(2)]
    cards = _topology([f"NPU{npu}" for npu in _NPUS], lambda *_: "HCCS", cores)
    two_cards = _dies((4, 5, 10, 11))
    return {
        "a2-8x910b3-hccs-24.1.rc1": [f"\t   {cards[0].lstrip()}", *cards[1:], *_legend("multiple")],
        "a3-16dies-hccs_sw": _dies(range(16)),
        "a3-one-card-sio": _dies((6, 7)) + _legend("multipul", *_A3_LINKS),
        "a3-two-cards-hccs_sw-fragment": [two_cards[0][1:], *two_cards[1:]],
    }


_A3_LINKS = (
    "  SIO  = Path traversing the SIO bus",
    "  HCCS_SW = Connection traversing HCCS through a switch",
)


def _legend(multiple: str, *links: str) -> list[str]:
    """npu-smi's lines below; a release misspells a word."""
    bridges = "Nodes are connected through SMP, such as QPI, UPI."
    return [
        *("", "Legend:", "", "  X    = Self"),
        f"  SYS  = Path traversing PCIe and NUMA nodes. {bridges}",
        "  PHB  = Path traversing PCIe and the PCIe host bridge of a CPU.",
        "  PIX  = Path traversing a single PCIe switch",
        f"  PXB  = Path traversing {multiple} PCIe switches",
        "  HCCS = Connection traversing HCCS.",
        *links,
        "  NA   = Unknown relationship.",
    ]
