from ascend_doctor.facts import Npu
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, warns
from tests.checks.machine import copy, dist, having, healthy, imports, install, packages, set_to


def test_triton_without_triton_ascend_is_a_warning() -> None:
    facts = packages(healthy(), dist("triton", "3.2.0"), gone=("triton-ascend",))
    finding = warns("triton-overwritten", facts, "without triton-ascend")
    assert remedy_of(finding).commands == ("/venv/bin/python -m pip uninstall -y triton",)


def test_3_2_0_stands_no_common_triton() -> None:
    facts = packages(healthy(), dist("triton", "3.2.0"))
    finding = fails("triton-overwritten", facts, "beside triton-ascend 3.2.0")
    assert remedy_of(finding).commands == (
        "/venv/bin/python -m pip uninstall -y triton triton-ascend",
        "/venv/bin/python -m pip install triton-ascend==3.2.0",
    )


def test_from_3_2_1_on_the_last_one_installed_wins() -> None:
    facts = packages(healthy(), dist("triton-ascend", "3.2.1"), dist("triton", "3.5.0"))
    passes("triton-overwritten", facts, "share a folder", "could not be told")
    over = imports(facts, "triton", copy("/v/triton", "/v", triton="3.5.0"))
    warns("triton-overwritten", over, "has overwritten triton-ascend 3.2.1")
    fine = imports(facts, "triton", copy("/v/triton", "/v", triton="3.2.1"))
    passes("triton-overwritten", fine)
    odd = packages(facts, dist("triton-ascend", "odd"))
    cannot_tell("triton-overwritten", odd)


def test_triton_ascend_for_another_cann_is_a_warning() -> None:
    facts = install(healthy(), version="9.1.0")
    warns("triton-cann", facts, "triton-ascend 3.2.0 is for CANN 8.5.X", "9.1.0")
    passes("triton-cann", install(healthy(), version="8.5.1"))
    odd = packages(healthy(), dist("triton-ascend", "3.9"))
    cannot_tell("triton-cann", odd, "no table")


def test_two_drivers() -> None:
    facts = set_to(healthy(), TORCH_TRANSFER_TO_NPU="1")
    finding = warns("triton-two-drivers", facts, "2 active drivers")
    assert remedy_of(finding).commands == ("unset TORCH_TRANSFER_TO_NPU",)


def test_triton_ascend_on_an_undocumented_machine_is_a_warning() -> None:
    facts = having(healthy(), "python", version="3.12.4")
    warns("triton-machine", facts, "python >=3.9,<3.12", "3.12.4")
    warns("triton-machine", having(healthy(), "host", glibc="2.17"), "glibc >=2.27")
    cannot_tell("triton-machine", having(healthy(), "host", glibc=None), "glibc")
    chip = having(healthy(), "npus", devices=(Npu(npu_id=0, name="910B"),))
    warns("triton-machine", chip, "soc ascend910b or ascend910_93", "ascend910")


def test_triton_beside_triton_ascend_depends_on_the_processor() -> None:
    facts = packages(healthy(), dist("triton-ascend", "3.2.1"), dist("triton", "3.2.0"))
    warns("triton-machine", facts, "triton 3.5.0, here is 3.2.0")
    x86 = having(facts, "python", machine="x86_64")
    passes("triton-machine", x86)
