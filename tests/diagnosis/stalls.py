"""Stalls on simulated NPUs in Megatron's layouts, made from a seed, under `ascend-doctor run`.

`python -m tests.diagnosis.stalls FOLDER` runs them and says whether the rank, the group and the
source line are right. What is right is known by construction: the comments "stalls: KIND" of
`programs/stall.py`. What is simulated is CANN, the NPUs, and nodes: launches of their own on one
machine, each under its own `ascend-doctor run`, whose folders are read together. `--py-spy DIR` has
half of them with py-spy from there on PATH.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ascend_doctor.diagnosis.stall_files import read_stall_files
from ascend_doctor.diagnosis.stall_result import Stall
from ascend_doctor.simulator import build
from tests import forks
from tests.programs import free_ports

PROGRAM = Path(__file__).with_name("programs") / "stall.py"
DOCTOR = Path(sys.executable).with_name("ascend-doctor")
QUIET = 12  # seconds without progress; the default of `run` is 60
PATIENCE = 120  # seconds, and as many again for each rank: they import one after another
PER_RANK = 20
TRIES = 3  # another process may take the port of a launch before it listens
KINDS = ("sleep", "stop", "lock", "order", "group", "peer", "loader", "checkpoint", "node")
PLACES = ("batch", "forward", "backward", "finish")  # of a step, for the first five kinds
GROUPS = {"peer": "PIPELINE_MODEL_PARALLEL_GROUP", "checkpoint": "default_pg"}

Mark = Literal["right", "could not tell", "wrong", "not known"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Sizes of Megatron's groups; the rest of the world is data parallel."""

    world: int
    tp: int = 1
    cp: int = 1
    ep: int = 1
    pp: int = 1

    def __str__(self) -> str:
        return f"tp{self.tp}-cp{self.cp}-ep{self.ep}-pp{self.pp}"

    def next_group(self, point: str) -> str:
        """A rank's next group shared with others, from ``point`` on."""
        if point == "finish" and self.world > self.tp * self.pp:
            return "DATA_PARALLEL_GROUP_WITH_CP"
        if point == "finish":
            return "MODEL_PARALLEL_GROUP"
        if self.tp > 1:
            return "TENSOR_MODEL_PARALLEL_GROUP"
        if point != "batch" and self.cp > 1:
            return "CONTEXT_PARALLEL_GROUP"
        if point != "batch" and self.ep > 1:
            return "EXPERT_MODEL_PARALLEL_GROUP"
        return "PIPELINE_MODEL_PARALLEL_GROUP"


LAYOUTS = {
    4: (
        Layout(world=4, tp=2, pp=2),
        Layout(world=4, tp=2),
        Layout(world=4, pp=4),
        Layout(world=4, pp=2, ep=2),
        Layout(world=4, tp=2, cp=2),
    ),
    8: (
        Layout(world=8, tp=2, pp=2),
        Layout(world=8, tp=2, pp=4),
        Layout(world=8, tp=2, cp=2, pp=2),
        Layout(world=8, tp=2, ep=2, pp=2),
        Layout(world=8, tp=4, ep=4),
        Layout(world=8, pp=4, cp=2),
    ),
    16: (
        Layout(world=16, tp=2, cp=2, ep=2, pp=2),
        Layout(world=16, tp=4, pp=2, ep=4),
        Layout(world=16, tp=2, pp=4),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    kind: str
    guilty: tuple[int, ...]
    step: int
    layout: Layout
    nodes: int = 1
    # Whether py-spy is on PATH; only it reads a stopped process's stack.
    spy: bool = False
    point: str = "batch"
    quiet: int = QUIET

    @property
    def name(self) -> str:
        ranks = ",".join(map(str, self.guilty))
        nodes = f"-nodes{self.nodes}" if self.nodes > 1 else ""
        name = f"{self.kind}-{ranks}-{self.step}-world{self.layout.world}-{self.layout}{nodes}"
        name += f"-quiet{self.quiet}" * (self.quiet != QUIET)
        return name + "-spy" * self.spy + f"-{self.point}" * (self.point != "batch")

    @property
    def line(self) -> str:
        """The guilty one's position or wrong call; for a peer, Megatron's own code."""
        if self.kind == "peer":
            return "p2p_communication.py"
        rows = PROGRAM.read_text("utf-8").splitlines()
        return next(
            f"{PROGRAM}:{number} in "
            for number, row in enumerate(rows, 1)
            if row.endswith(f"# stalls: {'stop' if self.kind == 'node' else self.kind}")
        )

    @property
    def groups(self) -> set[str]:
        """In one of these a rank waits for the guilty one.

        A gone node may hold a whole tensor group: then the stage beside it waits, or the ranks with
        the same part of the model.
        """
        first = self.layout.next_group(self.point)
        if self.kind == "node":
            data = {"DATA_PARALLEL_GROUP_WITH_CP", "CONTEXT_PARALLEL_GROUP"}
            return {first, "PIPELINE_MODEL_PARALLEL_GROUP", *data}
        if self.point == "finish":  # the first and the last stage share the embedding
            return {first, "EMBEDDING_GROUP"}
        return {GROUPS.get(self.kind, first)}

    def node_of(self, rank: int) -> int:
        return rank * self.nodes // self.layout.world


def draw(
    seed: int,
    count: int,
    *,
    sizes: Sequence[int] = (4, 8),
    spies: bool,
    places: bool = False,
    quiet: int = QUIET,
) -> list[Case]:
    """All different, every kind about equally often."""
    chance = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        kind = KINDS[len(cases) % len(KINDS)]
        layouts = LAYOUTS[chance.choice(sizes)]
        layout = chance.choice([choice for choice in layouts if kind != "peer" or choice.pp > 1])
        nodes = chance.choice([2, 2, 4] if kind == "node" else [1, 1, 1, 2])
        guilty: tuple[int, ...] = (chance.randrange(layout.world),)
        if kind == "node":
            size = layout.world // nodes
            guilty = tuple(range(guilty[0] // size * size, (guilty[0] // size + 1) * size))
        if kind == "peer":  # the last stage has nobody to send to
            guilty = (guilty[0] % (layout.world - layout.world // layout.pp),)
        case = Case(
            kind=kind,
            guilty=guilty,
            step=chance.randrange(1, 6),
            layout=layout,
            nodes=nodes,
            spy=chance.random() < 0.5 and spies,
            point=chance.choice(PLACES) if places and kind in KINDS[:5] else "batch",
            quiet=quiet,
        )
        if case not in cases:
            cases.append(case)
    return cases


def simulate(python: Path) -> dict[str, str]:
    return build(python).environment(
        {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        soc="Ascend910B3",
        devices=max(LAYOUTS),
        memory_bytes=1 << 30,
    )


def make(case: Case, folder: Path, python: Path, env: Mapping[str, str]) -> tuple[Path, float]:
    """Run until the verdict; the folder with what was gathered, and the seconds."""
    path = folder / case.name
    seconds = 0.0
    for _ in range(TRIES):
        seconds = seconds or _make(case, path, python, env)
    (path / "seconds").write_text(f"{seconds:.0f}")
    return path / "gathered", seconds


def _make(case: Case, folder: Path, python: Path, env: Mapping[str, str]) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "reached").mkdir(parents=True)
    (folder / "gathered").mkdir()
    (port,) = free_ports()
    with contextlib.ExitStack() as stack:
        launches = [
            stack.enter_context(_launch(case, node, folder, python, env, port))
            for node in range(case.nodes)
        ]
        gone = case.node_of(case.guilty[0]) if case.kind == "node" else None
        alive = [node for node in range(case.nodes) if node != gone]
        errors = [folder / f"stderr-{node}" for node in alive]
        began, early = 0.0, [0] * len(errors)
        end = time.monotonic() + PATIENCE + PER_RANK * case.layout.world
        while all(launch.poll() is None for launch in launches) and time.monotonic() < end:
            time.sleep(0.5)
            if not began and (folder / "reached" / str(case.guilty[0])).exists():
                began, early = time.monotonic(), [_reports(log) for log in errors]
            if began and all(_reports(log) > old for log, old in zip(errors, early, strict=True)):
                break
        seconds = time.monotonic() - began if began else 0.0
        for node in alive:
            if (gathered := folder / f"run-{node}-stall").exists():  # else it never stalled
                shutil.copytree(gathered, folder / "gathered" / str(node))
        for path in folder.glob("run-*-stall/*/rank-*.json"):
            with contextlib.suppress(OSError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)  # and its helpers
        for launch in launches:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launch.wait(60)
            launch.kill()
    return seconds


def _launch(
    case: Case, node: int, path: Path, python: Path, env: Mapping[str, str], port: int
) -> subprocess.Popen[bytes]:
    argv = [
        str(DOCTOR), "run", "--anyway", "--only", "shared-memory", "--stall", str(case.quiet),
        "--log", str(path / f"run-{node}.log"), "--",
        str(python), "-m", "torch.distributed.run", f"--nnodes={case.nodes}",
        f"--node-rank={node}", "--master-addr=127.0.0.1", f"--master-port={port}",
        f"--nproc_per_node={case.layout.world // case.nodes}",
        str(PROGRAM),
        case.kind, ",".join(map(str, case.guilty)), str(case.step), str(case.layout), case.point,
    ]  # fmt: skip
    reached = {"HANG_REACHED": str(path / "reached")}
    with (path / f"stderr-{node}").open("wb") as log:
        return subprocess.Popen(argv, stdout=log, stderr=log, env={**env, **reached})


def _reports(errors: Path) -> int:
    return errors.read_bytes().count(b"to read what was gathered")


def judge(case: Case, stall: Stall | None) -> dict[str, Mark]:
    """Rank, group and source line. Of a gone node it is right that its ranks are unknown."""
    marks: dict[str, Mark] = dict.fromkeys(("rank", "group", "line"), "could not tell")
    if stall is None or not (stall.absent or case.kind == "node"):
        return marks
    accused = tuple(rank.rank for rank in stall.absent)
    groups = {waits.group for waits in stall.waiting if {*case.guilty} & {*waits.group_ranks}}
    marks["group"] = "right" if case.groups & groups else "wrong"
    if case.kind == "node":
        silent: Mark = "right" if stall.silent == case.guilty else "could not tell"
        return {**marks, "rank": "wrong" if accused else silent, "line": "not known"}
    marks["rank"] = "right" if accused == case.guilty else "wrong"
    line = stall.absent[0].call if case.kind in {"order", "group"} else stall.absent[0].line
    marks["line"] = "right" if case.line in line else "wrong"
    if case.kind == "stop" and not case.spy:
        marks["line"] = "not known"
    return marks


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seed", default=1)
@click.option("--count", default=20)
@click.option("--first", default=0, help="Only from this one on.")
@click.option("--size", "sizes", multiple=True, type=int, default=(4, 8), help="Ranks of a world.")
@click.option("--places", is_flag=True, help="In any place of a step, not in its batch alone.")
@click.option("--stall", "quiet", default=QUIET, help="Seconds without progress.")
@click.option("--at-once", default=3, help="So many jobs at the same time.")
@click.option("--py-spy", "spies", type=click.Path(path_type=Path), help="Folder with py-spy.")
@click.option("--again", is_flag=True, help="Judge what was gathered before; run nothing.")
@click.option("--forked", is_flag=True, help="Fork ranks from one process that has torch.")
@click.option("--by-kind", is_flag=True, help="Count each kind by itself.")
def main(  # noqa: PLR0913 - the options of the command
    folder: Path,
    *,
    seed: int,
    count: int,
    first: int,
    sizes: tuple[int, ...],
    places: bool,
    quiet: int,
    at_once: int,
    spies: Path | None,
    again: bool,
    forked: bool,
    by_kind: bool,
) -> None:
    python = Path(os.environ.get("ASCEND_DOCTOR_TEST_PYTHON", sys.executable))
    env = {} if again else simulate(python)
    folder.mkdir(parents=True, exist_ok=True)
    stack = contextlib.ExitStack()
    if forked and not again:
        # torch_npu reads this once, at import; `run` sets it for ranks, which are forked.
        armed = {**env, "TORCH_HCCL_TRACE_BUFFER_SIZE": "512"}
        python = stack.enter_context(forks.interpreter(python, folder, armed, "torch_npu"))
    drawn = draw(seed, count, sizes=sizes, spies=spies is not None, places=places, quiet=quiet)
    cases = drawn[first:]

    def run(case: Case) -> str:
        job_folder = folder / case.name
        if not again:
            path = f"{spies}{os.pathsep}{env['PATH']}" if case.spy else env["PATH"]
            make(case, folder, python, {**env, "PATH": path})
        elif not (job_folder / "seconds").exists():
            return ""
        stall = read_stall_files([str(job_folder / "gathered")]).judge()
        marks = judge(case, stall)
        for part, mark in marks.items():
            counts[part, case.kind if by_kind else ""][mark] += 1
        why = stall.undecided if stall else "nothing gathered"
        shown = ", ".join(f"{part} {mark}" for part, mark in marks.items())
        return f"{case.name:48} {(job_folder / 'seconds').read_text():>5} s  {shown}  {why}"

    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with stack, ThreadPoolExecutor(at_once) as pool:
        for done in as_completed([pool.submit(run, case) for case in cases]):
            if done.result():  # at once: what ran is known also where the rest never does
                click.echo(done.result())
                sys.stdout.flush()
    for (part, kind), marks_of in sorted(counts.items()):
        shown = ", ".join(f"{mark} {times}" for mark, times in marks_of.items())
        click.echo(f"{part} {kind}".rstrip() + f": {shown}")


if __name__ == "__main__":
    main()
