"""Level 0 against `python -m torch.utils.collect_env` on the same environment, in pairs.

    python benchmarks/level0.py --python PATH [--pairs N] [--smoke]

PATH is an interpreter with torch and torch_npu. Prints the median seconds of both, the median of
the ratios, the largest resident memory of any process of the doctor, and whether torch was
imported by one of them (asked of the interpreter with an audit hook).
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ascend_doctor

HOOK = """
import sys
def hook(event, args):
    if event == "import" and args[0] in ("torch", "torch_npu"):
        open({note!r}, "a").write(args[0] + "\\n")
sys.addaudithook(hook)
"""


def seconds(argv: list[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, env=env, check=False, capture_output=True, timeout=300)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    options = parser.parse_args()
    doctor = str(Path(sys.executable).with_name("ascend-doctor"))
    ours = [doctor, "check", "-l", "0", "--python", options.python]
    theirs = [options.python, "-m", "torch.utils.collect_env"]
    env = dict(os.environ)
    # An installed package is compiled by pip; a checkout is compiled here.
    compileall.compile_dir(str(Path(ascend_doctor.__file__).parent), quiet=1)
    seconds(ours, env)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "imports"
        Path(folder, "sitecustomize.py").write_text(HOOK.format(note=str(note)))
        seconds(ours, {**env, "PYTHONPATH": folder})
        imported = note.read_text().split() if note.exists() else []
    count = 1 if options.smoke else options.pairs
    pairs = [(seconds(ours, env), seconds(theirs, env)) for _ in range(count)]
    mine, other = zip(*pairs, strict=True)
    print(f"check -l 0               {statistics.median(mine):.3f} s")
    print(f"torch.utils.collect_env  {statistics.median(other):.3f} s")
    print(f"ratio of the medians     {statistics.median(other) / statistics.median(mine):.1f}")
    print(f"median of the ratios     {statistics.median(b / a for a, b in pairs):.1f}")
    print(f"peak memory of a process {peak:.0f} MB")
    print(f"imports of torch         {len(imported)}")


if __name__ == "__main__":
    main()
