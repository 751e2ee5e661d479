import msgspec
import pytest

from ascend_doctor.facts import (
    Holder,
    NpuEcc,
    NpuHealth,
    NpuMapping,
    NpuProcess,
    Snapshot,
    ToolError,
    Topology,
    Usage,
)
from ascend_doctor.findings import Level
from tests.checks.machine import having, only, run, without
from tests.checks.server import a2, a3, boards, commands, ecc, inside, mesh, node, nodes, npu

# --- npu-smi


def failing(
    facts: Snapshot, kind: str, text: str = "said this", code: int | None = 187
) -> Snapshot:
    error = ToolError(kind=kind, text=text, exit_code=code)
    return having(facts, "npus", devices=(), complete=False, error=error)


def test_8005_of_a_user_who_may_not_open() -> None:
    closed = (node("/dev/davinci0", 0, readable=False), *nodes(0))
    facts = failing(having(a2(), "driver", nodes=closed), "dcmi-8005")
    finding = only("npu-smi", facts, Level.ERROR, "-8005: an inner error", "may not open")
    assert "device-access" in commands(finding)
    assert "(exit status 187)" in finding.observed
    root = having(facts, "host", uid=0)
    only("npu-smi", root, Level.ERROR, "even root", "DAC_OVERRIDE")


def test_8005_in_a_container_without_devices() -> None:
    facts = inside(failing(having(a2(), "driver", nodes=()), "dcmi-8005"))
    finding = only("npu-smi", facts, Level.ERROR, "The container lacks /dev/davinci_manager")
    assert "docker run" in commands(finding)


def test_8005_where_the_driver_is_not_loaded() -> None:
    facts = failing(having(a2(), "driver", nodes=()), "dcmi-8005")
    only("npu-smi", facts, Level.ERROR, "modules are not loaded")


def test_8005_where_all_is_open() -> None:
    only("npu-smi", failing(a2(), "dcmi-8005"), Level.ERROR, "host was not restarted")
    only("npu-smi", inside(failing(a2(), "dcmi-8005")), Level.ERROR, "another container")
    only("npu-smi", without(failing(a2(), "dcmi-8005"), "driver"), Level.ERROR, "restarted")


@pytest.mark.parametrize(
    ("kind", "title", "because"),
    [
        ("dcmi-8020", "-8020: the device is occupied", "another container"),
        ("dcmi-8006", "-8006: a time-out", "did not start"),
        ("dcmi-8999", "npu-smi fails with -8999", "did not start"),
        ("dcmi-8255", "-8255: not supported", "did not start"),
        ("board-type-9005", "-9005: an inner error", "does not answer"),
        ("no-card", "sees no NPU", "no card"),
        ("invalid-card-id", "does not exist", "lost"),
        ("libc-sec-missing", "libc_sec.so", "driver/lib64/common"),
        ("library-missing", "cannot load a library", "driver/lib64/common"),
    ],
)
def test_errors_of_npu_smi(kind: str, title: str, because: str) -> None:
    only("npu-smi", failing(a2(), kind), Level.ERROR, title, because, "said this")


def test_remedies_of_npu_smi() -> None:
    assert "docker inspect" in commands(only("npu-smi", failing(a2(), "dcmi-8020"), Level.ERROR))
    assert "ldconfig" in commands(only("npu-smi", failing(a2(), "libc-sec-missing"), Level.ERROR))
    finding = only("npu-smi", inside(failing(a2(), "libc-sec-missing")), Level.ERROR)
    assert "-v /usr/local/Ascend/driver/lib64" in commands(finding)


@pytest.mark.parametrize("kind", ["timeout", "crashed", "unrecognised", "unsupported"])
def test_no_answer_is_could_not_tell(kind: str) -> None:
    finding = only("npu-smi", failing(a2(), kind, code=None), Level.UNKNOWN, "npu-smi")
    assert "exit status" not in finding.observed


def test_npu_smi_is_not_there() -> None:
    facts = having(a2(), "npus", tool="", devices=())
    only("npu-smi", facts, Level.WARNING, "not there")
    assert "docker run" in commands(only("npu-smi", inside(facts), Level.WARNING))
    only("npu-health", facts, Level.UNKNOWN, "npu-smi is not there")


def test_a_table_and_an_error() -> None:
    error = ToolError(kind="timeout", text="npu-smi info -l did not answer")
    only("npu-smi", having(a2(), "npus", error=error), Level.WARNING, "info -l did not answer")


# --- health


def test_states_of_health() -> None:
    devices = tuple(
        npu(number, health=state)
        for number, state in enumerate(("OK", "Warning", "Alarm", "Critical", "UNKNOWN"))
    )
    details = NpuHealth(npu_id=2, state="Alarm", codes=("81078603", "8C084E00"), texts=("net",))
    findings = run("npu-health", having(a2(), "npus", devices=devices, health=(details,)))
    assert [finding.level for finding in findings] == [
        Level.WARNING,
        Level.ERROR,
        Level.ERROR,
        Level.UNKNOWN,
    ]
    assert [finding.devices for finding in findings[:3]] == [(1,), (2,), (3,)]
    assert "81078603, 8C084E00; net" in findings[1].observed
    assert "npu-smi info -t health -i 2 -c 0" in commands(findings[1])
    newest = having(a2(), "npus", devices=devices, layout="950")
    assert "health -i 1\n" in commands(run("npu-health", newest)[0]) + "\n"


def test_memory_errors() -> None:
    others = tuple(ecc(index) for index in range(8) if index != 1)
    facts = having(a2(), "npus", ecc=(*others, ecc(1, HBM_Double_Bit_Error_Count=2)))
    finding = only("npu-ecc", facts, Level.WARNING, "NPU 1 chip 0, device 1", "Error Count: 2")
    assert finding.devices == (1,)
    waiting = {"HBM Double Bit Next-Isolated Pages Count": 1}
    facts = having(a2(), "npus", ecc=(NpuEcc(npu_id=77, counters=waiting),))
    finding, silent = run("npu-ecc", facts)
    assert (finding.level, finding.devices) == (Level.WARNING, ())
    assert "NPU 77" in finding.title
    assert silent.level is Level.UNKNOWN


def test_memory_errors_of_the_past() -> None:
    def with_all(name: str, count: int) -> Snapshot:
        counters = (
            NpuEcc(npu_id=index, counters={name: count if index == 1 else 0}) for index in range(8)
        )
        return having(a2(), "npus", ecc=tuple(counters))

    single = with_all("HBM Single Bit Aggregate Total Err Cnt", 1)
    only("npu-ecc", single, Level.OK, "history")
    isolated = with_all("HBM Double Bit Isolated Pages Count", 64)
    only("npu-ecc", isolated, Level.WARNING, "isolated pages", "64")


def test_counters_that_were_not_told() -> None:
    seven = having(a2(), "npus", ecc=tuple(ecc(index) for index in range(7)))
    only("npu-ecc", seven, Level.UNKNOWN, "NPU 7 chip 0, device 7")
    two = having(a2(), "npus", ecc=tuple(ecc(index) for index in range(6)))
    only("npu-ecc", two, Level.UNKNOWN, "devices 6-7")
    only("npu-ecc", having(a2(), "npus", ecc=()), Level.UNKNOWN, "no error counters")


def test_cards_that_are_counted_and_not_shown() -> None:
    facts = having(a2(), "npus", devices=tuple(npu(index) for index in range(7)))
    only("npu-table", facts, Level.ERROR, "counts 8 cards and shows 7")
    only("npu-table", inside(facts), Level.WARNING, "counts 8 cards and shows 7")
    rows = tuple(NpuMapping(npu_id=index, chip_id=0) for index in range(8))
    mapped = having(facts, "npus", listed=None, mapping=rows)
    only("npu-table", mapped, Level.ERROR, "counts 8 cards and shows 7")
    only("npu-table", having(facts, "npus", complete=False), Level.UNKNOWN, "cut after 7")
    only("npu-table", having(facts, "npus", devices=()), Level.UNKNOWN, "shows no device")


def test_topology() -> None:
    slow = having(a2(), "npus", topology=mesh(8, "SYS"))
    finding = only("npu-topology", slow, Level.WARNING, "28 pairs", "NPU0-NPU1 SYS", "and 22 more")
    assert "a link is lost" in finding.because
    virtual = having(slow, "host", virtual_machine="KVM")
    assert "virtual machines" in only("npu-topology", virtual, Level.WARNING).because
    names = tuple(f"NPU{index}" for index in range(16))
    links = tuple(
        tuple("X" if a == b else "HCCS" if a // 8 == b // 8 else "PIX" for b in range(16))
        for a in range(16)
    )
    two_groups = having(a2(), "npus", topology=Topology(names=names, links=links))
    assert run("npu-topology", two_groups)[0].level is Level.OK
    only(
        "npu-topology",
        having(a3(), "npus", topology=mesh(16, "PHB", "Phy-ID")),
        Level.WARNING,
        "SIO",
    )
    two = having(a3(), "npus", topology=mesh(2, "SIO", "Phy-ID"))
    only("npu-topology", two, Level.UNKNOWN, "does not have devices 2-15")
    only("npu-topology", having(a2(), "npus", topology=None), Level.UNKNOWN, "no topology")
    newest = having(a2(), "npus", devices=(npu(0, name="Ascend950PR"),))
    assert run("npu-topology", newest)[0].level is Level.SKIPPED


@pytest.mark.parametrize(("there", "back"), [("HCCS", "SYS"), ("SYS", "HCCS"), ("NA", "SYS")])
def test_a_link_that_is_slow_in_one_row(there: str, back: str) -> None:
    rows = [list(row) for row in mesh(8).links]
    rows[2][5], rows[5][2] = there, back
    links = tuple(map(tuple, rows))
    facts = having(a2(), "npus", topology=Topology(names=mesh(8).names, links=links))
    only("npu-topology", facts, Level.WARNING, "NPU2-NPU5 SYS")


@pytest.mark.parametrize("code", ["NA", "", "NEW"])
def test_a_link_that_was_not_told(code: str) -> None:
    rows = [list(row) for row in mesh(8).links]
    rows[2][5] = rows[5][2] = code
    links = tuple(map(tuple, rows))
    facts = having(a2(), "npus", topology=Topology(names=mesh(8).names, links=links))
    only("npu-topology", facts, Level.UNKNOWN, "did not tell the links NPU2-NPU5")


# --- beside each other


def swap_npu(**fields: object) -> Snapshot:
    usual = tuple(npu(index) for index in range(8))
    odd = msgspec.structs.replace(usual[3], **fields)
    return having(a2(), "npus", devices=(*usual[:3], odd, *usual[4:]))


def test_npus_that_differ() -> None:
    only("npu-alike", swap_npu(name="910B4"), Level.WARNING, "different chips", "910B4 on NPU 3")
    only("npu-alike", swap_npu(name="910A"), Level.ERROR, "several families", "910A on NPU 3")
    half = swap_npu(hbm=Usage(used=3100, total=32768))
    only("npu-alike", half, Level.WARNING, "memory sizes", "32768 MB on NPU 3")
    for field, words in (("driver_version", "drivers"), ("firmware_version", "firmware")):
        usual = boards(firmware_version="7.7.0.1.231")
        odd = (*usual[:3], msgspec.structs.replace(usual[3], **{field: "6.0"}), *usual[4:])
        facts = having(a2(), "npus", boards=odd)
        only("npu-alike", facts, Level.WARNING, f"different {words}", "6.0 on NPU 3")
    only("npu-alike", having(a2(), "npus", boards=boards()[:7]), Level.UNKNOWN, "NPU 7")


def test_npus_that_are_hot() -> None:
    finding = only("npu-temperature", swap_npu(temperature_c=110), Level.WARNING, "110 °C")
    assert finding.devices == (3,)
    only("npu-temperature", swap_npu(temperature_c=None), Level.UNKNOWN, "NPU 3")
    assert run("npu-temperature", swap_npu(temperature_c=89))[0].level is Level.OK


def test_an_npu_that_is_busy_without_a_process() -> None:
    facts = swap_npu(utilisation=100)
    only("npu-free", facts, Level.WARNING, "1 NPU is busy", "100 %")
    held = having(facts, "holders", processes=(Holder(pid=1, devices=(3,)),))
    only("npu-free", held, Level.WARNING, "in use: device 3")


# --- who uses them


def test_who_holds_a_device() -> None:
    holder = Holder(pid=4711, name="python", user="ana", devices=(2, 3), age=7300.0)
    other = Holder(pid=9, devices=(3,), age=90000.0, container=True)
    facts = having(a2(), "holders", processes=(holder, other))
    finding = only(
        "npu-free",
        facts,
        Level.WARNING,
        "in use: devices 2-3",
        "pid 4711 python of ana, since 2 h on 2-3",
        "pid 9 (no name) of not known, since 1 d, in a container on 3",
    )
    assert finding.devices == (2, 3)
    assert commands(finding).endswith("ps -o pid,user,etime,args -p 4711,9")


def test_processes_are_read_from_npu_smi_without_proc() -> None:
    row = NpuProcess(npu_id=3, chip_id=1, pid=842, name="python3.11", memory_mb=60000)
    facts = having(a3(), "npus", processes=(row, NpuProcess(npu_id=0, pid=7)))
    finding = only(
        "npu-free",
        without(facts, "holders"),
        Level.WARNING,
        "NPU 3 chip 1, device 7: pid 842 python3.11, 60000 MB",
    )
    assert finding.devices == (0, 7)
    assert "kill" not in commands(finding)
    holder = Holder(pid=1, name="x", user="y", devices=(7,))
    both = only("npu-free", having(facts, "holders", processes=(holder,)), Level.WARNING)
    assert "pid 842" not in both.observed
    assert "device 0: pid 7" in both.observed
    nowhere = having(facts, "npus", devices=())
    only("npu-free", without(nowhere, "holders"), Level.WARNING, "NPU 3 chip 1: pid 842")


def test_ages() -> None:
    for age, word in ((30.0, "30 s"), (120.0, "2 min")):
        facts = having(a2(), "holders", processes=(Holder(pid=1, devices=(0,), age=age),))
        only("npu-free", facts, Level.WARNING, word)


def test_neither_table_nor_proc() -> None:
    facts = having(having(a2(), "npus", processes=None), "holders", complete=False)
    only("npu-free", facts, Level.UNKNOWN, "neither")
    only("npu-free", without(without(facts, "npus"), "holders"), Level.UNKNOWN, "neither")


def test_memory_that_somebody_holds() -> None:
    full = tuple(
        npu(index, hbm=Usage(used=60000, total=65536), utilisation=90)
        if index in (1, 2)
        else npu(index)
        for index in range(8)
    )
    facts = having(a2(), "npus", devices=full)
    finding = only("npu-memory", facts, Level.WARNING, "devices 1-2", "90 % busy", "4200")
    assert finding.devices == (1, 2)
    assert "fuser" in commands(finding)
    assert "On the host" in commands(only("npu-memory", inside(facts), Level.WARNING))
    held = having(facts, "holders", processes=(Holder(pid=1, devices=(1, 2)),))
    assert run("npu-memory", held)[0].level is Level.OK
    listed = having(facts, "npus", processes=tuple(NpuProcess(npu_id=n, pid=n) for n in (1, 2)))
    assert run("npu-memory", listed)[0].level is Level.OK


def test_memory_at_idle_is_no_finding() -> None:
    idle = having(a2(), "npus", devices=(npu(0, hbm=Usage(used=5224, total=65536)),))
    assert run("npu-memory", idle)[0].level is Level.OK
    first = npu(0, name="910ProB", hbm=Usage(used=5224, total=32768))
    only("npu-memory", having(a2(), "npus", devices=(first,)), Level.WARNING, "5224 MB")
    duo = npu(0, name="310P3", device=None, hbm=None, memory=Usage(used=9000, total=44216))
    only("npu-memory", having(a2(), "npus", devices=(duo,)), Level.WARNING, "9000 MB")
    nothing = npu(0, hbm=None, memory=Usage(used=0, total=0))
    only("npu-memory", having(a2(), "npus", devices=(nothing,)), Level.UNKNOWN, "the memory of")
    only("npu-memory", having(a2(), "npus", devices=()), Level.UNKNOWN, "no device")
    assert run("npu-memory", failing(a2(), "dcmi-8005"))[0].level is Level.SKIPPED
    facts = having(having(a2(), "driver", pci=()), "npus", devices=(npu(0, name="new"),))
    only("npu-memory", facts, Level.UNKNOWN, "idle chip")
