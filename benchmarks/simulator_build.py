"""How long the stand-in CANN tree takes: built into an empty cache, and found in it.

    python benchmarks/simulator_build.py --python PATH [--smoke]

PATH is an interpreter with torch and torch_npu. Prints the seconds of one cold build, the
median of the cached ones, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from ascend_doctor.simulator import build

REPEATS = 9


def seconds(python: Path, cache: Path) -> float:
    start = time.perf_counter()
    build(python, cache=cache)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    options = parser.parse_args()
    repeats = 1 if options.smoke else REPEATS
    with tempfile.TemporaryDirectory() as folder:
        cold = seconds(options.python, Path(folder))
        cached = statistics.median(seconds(options.python, Path(folder)) for _ in range(repeats))
    print(f"cold {cold:.1f} s, cached {cached:.3f} s, ratio {cached / cold:.4f}")


if __name__ == "__main__":
    main()
