import msgspec
import pytest

from ascend_doctor.facts import CannComponent, Library, MissingSymbol, Nnal, Npu, PciFunction
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips, warns
from tests.checks.machine import having, healthy, install, run, shell, without


def test_parts_of_another_release() -> None:
    parts = (
        CannComponent(name="runtime", public="8.5.0"),
        CannComponent(name="hccl", public="8.3.RC1"),
        CannComponent(name="mindstudio-toolkit", public="8.0.RC1.B110"),
    )
    finding = warns("cann-components", install(healthy(), components=parts), "hccl")
    assert "mindstudio" not in finding.observed
    build = (CannComponent(name="runtime", public="8.5.0.B120"),)
    passes("cann-components", install(healthy(), components=build))
    cannot_tell("cann-components", install(healthy(), components=()))
    cannot_tell("cann-components", install(healthy(), version="?"))


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
    fails("cann-arch", install(healthy(), arch="x86_64"), "for x86_64", "aarch64")
    cannot_tell("cann-arch", having(healthy(), "host", arch=""))


def test_operators_of_another_chip() -> None:
    facts = install(healthy(), kernels=("ascend910_93",), ops_packages=("Ascend-cann-A3-ops",))
    finding = fails("ops-package", facts, "are for ascend910_93, the chip is ascend910b", "561103")
    assert "Ascend-cann-910b-ops" in remedy_of(finding).summary


def test_no_operators_at_all() -> None:
    facts = install(healthy(), kernels=(), ops_packages=())
    fails("ops-package", facts, "CANN 8.5.0 has no operator package")
    skips("ops-package", install(facts, simulated=True))


def test_the_chip_may_be_told_by_pci_or_not_at_all() -> None:
    facts = without(install(healthy(), kernels=()), "npus")
    fails("ops-package", facts, "ascend910b")
    other = having(facts, "driver", pci=(PciFunction(address="0", device="0xffff"),))
    cannot_tell("ops-package", other, "chip")
    strange = having(healthy(), "npus", devices=(Npu(npu_id=0, name="999Z"),))
    cannot_tell("ops-package", having(strange, "driver", pci=()))
    none = having(facts, "driver", pci=(), nodes=(), version=None)
    skips("ops-package", none)


def test_nnal_is_missing_or_not_sourced() -> None:
    warns("nnal", having(healthy(), "cann", nnal=()), "NNAL is not installed")
    finding = warns("nnal", shell(healthy(), atb=None), "ATB_HOME_PATH is unset")
    assert remedy_of(finding).commands == ("source /usr/local/Ascend/nnal/atb/set_env.sh",)
    elsewhere = shell(healthy(), atb="/opt/atb/cxx_abi_1")
    warns("nnal", elsewhere, "ATB_HOME_PATH is /opt/atb/cxx_abi_1")


def test_nnal_of_another_release() -> None:
    nnal = Nnal(root="/usr/local/Ascend/nnal/atb/latest", version="8.3.RC1")
    warns("nnal", having(healthy(), "cann", nnal=(nnal,)), "NNAL 8.3.RC1")
    odd = Nnal(root="/usr/local/Ascend/nnal/atb/latest", version="odd")
    cannot_tell("nnal", having(healthy(), "cann", nnal=(odd,)))


def test_functions_that_atb_lacks() -> None:
    symbols = (
        MissingSymbol(name="_ZN3atb1x", wanted_by="torch_npu/lib/libtorch_npu.so", owner="nnal"),
    )
    facts = having(healthy(), "native", missing_symbols=symbols)
    fails("nnal", facts, "ATB of NNAL 8.5.0 lacks", "_ZN3atb1x")
    absent = having(facts, "native", atb=Library(name="libatb.so"))
    warns("nnal", absent, "libatb.so is not found")


def test_nnal_that_does_not_tell_its_version() -> None:
    assert healthy().cann is not None
    (installed,) = healthy().cann.nnal  # type: ignore[union-attr]
    facts = having(healthy(), "cann", nnal=(msgspec.structs.replace(installed, version=None),))
    cannot_tell("nnal", facts, "does not tell its version")


def test_operators_of_another_release() -> None:
    for packages, level in (("8.5.0", Level.OK), ("8.3.RC1", Level.WARNING)):
        facts = install(healthy(), ops_packages=(f"Ascend-cann-910b-ops {packages}",))
        assert run("ops-package", facts)[0].level is level
