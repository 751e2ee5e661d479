import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_doctor.simulator import Tree
from ascend_doctor.simulator.wheel import read_elf
from tests.programs import run_program
from tests.simulator.conftest import PROGRAMS, Forked, Run


def test_a_device_is_what_the_matrix_says(forked: Forked) -> None:
    done = forked("devices.py", memory=3 << 30)
    assert json.loads(done.stdout) == {
        "available": True,
        "count": 8,
        "name": "Ascend910B3",
        "memory": 3 << 30,
        "cubes": 20,
        "vectors": 40,
        "l2": 192 << 20,
        "cann": "9.1.0",
        "chip": 223,
    }


@pytest.mark.parametrize(
    ("visible", "count"),
    [("0,1,2", 3), ("5", 1), ("", 0), ("3,1", 0), ("1,2,99,3", 2), ("0, 1", 1)],
)
def test_visible_devices(simulate: Run, visible: str, count: int) -> None:
    """CANN's own count: torch_npu counts by itself before it is initialised."""
    code = (
        "import ctypes; n = ctypes.c_uint32(99);"
        "ctypes.CDLL('libascendcl.so').aclrtGetDeviceCount(ctypes.byref(n)); print(n.value)"
    )
    done = simulate(sys.executable, "-c", code, env={"ASCEND_RT_VISIBLE_DEVICES": visible})
    assert done.stdout.split() == [str(count)], done.stderr


@pytest.mark.parametrize(
    ("visible", "text"),
    [
        ("1,2,2", "ASCEND_RT_VISIBLE_DEVICES is invalid. Expected value: cannot be duplicated."),
        ("3,1", "it must be configured in ascending order"),
    ],
)
def test_a_bad_list_of_devices_is_an_error(forked: Forked, visible: str, text: str) -> None:
    done = forked("use_device.py", 0, env={"ASCEND_RT_VISIBLE_DEVICES": visible})
    assert done.returncode != 0
    assert text in done.stderr


def test_select_a_device(forked: Forked) -> None:
    assert forked("use_device.py", 3).stdout == "6.0 3\n"


def test_select_a_device_that_is_not_there(forked: Forked) -> None:
    done = forked("use_device.py", 100)
    assert "error code is 107001" in done.stderr
    assert (
        "The argument is invalid.Reason: Set device failed, invalid device, set drv device=100, "
        "valid device range is [0, 8)"
    ) in done.stderr


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "sanitized"])
@pytest.mark.parametrize("settings", ["expandable_segments:False", "expandable_segments:True"])
def test_memory(
    simulate: Run, examined_python: Path, sanitized: Tree, *, settings: str, checked: bool
) -> None:
    env = {"PYTORCH_NPU_ALLOC_CONF": settings}
    tree = sanitized if checked else None
    done = simulate(examined_python, PROGRAMS / "memory.py", env=env, tree=tree)
    assert done.stdout == "ok\n", done.stderr


def test_streams_and_events(forked: Forked) -> None:
    done = forked("streams.py")
    assert done.stdout == "ok\n", done.stderr


def test_processes_share_the_memory_of_a_device(built: Tree, examined_python: Path) -> None:
    env = built.environment(os.environ, soc="Ascend910B3", devices=8, memory_bytes=1 << 30)

    def free() -> list[int]:
        done = run_program([examined_python, PROGRAMS / "free.py"], env=env)
        return [int(word) for word in done.stdout.split()]

    assert free() == [1024, 1024]
    holder = subprocess.Popen(
        [examined_python, PROGRAMS / "hold.py"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert free() == [422, 1024]  # 600 MiB, padded and rounded up
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert free() == [1024, 1024]
    finally:
        holder.kill()
        holder.communicate()
    assert not Path(env["ASCEND_SIMULATOR_LEDGER"]).exists()


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("hbm-ecc device=0 step=5", ["HBM MULTI BIT ECC ERROR", "507054", "still broken"]),
        ("device-lost device=0 step=5", ["error code is 507010", "EL0001", "still broken"]),
    ],
)
def test_a_device_breaks_for_good(forked: Forked, fault: str, texts: list[str]) -> None:
    done = forked("broken.py", faults=(fault,))
    assert [text for text in texts if text not in done.stdout] == [], done.stdout + done.stderr


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("device-busy device=1", "open device 1 failed, runtime result = 507033"),
        ("acl-init", "aclInit, error code is 500001"),
        ("compiler-init", "error code is 500001"),
        ("hbm-oom device=1 free=1024", "NPU out of memory. Tried to allocate 2.00 MiB"),
    ],
)
def test_a_device_cannot_be_used(forked: Forked, fault: str, text: str) -> None:
    env = {"ACL_OP_INIT_MODE": "0"}  # the compiler starts at once, not when it is needed
    done = forked("use_device.py", 1, faults=(fault,), env=env)
    assert done.returncode != 0
    assert text in done.stderr


def test_a_fault_of_another_device_does_not_bite(forked: Forked) -> None:
    done = forked("use_device.py", 2, faults=("device-busy device=1",))
    assert done.stdout == "6.0 2\n"


def test_what_is_not_simulated_says_its_name(simulate: Run) -> None:
    code = (
        "import ctypes; lib = ctypes.CDLL('libopapi.so');"
        "acl = ctypes.CDLL('libascendcl.so'); acl.aclGetRecentErrMsg.restype = ctypes.c_char_p;"
        "print(lib.aclnnMatmulGetWorkspaceSize(), acl.aclGetRecentErrMsg().decode())"
    )
    done = simulate(sys.executable, "-c", code)
    assert done.stdout.startswith("561103 ")
    assert "aclnnMatmul is not simulated" in done.stdout


def test_masks_that_torch_npu_makes_past_the_dispatcher(simulate: Run) -> None:
    """As the attention of torch_npu 2.7.1 does; other releases ask torch's operators."""
    done = simulate(sys.executable, PROGRAMS / "masks_of_aclnn.py")
    assert done.stdout.splitlines() == [
        "0 [[1, 2, 3, 4], [0, 6, 7, 8], [0, 0, 11, 12]]",
        "0 [[0, 2, 3, 4], [0, 0, 7, 8], [0, 0, 0, 12]]",
        "0 [[1, 2, 3, 4], [5, 6, 7, 8], [0, 10, 11, 12]]",
        "0 [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]",
        "161002",
        "0 [True, False, False, True]",
    ], done.stderr


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_the_kernels_come_with_torch_npu(
    simulate: Run, examined_python: Path, tmp_path: Path, autoload: str
) -> None:
    """With and without torch's own loading of the backend; a hidden sitecustomize still runs."""
    (tmp_path / "sitecustomize.py").write_text("print('mine too')\n")
    code = "import torch, torch_npu; print((torch.ones(2).npu() * 2).tolist())"
    env = {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
    base = simulate(examined_python, "-c", "import os; print(os.environ['PYTHONPATH'])").stdout
    env["PYTHONPATH"] = f"{base.strip()}:{tmp_path}"
    done = simulate(examined_python, "-c", code, env=env)
    assert done.stdout == "mine too\n[2.0, 2.0]\n", done.stderr


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "sanitized"])
def test_the_runtime_without_torch(simulate: Run, sanitized: Tree, *, checked: bool) -> None:
    tree = sanitized if checked else None
    done = simulate(sys.executable, PROGRAMS / "plain_memory.py", tree=tree)
    assert done.stdout == "ok\n", done.stderr[-3000:]


def test_a_sanitized_tree_is_one(sanitized: Tree) -> None:
    needed = read_elf(sanitized.home / "lib64" / "libascendcl.so").needed
    assert any(name.startswith("libasan") for name in needed)
