from ascend_doctor.facts import Npu
from ascend_doctor.findings import Level
from tests.checks.machine import (
    copy,
    dist,
    having,
    healthy,
    imports,
    install,
    only,
    packages,
    run,
    set_to,
)


def test_triton_without_triton_ascend_is_a_warning() -> None:
    facts = packages(healthy(), dist("triton", "3.2.0"), gone=("triton-ascend",))
    finding = only("triton-overwritten", facts, Level.WARNING, "without triton-ascend")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("/venv/bin/python -m pip uninstall -y triton",)


def test_3_2_0_stands_no_common_triton() -> None:
    facts = packages(healthy(), dist("triton", "3.2.0"))
    finding = only("triton-overwritten", facts, Level.ERROR, "beside triton-ascend 3.2.0")
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/venv/bin/python -m pip uninstall -y triton triton-ascend",
        "/venv/bin/python -m pip install triton-ascend==3.2.0",
    )


def test_from_3_2_1_on_the_last_one_installed_wins() -> None:
    facts = packages(healthy(), dist("triton-ascend", "3.2.1"), dist("triton", "3.5.0"))
    only("triton-overwritten", facts, Level.OK, "share a folder", "could not be told")
    over = imports(facts, "triton", copy("/v/triton", "/v", triton="3.5.0"))
    only("triton-overwritten", over, Level.WARNING, "has overwritten triton-ascend 3.2.1")
    fine = imports(facts, "triton", copy("/v/triton", "/v", triton="3.2.1"))
    only("triton-overwritten", fine, Level.OK)
    odd = packages(facts, dist("triton-ascend", "odd"))
    only("triton-overwritten", odd, Level.UNKNOWN)


def test_triton_ascend_for_another_cann_is_a_warning() -> None:
    facts = install(healthy(), version="9.1.0")
    only("triton-cann", facts, Level.WARNING, "triton-ascend 3.2.0 is for CANN 8.5.X", "9.1.0")
    assert run("triton-cann", install(healthy(), version="8.5.1"))[0].level is Level.OK
    odd = packages(healthy(), dist("triton-ascend", "3.9"))
    only("triton-cann", odd, Level.UNKNOWN, "no table")


def test_two_drivers() -> None:
    facts = set_to(healthy(), TORCH_TRANSFER_TO_NPU="1")
    finding = only("triton-two-drivers", facts, Level.WARNING, "2 active drivers")
    assert finding.remedy is not None
    assert finding.remedy.commands == ("unset TORCH_TRANSFER_TO_NPU",)


def test_triton_ascend_on_an_undocumented_machine_is_a_warning() -> None:
    facts = having(healthy(), "python", version="3.12.4")
    only("triton-machine", facts, Level.WARNING, "python >=3.9,<3.12", "3.12.4")
    only("triton-machine", having(healthy(), "host", glibc="2.17"), Level.WARNING, "glibc >=2.27")
    only("triton-machine", having(healthy(), "host", glibc=None), Level.UNKNOWN, "glibc")
    chip = having(healthy(), "npus", devices=(Npu(npu_id=0, name="910B"),))
    only("triton-machine", chip, Level.WARNING, "soc ascend910b or ascend910_93", "ascend910")


def test_triton_beside_triton_ascend_depends_on_the_processor() -> None:
    facts = packages(healthy(), dist("triton-ascend", "3.2.1"), dist("triton", "3.2.0"))
    only("triton-machine", facts, Level.WARNING, "triton 3.5.0, here is 3.2.0")
    x86 = having(facts, "python", machine="x86_64")
    assert run("triton-machine", x86)[0].level is Level.OK
