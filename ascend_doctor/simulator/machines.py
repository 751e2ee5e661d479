"""The machine around simulated NPUs: what npu-smi, hccn_tool and the driver's files say there.

The texts have the forms of real ones (tests/samples); the figures are those of the simulation.
"""

import shlex
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from ascend_doctor.errors import DataError
from ascend_doctor.machine import scratch
from ascend_doctor.machine.live import FileStatus
from ascend_doctor.machine.recorded import RecordedCommand, Recording, ReplayMachine
from ascend_doctor.simulator.faults import Injection
from ascend_doctor.simulator.soc import find
from ascend_doctor.simulator.tree import Tree

DRIVER = "25.5.1"
FIRMWARE = "7.1.0.11.220"
MEMORY = 4 << 30
_DRIVER_ROOT = "/usr/local/Ascend/driver"
_MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
_IDLE_MB = 128
# HCCL reports what hangs after 140 to 1836 s, too long for a wait on a simulated fault.
_HASTE = 20.0
_EDGE = "+---------------------------+---------------+" + "-" * 52 + "+"
_HEAVY = _EDGE.replace("-", "=")
_FULL = "+" + "-" * 96 + "+"
_FIXED = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
_HCCN, _MASK = "/etc/hccn.conf", "255.255.255.0"
TOOLS = ("npu-smi", "hccn_tool")


class MachineKind(msgspec.Struct, frozen=True, kw_only=True):
    """A server. ``chips`` devices make one card; ``pci`` is the device id of the chips."""

    name: str
    soc: str
    shown: str
    cards: int
    chips: int
    pci: str

    @property
    def devices(self) -> int:
        return self.cards * self.chips


KINDS = {
    kind.name: kind
    for kind in (
        MachineKind(name="a2-8", soc="Ascend910B3", shown="910B3", cards=8, chips=1, pci="0xd802"),
        MachineKind(
            name="a3-16", soc="Ascend910_9391", shown="Ascend910", cards=8, chips=2, pci="0xd803"
        ),
    )
}


class SimulatedMachine:
    def __init__(self, kind: MachineKind, soc: str, memory: int) -> None:
        self.kind = kind
        self.soc = soc
        self.memory = memory

    def record(self) -> ReplayMachine:
        """What its tools and files say. The folder of the recording goes with it."""
        folder = scratch.new_folder()
        write(self.kind, folder, soc=self.soc, memory=self.memory)
        recording = ReplayMachine(folder)
        weakref.finalize(recording, scratch.remove, folder)
        return recording

    def environment(
        self, tree: Tree, base: Mapping[str, str], faults: Sequence[Injection] = ()
    ) -> dict[str, str]:
        """The environment of a shell on it that has sourced CANN's set_env.sh."""
        env = tree.environment(
            base,
            soc=self.soc,
            devices=self.kind.devices,
            memory_bytes=self.memory,
            faults=[fault.line for fault in faults if fault.line],
            haste=_HASTE if faults else 1.0,
        )
        for fault in faults:
            env |= fault.fault.environment
        return env


def machine(
    name: str, *, soc: str | None = None, memory: int = MEMORY, npus: int | None = None
) -> SimulatedMachine:
    """A server by name, with its own chip and number of devices or others.

    ``memory`` is bytes a device. Raises DataError for an unknown name or chip, and for devices
    that do not make whole cards.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise DataError(f"--machine {name}: there is no such one; known are {', '.join(KINDS)}")
    chip = soc or kind.soc
    find(chip)
    if npus is not None:
        cards, rest = divmod(npus, kind.chips)
        if rest:
            raise DataError(f"--npus {npus}: a card of {name} has {kind.chips} of them")
        kind = msgspec.structs.replace(kind, cards=cards)
    if soc and kind.chips == 1:
        kind = msgspec.structs.replace(kind, shown=chip.removeprefix("Ascend"))
    return SimulatedMachine(kind, chip, memory)


def machine_of(chip: str, memory: int) -> SimulatedMachine:
    """The server that has chips of this one's family, also as 910B3. Raises DataError."""
    soc = f"Ascend{chip.removeprefix('Ascend')}"
    family = find(soc)[0]
    names = (name for name, kind in KINDS.items() if find(kind.soc)[0] == family)
    return machine(next(names, "a2-8"), soc=soc, memory=memory)


def write_tools(server: SimulatedMachine, folder: Path, *, node: int = 0) -> None:
    """Write npu-smi and hccn_tool as programs, for a user's own scripts.

    ``node`` is the server's number among those that can reach each other's NPUs.
    """
    answers: dict[str, list[str]] = {}
    for line, text in _answers(server.kind, server.soc, server.memory, node):
        tool, _, arguments = line.partition(" ")
        case = f"{shlex.quote(arguments)}) printf %s {shlex.quote(text)} ;;"
        answers.setdefault(tool, []).append(case)
    for tool, cases in answers.items():
        refusal = f'*) echo "{tool} of a simulated machine: no answer to: $*" >&2; exit 1 ;;'
        lines = ("#!/bin/sh", 'case "$*" in', *cases, refusal, "esac")
        program = folder / tool
        program.write_text("\n".join(lines) + "\n", "utf-8")
        program.chmod(0o755)


def write(kind: MachineKind, folder: Path, *, soc: str, memory: int) -> None:
    for path, text in _files(kind).items():
        copy = folder / "root" / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, "utf-8")
    node = FileStatus(kind="char", mode="0666", uid=0, gid=0)
    tool = FileStatus(kind="file", mode="0755", uid=0, gid=0)
    paths = [f"/dev/davinci{number}" for number in range(kind.devices)]
    nodes = dict.fromkeys((*paths, *(f"/dev/{name}" for name in _MANAGERS)), node)
    nodes["/usr/local/bin/npu-smi"] = nodes[f"{_DRIVER_ROOT}/tools/hccn_tool"] = tool
    recording = Recording(
        origin=f"simulated {kind.name}; no such machine was seen",
        commands=[
            RecordedCommand(name=name, stdout=text) for name, text in _answers(kind, soc, memory)
        ],
        nodes=nodes,
        values={"holders": {"processes": [], "complete": True}},
    )
    text = yaml.safe_dump(msgspec.to_builtins(recording), sort_keys=False)
    (folder / "machine.yaml").write_text(text, "utf-8")


def _files(kind: MachineKind) -> dict[str, str]:
    files: dict[str, str] = dict(_FIXED["files"])
    for n in range(kind.devices):
        files[_HCCN] = f"{files.get(_HCCN, '')}address_{n}={_address(n)}\nnetmask_{n}={_MASK}\n"
        folder = f"/sys/bus/pci/devices/{_bus(n).lower()}"
        files[f"{folder}/vendor"] = "0x19e5\n"
        files[f"{folder}/class"] = "0x120000\n"
        files[f"{folder}/device"] = f"{kind.pci}\n"
    return files


def _address(device: int, node: int = 0) -> str:
    """From the block for documentation (RFC 5737)."""
    return f"192.0.2.{10 + 16 * node + device}"


def _bus(device: int) -> str:
    return f"0000:{0x81 + device:02X}:00.0"


def _answers(kind: MachineKind, soc: str, memory: int, node: int = 0) -> Iterator[tuple[str, str]]:
    yield "npu-smi info", _table(kind, memory >> 20)
    cards = (
        "\n" + _pairs({"NPU ID": str(n), "Chip Count": str(kind.chips)}) for n in range(kind.cards)
    )
    yield "npu-smi info -l", _pairs({"Total Count": str(kind.cards)}) + "".join(cards)
    yield "npu-smi info -t topo", _topology(kind)
    for card in range(kind.cards):
        pairs = {
            "NPU ID": str(card),
            "Software Version": DRIVER,
            "Firmware Version": FIRMWARE,
            "Compatibility": "OK",
            "PCI Vendor ID": "0x19E5",
            "PCI Device ID": kind.pci.upper().replace("X", "x"),
            "Chip Count": str(kind.chips),
        }
        yield f"npu-smi info -t board -i {card}", _pairs(pairs)
        for chip in range(kind.chips):
            named, _, sub = soc.partition("_")
            board = {
                "NPU ID": str(card),
                "Chip ID": str(chip),
                "Chip Name": named,
                "Firmware Version": FIRMWARE,
            }
            if sub:
                board["NPU Name"] = sub
            yield f"npu-smi info -t board -i {card} -c {chip}", _pairs(board)
            counted = dict.fromkeys(_FIXED["counters"], "0")
            yield (
                f"npu-smi info -t ecc -i {card} -c {chip}",
                _pairs({"NPU ID": str(card), **counted, "Chip ID": str(chip)}),
            )
    for n in range(kind.devices):
        tool = f"hccn_tool -i {n}"
        yield f"{tool} -ip -g", f"ipaddr:{_address(n, node)}\nnetmask:{_MASK}\n"
        yield f"{tool} -tls -g", f"dev_id:{n}, tls switch[0](0:disable, 1:enable)\n"
        yield from ((f"{tool} {words} -g", text) for words, text in _FIXED["network"].items())


def _pairs(pairs: Mapping[str, str]) -> str:
    return "".join(f"\t{key:<41}: {value}\n" for key, value in pairs.items())


def _table(kind: MachineKind, megabytes: int) -> str:
    """`npu-smi info` in the layout of A2 and A3 up to 25.5."""
    second = "Chip  Phy-ID" if kind.chips > 1 else "Chip"
    head = ("Power(W)    Temp(C)           Hugepages-Usage(page)", "AICore(%)   Memory-Usage(MB)")
    rows = [
        _FULL,
        f"| npu-smi {DRIVER:<25}Version: {DRIVER:<53}|",
        _EDGE,
        _row(f"{'NPU   Name':<26}", f"{'Health':<14}", f"{head[0]:<51}"),
        _row(f"{second:<26}", f"{'Bus-Id':<14}", f"{head[1] + '  HBM-Usage(MB)':<51}"),
        _HEAVY,
    ]
    for device in range(kind.devices):
        card, chip = divmod(device, kind.chips)
        power = "-" if chip else "90.0"
        chip_text = f"{chip:<6}{device}" if kind.chips > 1 else str(chip)
        memory = f"{_IDLE_MB:<5}/ {megabytes}"
        first, later = f"{power:<12}{40:<18}0    / 0", f"{0:<12}{'0    / 0':<18}{memory}"
        rows += [
            _row(f"{f'{card:<6}{kind.shown}':<26}", f"{'OK':<14}", f"{first:<51}"),
            _row(f"{chip_text:<26}", f"{_bus(device):<14}", f"{later:<51}"),
            _FULL if chip + 1 < kind.chips else _HEAVY,
        ]
    processes = (f"{'Process name':<25}", f"{'Process memory(MB)':<24}")
    rows += [_EDGE, _row(f"{'NPU     Chip':<26}", f"{'Process id':<14}", *processes), _HEAVY]
    for card in range(kind.cards):
        rows += [_row(f"{f'No running processes found in NPU {card}':<95}"), _HEAVY]
    return "\n".join(rows) + "\n"


def _row(*cells: str) -> str:
    return "".join(f"| {cell}" for cell in cells) + "|"


def _topology(kind: MachineKind) -> str:
    """A2: HCCS between all cards; A3: SIO within a card, HCCS_SW between cards."""
    word = "Phy-ID" if kind.chips > 1 else "NPU"
    names = [f"{word}{n}" for n in range(kind.devices)]
    far = "HCCS_SW" if kind.chips > 1 else "HCCS"
    rows = ["\t" + "".join(f"{name:<11}" for name in names)]
    for number in range(kind.devices):
        links = (
            "X" if number == two else "SIO" if number // kind.chips == two // kind.chips else far
            for two in range(kind.devices)
        )
        rows.append(f"{names[number]:<11}" + "".join(f"{link:<11}" for link in links))
    return "\n".join(rows) + "\n"
