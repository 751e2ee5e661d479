"""triton-ascend's driver is compiled and loaded against the simulated CANN."""

import subprocess
import sysconfig
from pathlib import Path

from tests.acceptance.clones import show
from tests.simulator.conftest import Run
from tests.simulator.test_triton_driver import flags

SOURCE = "third_party/ascend/backend/npu_utils.cpp"


def test_the_driver_of_triton_ascend(simulate: Run, examined_python: Path, tmp_path: Path) -> None:
    source = tmp_path / "npu_utils.cpp"
    source.write_text(show("triton-lang/triton-ascend", SOURCE))
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
