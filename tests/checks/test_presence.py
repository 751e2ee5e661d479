from tests.checks.levels import fails, passes, skips
from tests.checks.machine import having, healthy, packages


def test_a_stack_without_an_npu_is_an_error() -> None:
    passes("npu-present", healthy())
    gone = having(having(healthy(), "driver", nodes=()), "npus", devices=())
    fails("npu-present", gone, "there is no NPU", "torch_npu", "CANN")


def test_where_nothing_is_installed_no_npu_is_missed() -> None:
    bare = having(packages(healthy(), gone=("torch-npu",)), "cann", installs=())
    bare = having(bare, "driver", nodes=(), version=None, install_info=None, pci=())
    bare = having(bare, "npus", devices=())
    skips("npu-present", bare)
