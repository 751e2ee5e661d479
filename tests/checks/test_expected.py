import msgspec
import pytest

from ascend_doctor.facts import Driver, Hccn, HccnPort, Nnal, NpuBoard, Npus, Snapshot, ToolError
from ascend_doctor.findings import Finding, Level
from ascend_doctor.judging.expectations import parse_expectations
from ascend_doctor.judging.judge import Case, judge
from tests.checks.machine import CATALOG, CHECKS, having, healthy, without
from tests.checks.server import a2, nodes, npu
from tests.present import present


def judge_expectations(facts: Snapshot, *texts: str) -> list[Finding]:
    expected = parse_expectations(texts, "test")
    case = Case(facts=facts, catalog=CATALOG, expected=expected)
    return list(
        judge(case, [CHECKS[name] for name in {expectation.check for expectation in expected}])
    )


def level(facts: Snapshot, text: str, *words: str) -> Level:
    """The level of the one finding; it says the words."""
    (finding,) = judge_expectations(facts, text)
    observed = f"{finding.title} {finding.observed}"
    assert [word for word in words if word not in observed] == [], observed
    assert finding.level is not Level.ERROR or (
        finding.required and finding.remedy and finding.because
    )
    return finding.level


def meets(facts: Snapshot, text: str) -> bool:
    answer = level(facts, text)
    assert answer in {Level.OK, Level.ERROR}
    return answer is Level.OK


NONE = Snapshot(driver=Driver(pci=()), npus=Npus())


def test_nothing_is_judged_where_nothing_is_expected() -> None:
    for name in ("expected-npus", "expected-soc", "expected-links", "expected-versions"):
        (finding,) = judge(Case(facts=a2(), catalog=CATALOG), [CHECKS[name]])
        assert finding.level is Level.SKIPPED


# --- npus


def test_the_least_of_two_sources_counts() -> None:
    seven = having(a2(), "npus", devices=tuple(npu(index) for index in range(7)))
    assert level(seven, "npus=8", "7 NPUs", "8 device files, 7 in npu-smi") is Level.ERROR
    files = having(a2(), "driver", nodes=nodes(4))
    assert level(files, "npus=8", "4 NPUs") is Level.ERROR
    bare = having(a2(), "driver", nodes=())
    assert level(bare, "npus>=1", "no NPU", "8 on the PCI bus") is Level.ERROR


def test_a_container_without_npu_smi_has_its_device_files() -> None:
    facts = having(a2(), "npus", devices=(), tool="")
    assert meets(facts, "npus=8")


def test_where_npu_smi_fails_nothing_is_made_up() -> None:
    fails = having(a2(), "npus", devices=(), error=ToolError(kind="timeout", text="none"))
    assert level(fails, "npus>=1", "between 0 and 8") is Level.UNKNOWN
    assert level(fails, "npus=16") is Level.ERROR  # whatever it would have said
    assert level(fails, "npus<=8") is Level.OK
    cut = having(a2(), "npus", devices=(npu(0), npu(1)), complete=False)
    assert level(cut, "npus>=2") is Level.OK
    assert level(cut, "npus=8", "its table was cut") is Level.UNKNOWN
    assert level(without(a2(), "npus"), "npus=8") is Level.UNKNOWN
    assert level(without(a2(), "driver"), "npus=8", "driver") is Level.UNKNOWN
    assert level(Snapshot(), "npus=0") is Level.UNKNOWN


def test_each_expectation_is_a_finding() -> None:
    findings = judge_expectations(a2(), "npus>=4", "npus<8")
    assert [(finding.level, finding.title) for finding in findings] == [
        (Level.OK, "As expected, npus>=4"),
        (Level.ERROR, "Expected npus<8, found 8 NPUs"),
    ]


# --- soc


def test_the_chip_by_its_names_and_its_family() -> None:
    facts = having(a2(), "npus", devices=(npu(0, name="910B3"), npu(1, name="910B3")))
    for value in ("Ascend910B3", "910b3", "ascend910b", "910B"):
        assert meets(facts, f"soc={value}")
        assert not meets(facts, f"soc!={value}")
    for value in ("Ascend910B4", "ascend910_93", "ascend910"):
        assert not meets(facts, f"soc={value}")
    mixed = having(a2(), "npus", devices=(npu(0, name="910B3"), npu(1, name="910B4")))
    assert level(mixed, "soc=910B3", "Ascend910B3, Ascend910B4") is Level.ERROR


def test_without_an_npu_there_is_no_chip() -> None:
    assert level(NONE, "soc=910B3", "no trace of an NPU") is Level.ERROR
    assert level(NONE, "soc!=910B3") is Level.ERROR
    assert level(Snapshot(), "soc=910B3") is Level.UNKNOWN


# --- links


def hccn(facts: Snapshot) -> Hccn:
    assert facts.hccn is not None
    return facts.hccn


def test_links_are_up() -> None:
    facts = a2()
    assert meets(facts, "links=up")
    ports = hccn(facts).devices
    down = having(
        facts, "hccn", devices=(msgspec.structs.replace(ports[0], link="DOWN"), *ports[1:])
    )
    assert level(down, "links=up", "device 0") is Level.ERROR
    silent = having(
        facts, "hccn", devices=(msgspec.structs.replace(ports[0], link=None), *ports[1:])
    )
    assert level(silent, "links=up", "7 of 8") is Level.UNKNOWN
    assert level(having(facts, "hccn", devices=ports[:3]), "links=up", "3 of 8") is Level.UNKNOWN
    assert level(without(facts, "hccn"), "links=up") is Level.UNKNOWN
    assert not meets(having(facts, "driver", nodes=()), "links=up")


def test_links_that_only_root_sees() -> None:
    refused = ToolError(kind="permission", text="no")
    facts = having(a2(), "hccn", devices=(), error=refused)
    (finding,) = judge_expectations(facts, "links=up")
    assert (finding.level, finding.needs) == (Level.UNKNOWN, "root")
    (finding,) = judge_expectations(having(facts, "host", uid=0), "links=up")
    assert (finding.level, finding.needs) == (Level.UNKNOWN, "")


@pytest.mark.parametrize(
    ("states", "answer"),
    [(("UP", "DOWN"), Level.OK), (("DOWN", "DOWN"), Level.ERROR), (("", ""), Level.UNKNOWN)],
)
def test_ports_of_950_that_are_not_wired(states: tuple[str, ...], answer: Level) -> None:
    ports = tuple(HccnPort(udie=0, port=n, link=state) for n, state in enumerate(states))
    devices = tuple(
        msgspec.structs.replace(device, link=None, ports=ports) for device in hccn(a2()).devices
    )
    assert level(having(a2(), "hccn", devices=devices), "links=up") is answer


# --- versions


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("driver>=25.0", True),
        ("driver<25.0", False),
        ("driver=25.2.X", True),
        ("firmware>=7.7", True),
    ],
)
def test_expected_driver_and_firmware_are_compared(text: str, answer: bool) -> None:
    assert meets(a2(), text) == answer


def test_firmware_by_the_boards() -> None:
    facts = having(a2(), "driver", firmware_version=None)
    boards = (NpuBoard(npu_id=0, firmware_version="7.1.0"), NpuBoard(npu_id=1))
    assert meets(having(facts, "npus", boards=boards), "firmware=7.1.0")
    assert level(having(facts, "npus", boards=()), "firmware=7.1.0") is Level.UNKNOWN


def test_drivers_of_950_have_no_order() -> None:
    facts = having(a2(), "npus", devices=(npu(0, name="Ascend950PR"),))
    assert level(facts, "driver>=25.0", "no order") is Level.UNKNOWN
    assert meets(facts, "driver=25.2.0")


def test_expected_versions_of_the_stack_are_compared() -> None:
    facts = healthy()
    assert facts.python is not None
    for name in ("torch", "torch-npu"):
        distribution = present(facts.python.find(name))
        assert meets(facts, f"{name}={distribution.version}")
        assert not meets(facts, f"{name}!={distribution.version}")
    assert meets(facts, f"python={facts.python.version}")
    assert level(facts, "vllm>=0.1", "vllm is not installed") is Level.ERROR
    assert level(without(facts, "python"), "torch>=2") is Level.UNKNOWN


def test_nnal() -> None:
    def having_nnal(*versions: str | None) -> Snapshot:
        rows = tuple(
            Nnal(root=f"/{index}", version=version) for index, version in enumerate(versions)
        )
        return having(healthy(), "cann", nnal=rows)

    assert meets(having_nnal("9.0.0"), "nnal=9.0.0")
    assert level(having_nnal(), "nnal=9.0.0", "not installed") is Level.ERROR
    assert level(having_nnal("9.0.0", "8.5.0"), "nnal=9.0.0") is Level.UNKNOWN
    assert level(having_nnal(None), "nnal=9.0.0") is Level.UNKNOWN
