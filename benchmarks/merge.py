"""`ascend-doctor merge` of many reports: seconds, memory, and how both grow with the nodes.

    python benchmarks/merge.py [--python PATH] [--nodes N] [--smoke]

PATH is an interpreter to examine once, by default this one; its report, with another name and now
and then another version, stands for N nodes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def written(folder: Path, report: dict[str, object], count: int) -> int:
    size = 0
    for number in range(count):
        name = f"node{number:05d}"
        told = json.dumps({**report, "host": name, "redacted": False})
        if number % 100 == 7:  # noqa: PLR2004 - one in a hundred drifts
            told = told.replace('"glibc": "', '"glibc": "9.')
        size += Path(folder, f"{name}.json").write_text(told)
    return size


def merged(doctor: str, folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(
        [doctor, "merge", str(folder), "--format", "json", "-o", str(folder.parent / "out.json")],
        check=False,
        timeout=600,
    )
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    options = parser.parse_args()
    nodes = 20 if options.smoke else options.nodes
    doctor = str(Path(sys.executable).with_name("ascend-doctor"))
    with tempfile.TemporaryDirectory() as place:
        one = Path(place, "one.json")
        command = [doctor, "check", "-l", "0", "--python", options.python, "--format", "json"]
        subprocess.run([*command, "-o", str(one)], check=False, timeout=300)
        report = json.loads(one.read_text())
        seconds = {}
        for count in (nodes // 10, nodes):
            folder = Path(place, str(count))
            folder.mkdir()
            size = written(folder, report, count)
            seconds[count] = merged(doctor, folder)
            print(f"{count} nodes, {size / 1e6:.0f} MB: {seconds[count]:.1f} s")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        few, many = seconds.values()
        print(f"seconds for ten times the nodes  {many / few:.1f} times")
        print(f"peak memory of a process         {peak:.0f} MB")


if __name__ == "__main__":
    main()
