"""What triton-ascend's driver asks of CANN: a compiler, headers and the runtime below acl."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.simulator.conftest import Run

PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "runtime/runtime/rt.h"
int main(void) {
    char name[64], back[4] = "";
    uint32_t cores = 0;
    rtStream_t stream;
    void *place;
    if (rtGetSocVersion(name, sizeof name) || rtGetAiCoreCount(&cores) || rtSetDevice(1)) return 2;
    if (rtStreamCreate(&stream, 0) || rtStreamDestroy(stream)) return 3;
    if (rtMalloc(&place, 4, RT_MEMORY_HBM, 0)) return 4;
    if (rtMemcpy(place, 4, "abc", 4, RT_MEMCPY_HOST_TO_DEVICE)) return 5;
    if (rtMemcpy(back, 4, place, 4, RT_MEMCPY_DEVICE_TO_HOST) || rtFree(place)) return 6;
    rtDevBinary_t binary = {0};
    void *handle;
    printf("%s %u %s %d %d\\n", name, cores, back, rtSetDevice(99) != 0,
           rtDevBinaryRegister(&binary, &handle) != 0);
    return 0;
}
"""


def flags(simulate: Run) -> list[str]:
    home = simulate("sh", "-c", "echo $ASCEND_HOME_PATH").stdout.strip()
    return [f"-I{home}/include/experiment", f"-L{home}/lib64", "-lruntime", "-lascendcl"]


def test_the_runtime_below_acl(simulate: Run, tmp_path: Path) -> None:
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-o", program, source, *flags(simulate)], check=True)
    done = simulate(program)
    assert (done.returncode, done.stdout) == (0, "Ascend910B3 20 abc 1 1\n"), done.stderr


def test_the_compiler_knows_its_target_and_compiles_nothing(simulate: Run) -> None:
    assert "hiipu64" in simulate("bisheng", "-print-targets").stdout.split()
    done = simulate("bisheng", "kernel.ll")
    assert (done.returncode, done.stderr) == (
        1,
        "bisheng: there is no compiler on a simulated NPU\n",
    )


def test_the_driver_of_triton_ascend(simulate: Run, examined_python: Path, tmp_path: Path) -> None:
    folder = os.environ.get("ASCEND_DOCTOR_TEST_TRITON_ASCEND")
    if not folder:
        pytest.skip("ASCEND_DOCTOR_TEST_TRITON_ASCEND names no folder with npu_utils.cpp")
    source = Path(folder) / "npu_utils.cpp"
    python = sysconfig.get_paths()["include"]
    command: list[str | Path] = [
        "c++",
        "-std=c++17",
        "-shared",
        "-fPIC",
        "-w",
        f"-I{python}",
        source,
    ]
    subprocess.run([*command, "-o", tmp_path / "npu_utils.so", *flags(simulate)], check=True)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch, npu_utils as n; "
    asked = (
        "torch.npu.set_device(0); print(n.get_arch(), n.get_aicore_num(), n.create_stream() > 0)"
    )
    done = simulate(examined_python, "-c", code + asked)
    assert done.stdout == "Ascend910B3 20 True\n", done.stderr
