"""What triton-ascend's driver asks of CANN: a compiler, headers and the runtime below acl."""

import subprocess
from pathlib import Path

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
