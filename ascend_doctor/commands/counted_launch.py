"""What a launch takes, counted in simulated runs at its true size: `plan --run` and `--sweep`."""

import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from ascend_doctor.checks.launch.launched_memory import LaunchedPlan
from ascend_doctor.commands.rehearsal import Rehearsal, count_launch
from ascend_doctor.commands.rehearsed_ranks import describe_memory, show_step, step_seconds
from ascend_doctor.diagnosis.job import JobOptions, read_job
from ascend_doctor.diagnosis.logs import find
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.planning.flags import layout_options
from ascend_doctor.planning.ranking import MARGIN, RankBudget, RankedLayout, choices
from ascend_doctor.planning.rules import LayoutQuery
from ascend_doctor.probing.keeper import SIGNALLED
from ascend_doctor.render.notices import notice
from ascend_doctor.shrinking.megatron import OF_LAYOUT
from ascend_doctor.shrinking.programs import TRUE_SIZE
from ascend_doctor.shrinking.true_size import TrueSize
from ascend_doctor.simulator.rank_records import RankRecord

# The second step has the optimizer's states beside the activations.
_STEPS = 2
_MAX_LOG = 1 << 28
_MAX_CLASSES = 4
_OUT_OF_MEMORY = re.compile(rb"NPU out of memory\.[^\n]*")
_INTERRUPTS = {SIGNALLED + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


class CountedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run on NPUs of ``memory`` bytes. ``uncounted``: why it has no figures.

    ``out_of_memory`` is torch_npu's own line; ``seconds`` are this machine's.
    """

    memory: int
    seconds: float
    ranks: tuple[RankRecord, ...] = ()
    out_of_memory: str = ""
    uncounted: str = ""
    interrupted: bool = False

    @property
    def reserved(self) -> int:
        """Bytes of the rank that took the most."""
        return max((rank.reserved for rank in self.ranks), default=0)

    @property
    def fits(self) -> bool | None:
        """None if it is unknown, or too little is left for what a run does not count."""
        if self.out_of_memory:
            return False
        near = self.reserved * (1 + MARGIN) > self.memory
        return None if self.uncounted or near else True

    def describe(self) -> Iterator[str]:
        if self.ranks:
            yield from describe_memory(self.ranks, self.memory, _MAX_CLASSES)
        if seconds := step_seconds(self.ranks):
            yield show_step(seconds)


class TriedLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A layout in the place of the launch's; ``run`` is None if it was not tried."""

    name: str
    estimated: RankedLayout
    micro_batch: int
    options: tuple[str, ...]
    run: CountedRun | None = None

    def order(self) -> tuple[object, ...]:
        """What fits first, then the faster step, then the smaller memory."""
        if self.run is None or self.run.uncounted:
            return (3 + (self.run is None),)
        fits = {True: 0, None: 1, False: 2}[self.run.fits]
        return fits, step_seconds(self.run.ranks), self.run.reserved


def list_layouts(plan: LaunchedPlan, where: RankBudget, most: int) -> tuple[TriedLayout, ...]:
    """The layouts that `plan` ranks first for a launch, also with half or twice its micro-batch."""
    ranked: list[tuple[int, TriedLayout]] = []
    own = plan.run.micro_batch
    for micro_batch in filter(None, (own, own * 2, own // 2)):
        run = msgspec.structs.replace(plan.run, micro_batch=micro_batch)
        asked = LayoutQuery(model=plan.model, run=run)
        for row, each in enumerate(choices(asked, plan.layout.npus, where)):
            again = ", all activations computed again" * each.memory.recompute
            layout = TriedLayout(
                name=f"{each.layout.name}, {micro_batch} x {run.sequence} tokens{again}",
                estimated=each,
                micro_batch=micro_batch,
                options=tuple(" ".join(layout_options(asked, each)).split()),
            )
            ranked.append((row + (micro_batch != own), layout))
    return tuple(layout for _, layout in sorted(ranked, key=lambda pair: pair[0])[:most])


def count(
    launch: Sequence[str],
    layouts: Sequence[TriedLayout],
    prepare: Callable[[], Rehearsal],
    seconds: float,
    *,
    alone: bool,
) -> tuple[CountedRun | None, tuple[TriedLayout, ...]]:
    """Run a launch if ``alone``, then with each layout; gives the layouts by what was counted.

    All runs together end within ``seconds``. Raises DataError and DoctorError if none can begin.
    """
    ends = time.monotonic() + seconds
    sizes = {"the launch": TrueSize()} if alone else {}
    for each in layouts:
        sizes[each.name] = TrueSize(words=each.options, without=tuple(OF_LAYOUT))
    runs: list[CountedRun | None] = []
    for name, size in sizes.items():
        left = (ends - time.monotonic()) / (len(sizes) - len(runs))
        if left < 1 or (runs and runs[-1] and runs[-1].interrupted):
            break
        notice(f"simulated run of {name}, for at most {left:.0f} s")
        runs.append(_run(prepare(), launch, size, left))
    runs += [None] * (len(sizes) - len(runs))
    first = runs.pop(0) if alone else None
    tried = map(lambda each, run: msgspec.structs.replace(each, run=run), layouts, runs)
    return first, tuple(sorted(tried, key=TriedLayout.order))


def _run(prepared: Rehearsal, launch: Sequence[str], size: TrueSize, seconds: float) -> CountedRun:
    start = time.monotonic()
    log = str(prepared.scratch / "run.log")
    size = msgspec.structs.replace(size, each=1, steps=_STEPS)
    code, ranks = count_launch(prepared, launch, size, log, seconds)
    took = time.monotonic() - start
    content = read_bytes(log, _MAX_LOG)
    line = _OUT_OF_MEMORY.search(content)
    steps = min((rank.steps for rank in ranks), default=0)
    why = ""
    if took >= seconds and steps < _STEPS:
        why = f"{_STEPS} steps take longer than {seconds:.0f} s"
    elif size.words and TRUE_SIZE.encode() not in content:
        why = "its options cannot be replaced: torchrun is not started by its name"
    elif not line and steps < _STEPS - (code == 0):
        why = _explain(log, code)
    return CountedRun(
        memory=prepared.server.memory,
        seconds=round(took, 1),
        ranks=tuple(ranks),
        out_of_memory=line[0].decode("utf-8", "replace") if line else "",
        uncounted=why,
        interrupted=code in _INTERRUPTS and took < seconds,
    )


def _explain(log: str, code: int) -> str:
    if not code:
        return "no rank made a step on an NPU"
    verdict = read_job(Catalog(), JobOptions(exit_status=code)).diagnose(find((log,))[0]).verdict
    return verdict.reason if verdict else f"it ended with {code}"
