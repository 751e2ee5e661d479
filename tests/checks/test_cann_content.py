import msgspec
import pytest

from ascend_doctor.facts import CannComponent, Library, MissingSymbol, Nnal, Npu, PciFunction
from ascend_doctor.findings import Level
from tests.checks.machine import having, healthy, install, only, run, shell, without


def test_parts_of_another_release() -> None:
    parts = (
        CannComponent(name="runtime", public="8.5.0"),
        CannComponent(name="hccl", public="8.3.RC1"),
        CannComponent(name="mindstudio-toolkit", public="8.0.RC1.B110"),
    )
    finding = only("cann-components", install(healthy(), components=parts), Level.WARNING, "hccl")
    assert "mindstudio" not in finding.observed
    build = (CannComponent(name="runtime", public="8.5.0.B120"),)
    assert run("cann-components", install(healthy(), components=build))[0].level is Level.OK
    only("cann-components", install(healthy(), components=()), Level.UNKNOWN)
    only("cann-components", install(healthy(), version="?"), Level.UNKNOWN)


@pytest.mark.parametrize(
    ("cann", "part", "other", "level"),
    [
        ("9.0.0", "opp", "8.5.0", Level.OK),
        ("9.0.0", "ops_transformer", "8.5.2", Level.OK),
        ("8.5.0", "hccl", "9.0.0", Level.OK),
        ("9.1.0", "opp", "8.3.RC1", Level.WARNING),
        ("9.0.0", "runtime", "8.5.0", Level.WARNING),
        ("8.3.RC1", "opp", "8.5.0", Level.WARNING),
    ],
)
def test_parts_that_are_upgraded_alone(cann: str, part: str, other: str, level: Level) -> None:
    parts = (CannComponent(name="toolkit", public=cann), CannComponent(name=part, public=other))
    facts = install(healthy(), version=cann, components=parts)
    (finding,) = run("cann-components", facts)
    assert finding.level is level
    assert f"{part} {other}" in finding.observed


def test_cann_for_another_processor_is_an_error() -> None:
    only("cann-arch", install(healthy(), arch="x86_64"), Level.ERROR, "for x86_64", "aarch64")
    only("cann-arch", having(healthy(), "host", arch=""), Level.UNKNOWN)


def test_operators_of_another_chip() -> None:
    facts = install(healthy(), kernels=("ascend910_93",), ops_packages=("Ascend-cann-A3-ops",))
    finding = only(
        "ops-package", facts, Level.ERROR, "are for ascend910_93, the chip is ascend910b", "561103"
    )
    assert finding.remedy is not None
    assert "Ascend-cann-910b-ops" in finding.remedy.summary


def test_no_operators_at_all() -> None:
    facts = install(healthy(), kernels=(), kernels_bare=("ascend910b",), ops_packages=())
    only("ops-package", facts, Level.ERROR, "CANN 8.5.0 has no operator package")
    assert run("ops-package", install(facts, simulated=True))[0].level is Level.SKIPPED


def test_the_chip_may_be_told_by_pci_or_not_at_all() -> None:
    facts = without(install(healthy(), kernels=()), "npus")
    only("ops-package", facts, Level.ERROR, "ascend910b")
    other = having(facts, "driver", pci=(PciFunction(address="0", device="0xffff"),))
    only("ops-package", other, Level.UNKNOWN, "chip")
    strange = having(healthy(), "npus", devices=(Npu(npu_id=0, name="999Z"),))
    assert run("ops-package", having(strange, "driver", pci=()))[0].level is Level.UNKNOWN
    none = having(facts, "driver", pci=(), nodes=(), version=None)
    assert run("ops-package", none)[0].level is Level.SKIPPED


def test_nnal_is_missing_or_not_sourced() -> None:
    only("nnal", having(healthy(), "cann", nnal=()), Level.WARNING, "NNAL is not installed")
    finding = only("nnal", shell(healthy(), atb=None), Level.WARNING, "ATB_HOME_PATH is unset")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("source /usr/local/Ascend/nnal/atb/set_env.sh",)
    elsewhere = shell(healthy(), atb="/opt/atb/cxx_abi_1")
    only("nnal", elsewhere, Level.WARNING, "ATB_HOME_PATH is /opt/atb/cxx_abi_1")


def test_nnal_of_another_release() -> None:
    nnal = Nnal(root="/usr/local/Ascend/nnal/atb/latest", version="8.3.RC1")
    only("nnal", having(healthy(), "cann", nnal=(nnal,)), Level.WARNING, "NNAL 8.3.RC1")
    odd = Nnal(root="/usr/local/Ascend/nnal/atb/latest", version="odd")
    only("nnal", having(healthy(), "cann", nnal=(odd,)), Level.UNKNOWN)


def test_functions_that_atb_lacks() -> None:
    symbols = (
        MissingSymbol(name="_ZN3atb1x", wanted_by="torch_npu/lib/libtorch_npu.so", owner="nnal"),
    )
    facts = having(healthy(), "native", missing_symbols=symbols)
    only("nnal", facts, Level.ERROR, "ATB of NNAL 8.5.0 lacks", "_ZN3atb1x")
    absent = having(facts, "native", atb=Library(name="libatb.so"))
    only("nnal", absent, Level.WARNING, "libatb.so is not found")


def test_nnal_that_does_not_tell_its_version() -> None:
    assert healthy().cann is not None
    (installed,) = healthy().cann.nnal  # type: ignore[union-attr]
    facts = having(healthy(), "cann", nnal=(msgspec.structs.replace(installed, version=None),))
    only("nnal", facts, Level.UNKNOWN, "does not tell its version")


def test_operators_of_another_release() -> None:
    for packages, level in (("8.5.0", Level.OK), ("8.3.RC1", Level.WARNING)):
        facts = install(healthy(), ops_packages=(f"Ascend-cann-910b-ops {packages}",))
        assert run("ops-package", facts)[0].level is level
