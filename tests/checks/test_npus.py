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
from tests.checks.levels import cannot_tell, fails, passes, skips, warns
from tests.checks.machine import having, run, without
from tests.checks.server import a2, a3, commands, ecc, inside, mesh, node, nodes, npu

# --- npu-smi


def failing(
    facts: Snapshot, kind: str, text: str = "said this", code: int | None = 187
) -> Snapshot:
    error = ToolError(kind=kind, text=text, exit_code=code)
    return having(facts, "npus", devices=(), complete=False, error=error)


def test_8005_of_a_user_who_may_not_open() -> None:
    closed = (node("/dev/davinci0", 0, readable=False), *nodes(0))
    facts = failing(having(a2(), "driver", nodes=closed), "dcmi-8005")
    finding = fails("npu-smi", facts, "-8005: an inner error", "may not open")
    assert "device-access" in commands(finding)
    assert "(exit status 187)" in finding.observed
    root = having(facts, "host", uid=0)
    fails("npu-smi", root, "even root", "DAC_OVERRIDE")


def test_8005_in_a_container_without_devices() -> None:
    facts = inside(failing(having(a2(), "driver", nodes=()), "dcmi-8005"))
    finding = fails("npu-smi", facts, "The container lacks /dev/davinci_manager")
    assert "docker run" in commands(finding)


def test_8005_where_the_driver_is_not_loaded() -> None:
    facts = failing(having(a2(), "driver", nodes=()), "dcmi-8005")
    fails("npu-smi", facts, "modules are not loaded")


def test_8005_where_all_is_open() -> None:
    fails("npu-smi", failing(a2(), "dcmi-8005"), "host was not restarted")
    fails("npu-smi", inside(failing(a2(), "dcmi-8005")), "another container")
    fails("npu-smi", without(failing(a2(), "dcmi-8005"), "driver"), "restarted")


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
    fails("npu-smi", failing(a2(), kind), title, because, "said this")


def test_remedies_of_npu_smi() -> None:
    assert "docker inspect" in commands(fails("npu-smi", failing(a2(), "dcmi-8020")))
    assert "ldconfig" in commands(fails("npu-smi", failing(a2(), "libc-sec-missing")))
    finding = fails("npu-smi", inside(failing(a2(), "libc-sec-missing")))
    assert "-v /usr/local/Ascend/driver/lib64" in commands(finding)


@pytest.mark.parametrize("kind", ["timeout", "crashed", "unrecognised", "unsupported"])
def test_no_answer_is_could_not_tell(kind: str) -> None:
    finding = cannot_tell("npu-smi", failing(a2(), kind, code=None), "npu-smi")
    assert "exit status" not in finding.observed


def test_npu_smi_is_not_there() -> None:
    facts = having(a2(), "npus", tool="", devices=())
    warns("npu-smi", facts, "not there")
    assert "docker run" in commands(warns("npu-smi", inside(facts)))
    cannot_tell("npu-health", facts, "npu-smi is not there")


# --- health


def test_states_of_health() -> None:
    devices = tuple(
        npu(number, health=state)
        for number, state in enumerate(("OK", "Warning", "Alarm", "Critical", "UNKNOWN"))
    )
    details = NpuHealth(npu_id=2, codes=("81078603", "8C084E00"), texts=("net",))
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
    finding = warns("npu-ecc", facts, "NPU 1 chip 0, device 1", "Error Count: 2")
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
    passes("npu-ecc", single, "history")
    isolated = with_all("HBM Double Bit Isolated Pages Count", 64)
    warns("npu-ecc", isolated, "isolated pages", "64")


def test_cards_that_are_counted_and_not_shown() -> None:
    facts = having(a2(), "npus", devices=tuple(npu(index) for index in range(7)))
    fails("npu-table", facts, "counts 8 cards and shows 7")
    warns("npu-table", inside(facts), "counts 8 cards and shows 7")
    rows = tuple(NpuMapping(npu_id=index, chip_id=0) for index in range(8))
    mapped = having(facts, "npus", listed=None, mapping=rows)
    fails("npu-table", mapped, "counts 8 cards and shows 7")
    cannot_tell("npu-table", having(facts, "npus", complete=False), "cut after 7")
    cannot_tell("npu-table", having(facts, "npus", devices=()), "shows no device")


def test_topology() -> None:
    slow = having(a2(), "npus", topology=mesh(8, "SYS"))
    finding = warns("npu-topology", slow, "28 pairs", "NPU0-NPU1 SYS", "and 22 more")
    assert "a link is lost" in finding.because
    virtual = having(slow, "host", virtual_machine="KVM")
    assert "virtual machines" in warns("npu-topology", virtual).because
    names = tuple(f"NPU{index}" for index in range(16))
    links = tuple(
        tuple("X" if a == b else "HCCS" if a // 8 == b // 8 else "PIX" for b in range(16))
        for a in range(16)
    )
    two_groups = having(a2(), "npus", topology=Topology(names=names, links=links))
    passes("npu-topology", two_groups)
    warns("npu-topology", having(a3(), "npus", topology=mesh(16, "PHB", "Phy-ID")), "SIO")
    two = having(a3(), "npus", topology=mesh(2, "SIO", "Phy-ID"))
    cannot_tell("npu-topology", two, "does not have devices 2-15")
    cannot_tell("npu-topology", having(a2(), "npus", topology=None), "no topology")
    newest = having(a2(), "npus", devices=(npu(0, name="Ascend950PR"),))
    skips("npu-topology", newest)


# --- beside each other


# --- who uses them


def test_who_holds_a_device() -> None:
    holder = Holder(pid=4711, name="python", user="ana", devices=(2, 3), age=7300.0)
    other = Holder(pid=9, devices=(3,), age=90000.0, container=True)
    facts = having(a2(), "holders", processes=(holder, other))
    finding = warns(
        "npu-free",
        facts,
        "in use: devices 2-3",
        "pid 4711 python of ana, since 2 h on 2-3",
        "pid 9 (no name) of not known, since 1 d, in a container on 3",
    )
    assert finding.devices == (2, 3)
    assert commands(finding).endswith("ps -o pid,user,etime,args -p 4711,9")


def test_processes_are_read_from_npu_smi_without_proc() -> None:
    row = NpuProcess(npu_id=3, chip_id=1, pid=842, name="python3.11", memory_mb=60000)
    facts = having(a3(), "npus", processes=(row, NpuProcess(npu_id=0, pid=7)))
    finding = warns(
        "npu-free",
        without(facts, "holders"),
        "NPU 3 chip 1, device 7: pid 842 python3.11, 60000 MB",
    )
    assert finding.devices == (0, 7)
    assert "kill" not in commands(finding)
    holder = Holder(pid=1, name="x", user="y", devices=(7,))
    both = warns("npu-free", having(facts, "holders", processes=(holder,)))
    assert "pid 842" not in both.observed
    assert "device 0: pid 7" in both.observed
    nowhere = having(facts, "npus", devices=())
    warns("npu-free", without(nowhere, "holders"), "NPU 3 chip 1: pid 842")


def test_ages() -> None:
    for age, word in ((30.0, "30 s"), (120.0, "2 min")):
        facts = having(a2(), "holders", processes=(Holder(pid=1, devices=(0,), age=age),))
        warns("npu-free", facts, word)


def test_neither_table_nor_proc() -> None:
    facts = having(having(a2(), "npus", processes=None), "holders", complete=False)
    cannot_tell("npu-free", facts, "neither")
    cannot_tell("npu-free", without(without(facts, "npus"), "holders"), "neither")


def test_memory_that_somebody_holds() -> None:
    full = tuple(
        npu(index, hbm=Usage(used=60000, total=65536), utilisation=90)
        if index in (1, 2)
        else npu(index)
        for index in range(8)
    )
    facts = having(a2(), "npus", devices=full)
    finding = warns("npu-memory", facts, "devices 1-2", "90 % busy", "4200")
    assert finding.devices == (1, 2)
    assert "fuser" in commands(finding)
    assert "On the host" in commands(warns("npu-memory", inside(facts)))
    held = having(facts, "holders", processes=(Holder(pid=1, devices=(1, 2)),))
    passes("npu-memory", held)
    listed = having(facts, "npus", processes=tuple(NpuProcess(npu_id=n, pid=n) for n in (1, 2)))
    passes("npu-memory", listed)


def test_memory_at_idle_is_no_finding() -> None:
    idle = having(a2(), "npus", devices=(npu(0, hbm=Usage(used=5224, total=65536)),))
    passes("npu-memory", idle)
    first = npu(0, name="910ProB", hbm=Usage(used=5224, total=32768))
    warns("npu-memory", having(a2(), "npus", devices=(first,)), "5224 MB")
    duo = npu(0, name="310P3", device=None, hbm=None, memory=Usage(used=9000, total=44216))
    warns("npu-memory", having(a2(), "npus", devices=(duo,)), "9000 MB")
    nothing = npu(0, hbm=None, memory=Usage(used=0, total=0))
    cannot_tell("npu-memory", having(a2(), "npus", devices=(nothing,)), "the memory of")
    cannot_tell("npu-memory", having(a2(), "npus", devices=()), "no device")
    skips("npu-memory", failing(a2(), "dcmi-8005"))
    facts = having(having(a2(), "driver", pci=()), "npus", devices=(npu(0, name="new"),))
    cannot_tell("npu-memory", facts, "idle chip")
