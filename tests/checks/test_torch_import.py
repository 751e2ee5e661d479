import pytest

from ascend_doctor.facts import Container, Library, MissingSymbol, Needed, Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips, warns
from tests.checks.machine import (
    LIBRARIES,
    TORCH_NPU,
    dist,
    having,
    healthy,
    packages,
    run,
    set_to,
    without,
)


def lacking(facts: Snapshot, *names: str) -> Snapshot:
    needed = tuple(Needed(name=name, wanted_by=(TORCH_NPU,)) for name in names)
    return having(facts, "native", needed=needed)


def symbol(name: str, owner: str, by: str = TORCH_NPU) -> MissingSymbol:
    return MissingSymbol(name=name, wanted_by=by, owner=owner, at_import=by == TORCH_NPU)


def test_six_missing_libraries_are_named_with_the_script_to_source() -> None:
    finding = fails(
        "torch-npu-libraries",
        lacking(healthy(), *sorted(LIBRARIES)),
        "`import torch` will fail: 6 CANN libraries are not found",
        "not found: libhccl.so, libascendcl.so",
        *LIBRARIES,
    )
    skips("torch-npu-cann-symbols", lacking(healthy(), *LIBRARIES))
    assert remedy_of(finding).commands == ("source /usr/local/Ascend/cann/set_env.sh",)


def test_without_cann_the_remedy_is_to_install_it_or_to_switch_the_import_off() -> None:
    facts = having(lacking(healthy(), "libhccl.so"), "cann", installs=(), active=None)
    finding = fails("torch-npu-libraries", facts, "1 CANN library is not found")
    assert "Install the CANN toolkit" in remedy_of(finding).summary
    assert remedy_of(finding).commands == ("export TORCH_DEVICE_BACKEND_AUTOLOAD=0",)


def test_a_missing_library_of_torch_asks_for_the_pair() -> None:
    finding = fails("torch-npu-libraries", lacking(healthy(), "libc10.so"), "1 library")
    assert remedy_of(finding).commands == (
        "/venv/bin/python -m pip install --force-reinstall --no-deps torch==2.7.1",
    )
    assert "index of CPU builds" in remedy_of(finding).summary


def test_a_missing_library_of_the_system_has_no_command() -> None:
    finding = fails("torch-npu-libraries", lacking(healthy(), "libgomp.so.1"))
    assert finding.remedy is None


def test_what_only_atb_operators_want_does_not_stop_the_import() -> None:
    late = Needed(name="libatb.so", wanted_by=("libop_plugin_atb.so",), at_import=False)
    facts = having(healthy(), "native", needed=(late,))
    passes("torch-npu-libraries", facts)
    facts = lacking(healthy(), "libatb.so")
    fails("torch-npu-libraries", facts)
    late_symbol = MissingSymbol(name="f", wanted_by="x", owner="cann", at_import=False)
    facts = having(healthy(), "native", missing_symbols=(late_symbol,))
    passes("torch-npu-cann-symbols", facts)


def test_with_autoload_off_only_torch_npu_fails_and_only_npu_users_care() -> None:
    facts = set_to(lacking(healthy(), "libhccl.so"), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    fails("torch-npu-libraries", facts, "`import torch_npu` will fail")
    skips("torch-npu-libraries", facts, device="cpu")
    skips("torch-autoload", facts)


@pytest.mark.parametrize("device", ["npu", "cuda", "cpu"])
def test_the_autoload_trap_is_an_error_on_every_device(device: str) -> None:
    facts = lacking(healthy(), "libhccl.so")
    fails("torch-npu-libraries", facts, device=device)
    finding = fails(
        "torch-autoload", facts, "is unset", "libhccl.so", "`import torch` itself", device=device
    )
    assert remedy_of(finding).commands == ("export TORCH_DEVICE_BACKEND_AUTOLOAD=0",)


def test_undefined_symbols_fail_the_autoload_of_torch_npu() -> None:
    facts = having(healthy(), "native", missing_symbols=(symbol("_Zx", "cann"),))
    fails("torch-autoload", facts, "names undefined: 1", "_Zx")


def test_old_torch_does_not_autoload() -> None:
    facts = packages(lacking(healthy(), "libhccl.so"), dist("torch", "2.4.0"))
    skips("torch-autoload", facts)
    fails("torch-npu-libraries", facts, "`import torch_npu` will fail")


def test_whether_torch_autoloads_may_be_unknown() -> None:
    facts = packages(lacking(healthy(), "libhccl.so"), gone=("torch",))
    fails("torch-npu-libraries", facts, "`import torch_npu` will fail")
    facts = having(
        lacking(healthy(), "libhccl.so"), "environment", withheld=("TORCH_DEVICE_BACKEND_AUTOLOAD",)
    )
    cannot_tell("torch-autoload", facts, "not recorded")


def test_without_torch_npu_there_is_no_subject() -> None:
    facts = packages(healthy(), gone=("torch-npu",))
    for name in ("torch-npu-libraries", "torch-npu-cann-symbols", "driver-library"):
        skips(name, facts)


def test_files_that_could_not_be_read_are_unknown() -> None:
    cannot_tell("torch-npu-libraries", having(healthy(), "native", needed=()))
    cannot_tell("torch-npu-cann-symbols", having(healthy(), "native", symbols_checked=0))


def test_symbols_that_cann_lacks() -> None:
    symbols = tuple(symbol(f"aclnnNew{n}", "cann") for n in range(5))
    facts = having(healthy(), "native", missing_symbols=symbols)
    fails(
        "torch-npu-cann-symbols",
        facts,
        "CANN 8.5.0 is too old for torch_npu 2.7.1.post2",
        "5 undefined: aclnnNew0",
        "...",
    )
    facts = having(facts, "cann", installs=())
    fails("torch-npu-cann-symbols", facts, "the CANN in use is too old")


def test_symbols_without_an_owner_are_a_warning() -> None:
    facts = having(healthy(), "native", missing_symbols=(symbol("f", ""),))
    warns("torch-npu-cann-symbols", facts, "1 undefined: f")


def test_symbols_that_torch_lacks() -> None:
    facts = having(healthy(), "native", missing_symbols=(symbol("_ZN5torch1x", "torch"),))
    finding = fails("torch-npu-torch-symbols", facts, "was not built for torch 2.7.1")
    assert "torch==2.7.1" in remedy_of(finding).commands[0]
    passes("torch-npu-torch-symbols", healthy())


def test_the_driver_library_must_be_found() -> None:
    facts = having(healthy(), "native", hal=Library(name="libascend_hal.so"))
    finding = fails("driver-library", facts, "libascend_hal.so: not found")
    assert remedy_of(finding).commands == (
        (
            "export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}"
            "/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64/common:"
            "/usr/local/Ascend/driver/lib64/driver"
        ),
    )
    inside = having(facts, "host", container=Container(kind="docker"))
    assert run("driver-library", inside)[0].level is Level.SKIPPED, "container-driver tells"
    cannot_tell("driver-library", having(facts, "native", hal=None))
    empty = having(without(facts, "npus"), "driver", version=None, nodes=(), pci=None)
    skips("driver-library", empty)
