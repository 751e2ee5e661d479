"""A small training step on the simulated NPU against the same step on the CPU, in pairs.

usage: simulator_step.py PYTHON, an interpreter with torch and torch_npu; builds the stand-in tree
and prints for three sizes, with attention spelled out and with scaled_dot_product_attention, the
median times and the median of the ratios of neighbouring steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ascend_doctor.simulator import build

MEASURED = Path(__file__).with_name("_simulator_step.py")


def main() -> None:
    python = Path(sys.argv[1])
    env = build(python).environment(os.environ, soc="Ascend910B3", devices=1, memory_bytes=8 << 30)
    raise SystemExit(subprocess.call([python, MEASURED], env=env, timeout=600))


main()
