"""`diagnose` against `grep -cE -f` of the same patterns on a synthetic log of 64 ranks, in pairs.

    python benchmarks/diagnose.py [--mib 100] [--pairs 3] [--smoke] [--linear] [--errors]
                                  [--folder DIR]

Of 10,000 lines 9,990 are progress of training as Megatron and transformers print it. The others
are the catalogue's examples of harmless messages, and the log ends with an NPU out of memory.
grep runs in the C locale, its fastest; patterns are written as POSIX extended regular expressions.
Prints the median seconds of both, on the wall and of the processor, the median of the ratios, and
the largest resident memory of the doctor; with --linear also seconds and memory from 10 MiB to
4 GiB; with --errors those of logs in which every line is an error: exceptions that the catalogue
does not know beside lines at the level ERROR, and an error of the catalogue on every line.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ascend_doctor.matrix.catalog import Catalog

RANKS = 64
MIB = 1 << 20
SIZES = (10, 100, 1024, 4096)
STEP = (
    "[rank{r}]: [2026-08-22 12:31:26] iteration {n:8d}/ 2000000 | consumed samples: {n:12d} | "
    "elapsed time per iteration (ms): 5000.0 | learning rate: 1.500E-05 | global batch size:  1024 "
    "| lm loss: 2.300000E+00 | loss scale: 1.0 | grad norm: 0.800 | number of skipped iterations:"
    "   0 | number of nan iterations:   0 |"
)
LOSS = (
    "[rank{r}]: {{'loss': 0.2, 'grad_norm': 0.6, 'learning_rate': 1e-06, 'epoch': 0.6, "
    "'global_step/max_steps': '{n}/2000000', 'memory(GiB)': 60.0}}"
)
PROGRESS = (
    STEP,
    LOSS,
    "[rank{r}]: Train:  31%|###       | {n}/2000000 [1:00:00<2:00:00,  1.00it/s]",
    "(WorkerDict pid=90{r:02}, ip=10.0.0.1) step:{n} - actor/pg_loss:0.01 - actor/grad_norm:0.81",
)


def texts() -> tuple[list[str], list[str]]:
    """Harmless lines, and those of a run that ends."""
    failures = Catalog().failures
    harmless = [failure.example for failure in failures.values() if failure.severity == "benign"]
    return "\n".join(harmless).splitlines(), failures["npu-oom-torch"].example.splitlines()


def write(path: Path, mib: int) -> None:
    """A log of that size, one piece of it repeated; the failure stands at its end."""
    chance = random.Random(1)  # noqa: S311 - the same log every time
    harmless, end = texts()
    rows = []
    for n in range(min(100_000, mib * 7_000)):  # of some 150 bytes
        if chance.random() < 0.999:  # noqa: PLR2004 - see the docstring
            rows.append(chance.choice(PROGRESS).format(r=n % RANKS, n=n))
        else:
            rows.append(f"[rank{n % RANKS}]: {chance.choice(harmless)}")
    piece = ("\n".join(rows) + "\n").encode()
    with path.open("wb") as file:
        for _ in range(max(mib * MIB // len(piece), 1)):
            file.write(piece)
        file.write(("\n".join(f"[rank3]: {line}" for line in end) + "\n").encode())


ERRORS = {
    "exceptions and logged lines": (
        "[rank{r}]: ValueError: sample {n} of shard {r} has no label",
        "[rank{r}]: 2026-08-22 12:31:26,123 - trainer - ERROR - step {n} went wrong on worker {r}",
    ),
    "a known failure": (
        "[rank{r}]: RuntimeError: NPU out of memory. Tried to allocate {n} MiB (NPU {r}; 60 GiB)",
    ),
}


def write_errors(path: Path, mib: int, lines: tuple[str, ...]) -> None:
    """A log of these lines in turn, with the numbers of ranks and steps in them."""
    rows = [lines[n % len(lines)].format(r=n % RANKS, n=n) for n in range(50_000)]
    piece = ("\n".join(rows) + "\n").encode()
    with path.open("wb") as file:
        for _ in range(max(mib * MIB // len(piece), 1)):
            file.write(piece)


def measure_errors(doctor: str, log: Path, mib: int) -> None:
    for name, lines in ERRORS.items():
        write_errors(log, mib, lines)
        size = log.stat().st_size / 1e6
        took, busy, peak = seconds([doctor, "diagnose", str(log), "--format", "json"])
        print(
            f"{name}: {size:.0f} MB, {took:.2f} s, processor {busy:.2f} s, "
            f"{size / busy:.0f} MB/s of it, {peak:.0f} MB of memory"
        )


def written(path: Path, mib: int) -> None:
    """The same from a process of its own: the memory of this one is counted for its children."""
    here = [sys.executable, __file__]
    subprocess.run([*here, "--write", str(path), "--mib", str(mib)], check=True, timeout=600)


def posix(pattern: str) -> str:
    """The same pattern as an extended regular expression."""
    pattern = re.sub(r"\[[^\]]*\]", lambda one: _listed(one[0]), pattern)
    return pattern.replace(r"\d", "[0-9]").replace("(?:", "(")


def _listed(one: str) -> str:
    return one.replace(r"\d", "0-9").replace(r"\w", "A-Za-z0-9_")


def seconds(argv: list[str], **env: str) -> tuple[float, float, float]:
    """Wall time, time of the processor, and peak resident memory in MB."""
    start = time.perf_counter()
    # grep stops at the first match where it writes to /dev/null.
    with tempfile.TemporaryFile() as told:
        child = subprocess.Popen(argv, env={**os.environ, **env}, stdout=told)
        _, _, used = os.wait4(child.pid, 0)
    child.returncode = 0
    took = time.perf_counter() - start
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    parser.add_argument("--linear", action="store_true")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(Path(options.write), options.mib)
        return
    if options.smoke:
        options.mib = options.pairs = 1
    doctor = str(Path(sys.executable).with_name("ascend-doctor"))
    place = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        log, patterns = place / "train.log", place / "patterns"
        every = [text for one in Catalog().failures.values() for text in one.patterns]
        patterns.write_text("".join(f"{posix(text)}\n" for text in every))
        written(log, options.mib)
        ours = [doctor, "diagnose", str(log), "--format", "json"]
        theirs = ["grep", "-cE", "-f", str(patterns), str(log)]
        seconds(ours)
        pairs = [(seconds(ours), seconds(theirs, LC_ALL="C")) for _ in range(options.pairs)]
        print(f"{len(every)} patterns, {log.stat().st_size / MIB:.0f} MiB")
        for number, name in enumerate(("wall time", "processor time")):
            mine, other = ([one[number] for one in side] for side in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in zip(mine, other, strict=True))
            print(
                f"{name:<15} diagnose {statistics.median(mine):6.2f} s, "
                f"grep -cE -f (LC_ALL=C) {statistics.median(other):6.2f} s, "
                f"median of the ratios {ratio:.2f}"
            )
        print(f"peak memory              {max(one[0][2] for one in pairs):.0f} MB")
        for mib in SIZES if options.linear else ():
            written(log, mib)
            took, busy, peak = seconds(ours)
            print(f"{mib:5} MiB  {took:6.2f} s, processor {busy:6.2f} s  {peak:4.0f} MB")
        if options.errors:
            measure_errors(doctor, log, options.mib)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
