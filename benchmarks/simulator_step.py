"""A training step on the simulated NPU against the same step on the CPU.

    python benchmarks/simulator_step.py --python PATH [--smoke]

PATH is an interpreter with torch, torch_npu and megatron-core. Builds the stand-in tree and prints
the median times and their ratio: for the steps of smoke-train (Megatron, LoRA and MoE on four
ranks, hccl against gloo), and in pairs in one process for a small transformer of three sizes, with
attention spelled out and with scaled_dot_product_attention. With --smoke it does the last alone, a
pair a size.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ascend_doctor.probing.schedule import plan, run_all
from ascend_doctor.simulator import Tree, build

MEASURED = Path(__file__).with_name("_simulator_step.py")
RANKS = 4
PATIENCE = 900.0  # a loaded machine is slow on both sides
PROBE = "smoke-train"


def simulated(tree: Tree, devices: int) -> dict[str, str]:
    return tree.environment(os.environ, soc="Ascend910B3", devices=devices, memory_bytes=8 << 30)


def megatron_step(python: Path, device: str, env: Mapping[str, str]) -> float:
    """Median of the seconds of all training steps of the first rank."""
    several = plan(3, device=device, nproc=RANKS, python=str(python), env=env)
    (request,) = (one for one in several if one.probe == PROBE)
    (run,) = run_all([msgspec.structs.replace(request, needs=(), deadline=PATIENCE)])
    if not run.sound:
        raise SystemExit(f"{PROBE} failed on {device}: {run.output}")
    stages = run.ranks[0].stages
    return statistics.median(spent for name, spent in stages.items() if name.startswith("step "))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    options = parser.parse_args()
    tree = build(options.python)
    if not options.smoke:
        compare_megatron(options.python, tree)
    pairs = ["1"] if options.smoke else []
    env = simulated(tree, 1)
    raise SystemExit(subprocess.call([options.python, MEASURED, *pairs], env=env, timeout=600))


def compare_megatron(python: Path, tree: Tree) -> None:
    cpu = megatron_step(python, "cpu", os.environ)
    npu = megatron_step(python, "npu", simulated(tree, RANKS))
    print(
        f"{PROBE}, {RANKS} ranks: cpu {1000 * cpu:.0f} ms, simulated npu {1000 * npu:.0f} ms, "
        f"ratio {npu / cpu:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
