"""The suite of level 3 on CPU ranks against one bare launch with the same imports.

    python benchmarks/level3.py --python PATH [--ranks N] [--smoke]

PATH is an interpreter with torch and megatron-core. A bare launch imports what the probes import
and joins the group of all ranks. The work of a probe is the time in its own stages, without imports
and rendezvous. The suite should take less than twice the bare launch plus the work.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import msgspec

from ascend_doctor.matrix.catalog import folder
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.launching import launch_together
from ascend_doctor.probing.request import ProbeRequest
from ascend_doctor.probing.schedule import plan, run_all

PATIENCE = 900.0  # a loaded machine is slow on both sides
SHARED = ("import", "device", "rendezvous", "megatron", "import the model", "teardown")
BARE = """
import sys
sys.path.insert(0, {probes!r})
import _layouts, _megatron, _probe

def body(probe):
    torch = probe.torch()
    _megatron.load(probe, torch)
    _megatron.prepare_training(probe, torch)
    probe.join()
    with probe.stage("import the model"):
        _probe.neighbour("_tiny_training")

_probe.main(body, name="bare")
"""


def suite(python: str, ranks: int) -> list[ProbeRequest]:
    """The probes of level 3 that share a launch, without those of lower levels that they need."""
    several = [one for one in plan(3, device="cpu", nproc=ranks, python=python) if one.torchrun]
    names = {one.probe for one in several}
    return [
        msgspec.structs.replace(
            one,
            needs=tuple(need for need in one.needs if need in names),
            deadline=PATIENCE,
        )
        for one in several
    ]


def bare(request: ProbeRequest) -> float:
    """Seconds of a launch that imports and joins, and does nothing."""
    with tempfile.TemporaryDirectory() as place:
        script = Path(place, "bare.py")
        script.write_text(BARE.format(probes=str(folder("probes"))), "utf-8")
        alone = msgspec.structs.replace(request, probe="bare", script=str(script))
        (run,) = launch_together((alone,))
    if not run.sound:
        raise SystemExit(f"the bare launch failed: {run.output}")
    return run.seconds


def work(run: ProbeRun) -> float:
    """Seconds that the slowest rank spent on what only this probe does."""
    return max(
        sum(spent for stage, spent in one.stages.items() if stage not in SHARED)
        for one in run.ranks
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    options = parser.parse_args()
    ranks = 2 if options.smoke else options.ranks
    requests = suite(options.python, ranks)
    if options.smoke:
        requests = [one for one in requests if one.probe == "allreduce"]
    empty = bare(requests[0])
    start = time.monotonic()
    runs = run_all(requests)
    whole = time.monotonic() - start
    own = 0.0
    for run in runs:
        outcome = "skipped" if any(one.skipped for one in run.ranks) else "sound"
        outcome = outcome if run.sound else "NOT SOUND"
        again = f", {run.failed_after}" if run.failed_after else ""
        own += work(run)
        print(f"{run.probe:24} {run.seconds:7.2f} s, own work {work(run):6.2f} s  {outcome}{again}")
    limit = 2 * empty + own
    print(f"{ranks} ranks: bare launch {empty:.1f} s, own work {own:.1f} s, suite {whole:.1f} s")
    print(f"suite over twice the bare launch and the work: {whole / limit:.2f}")


if __name__ == "__main__":
    main()
