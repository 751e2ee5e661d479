from ascend_doctor.findings import Level
from tests.checks.machine import having, healthy, only, packages, run


def test_a_stack_without_an_npu_is_an_error() -> None:
    assert run("npu-present", healthy())[0].level is Level.OK
    gone = having(having(healthy(), "driver", nodes=()), "npus", devices=())
    only("npu-present", gone, Level.ERROR, "there is no NPU", "torch_npu", "CANN")


def test_where_nothing_is_installed_no_npu_is_missed() -> None:
    bare = having(packages(healthy(), gone=("torch-npu",)), "cann", installs=())
    bare = having(bare, "driver", nodes=(), version=None, install_info=None, pci=())
    bare = having(bare, "npus", devices=())
    assert run("npu-present", bare)[0].level is Level.SKIPPED
