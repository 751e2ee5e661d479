"""Times a second setup on a finished prefix, and a fresh one beside a script written by hand.

    python benchmarks/setup.py [--pairs N] [--smoke] [--megatron-lm DIR --mindspeed DIR]
    python benchmarks/setup.py --finished PREFIX [--again N] [--git-mirror URL_OR_DIR]

The repositories are those of the small world of the tests, or clones from upstream in the folders
that are named; the wheels are always those of the small world, whose content is tiny. A pair is one
fresh setup and one run of the script, in alternating order, on the same mirrors and wheels; the
ratio is of their times, and the bytes are those of git's objects. The script clones over file://,
as it would from a server.

``--finished`` times only the second setup of a real stack, the one in use in a prefix: with a
framework there is more to solve, and there are more wheels and checkouts to look at.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from ascend_doctor.provision import lock as locks
from tests.provision import small_world

_SCRIPT = """set -eu
mkdir -p "$1/src"
git clone -q "file://$2" "$1/src/megatron-lm"
git -C "$1/src/megatron-lm" checkout -q {megatron}
git clone -q "file://$3" "$1/src/mindspeed"
git -C "$1/src/mindspeed" checkout -q {mindspeed}
{python} -m venv "$1/venv"
. "$1/venv/bin/activate"
pip install -q torch=={torch} torch-npu==2.13.0
pip install -q -r "$1/src/mindspeed/requirements.txt" {extra}
pip install -q --no-deps -e "$1/src/mindspeed"
"""


@dataclass(frozen=True)
class Case:
    """What both build, and from where. ``refs`` are of Megatron-LM and MindSpeed."""

    env: dict[str, str]
    mirrors: tuple[Path, Path]
    arguments: list[str]
    refs: tuple[str, str]

    def setup(self, prefix: Path) -> None:
        done = subprocess.run(
            [small_world.PROGRAM, *self.arguments, "--prefix", prefix, "-q"],
            check=False,
            capture_output=True,
            text=True,
            env=self.env,
        )
        if not (prefix / "current" / "ascend-doctor.lock").is_file():
            raise SystemExit(done.stderr)

    def by_hand(self, folder: Path) -> None:
        torch = "2.13.0+cpu" if os.uname().machine == "x86_64" else "2.13.0"
        needs = "attrs cffi decorator protobuf psutil pyyaml requests scipy sympy absl-py"
        text = _SCRIPT.format(
            megatron=self.refs[0],
            mindspeed=self.refs[1],
            python=sys.executable,
            torch=torch,
            extra=needs,
        )
        subprocess.run(
            ["/bin/sh", "-c", text, "sh", folder, *self.mirrors], check=True, env=self.env
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=3)
    options.add_argument("--again", type=int, default=9)
    options.add_argument("--smoke", action="store_true", help="the smallest run")
    options.add_argument("--megatron-lm", type=Path, metavar="DIR")
    options.add_argument("--mindspeed", type=Path, metavar="DIR")
    options.add_argument("--finished", type=Path, metavar="PREFIX")
    options.add_argument("--git-mirror", metavar="URL_OR_DIR")
    given = options.parse_args()
    if given.smoke:
        given.pairs = given.again = 1
    if given.finished:
        _tell_second(partial(_set_up_again, given.finished, given.git_mirror), given.again)
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        if given.megatron_lm and given.mindspeed:
            world = small_world.make_upstream(root / "world", given.megatron_lm, given.mindspeed)
        else:
            world = small_world.make(root / "world")
        case = _case(world)
        ratios, shares = [], []
        for number in range(given.pairs):
            ours, theirs = root / "ours", root / "theirs"
            runs: list[tuple[Path, Callable[[Path], None]]] = [
                (ours, case.setup),
                (theirs, case.by_hand),
            ]
            seconds = {place: _timed(partial(run, place)) for place, run in runs[:: (-1) ** number]}
            data = _git_bytes(ours), _git_bytes(theirs)
            ratios.append(seconds[ours] / seconds[theirs])
            shares.append(data[0] / data[1])
            print(
                f"fresh: {seconds[ours]:.1f} s beside {seconds[theirs]:.1f} s by hand; git data "
                f"{data[0] / 2**20:.1f} MiB beside {data[1] / 2**20:.1f} MiB"
            )
            if number + 1 < given.pairs:
                shutil.rmtree(ours)
            shutil.rmtree(theirs)
        second = _tell_second(partial(case.setup, ours), given.again)
    print(f"fresh, median ratio of times: {statistics.median(ratios):.2f} (at most 1)")
    print(f"fresh, largest share of git data: {max(shares):.3f} (at most 0.5)")
    print(f"again, ratio to the last fresh setup: {second / seconds[ours]:.3f}")


def _tell_second(run: Callable[[], None], times: int) -> float:
    began = _cpu_seconds()
    again = [_timed(run) for _ in range(times)]
    busy = (_cpu_seconds() - began) / max(1, times)
    second = statistics.median(again)
    print(f"again, median: {second:.2f} s (at most 1.5), {busy:.2f} s of it on a CPU")
    return second


def _set_up_again(prefix: Path, mirror: str | None) -> None:
    """What built the stack in use, with the level that it was proven at."""
    lock = locks.read(prefix / "current")
    proven = lock.proof.level if lock.proof else 0
    again = [f"--{name}={word}" for name, value in lock.wish.items() for word in value.split()]
    more = [f"--git-mirror={mirror}"] if mirror else []
    done = subprocess.run(
        [
            *(small_world.PROGRAM, "setup", *again, *more, "--prefix", prefix),
            *("--python", os.path.realpath(prefix / "current/venv/bin/python")),
            *("--prove", str(proven), "--yes"),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    steps = [line for line in done.stderr.splitlines() if line.startswith(("built", "repaired"))]
    if done.returncode or steps:
        raise SystemExit(f"this was no second setup: {steps or done.stderr}")


def _case(world: small_world.World) -> Case:
    return Case(
        env=world.env,
        mirrors=(world.mirrors / "Megatron-LM", world.mirrors / "MindSpeed"),
        arguments=[
            *("setup", "--megatron", "0.15.3", "--matrix", str(world.rows)),
            *("--git-mirror", str(world.mirrors), "--python", sys.executable, "--yes"),
            *("--prove", "0"),  # the wheels of the small world hold nothing that could be run
        ],
        refs=("core_v0.15.3", "core_r0.15.3"),
    )


def _cpu_seconds() -> float:
    """What all ended children of this process have taken; a loaded machine does not lengthen it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _timed(run: Callable[[], None]) -> float:
    start = time.monotonic()
    run()
    return time.monotonic() - start


def _git_bytes(folder: Path) -> int:
    """Bytes of all object stores below a folder."""
    return sum(
        file.stat().st_size
        for file in folder.rglob("*")
        if file.is_file() and "objects" in file.parts and "venv" not in file.parts
    )


if __name__ == "__main__":
    main()
