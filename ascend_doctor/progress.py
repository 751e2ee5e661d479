"""How far long work has come, on stderr: a live display on a terminal, plain lines elsewhere.

Nothing is written to stdout, and nothing at all where it is to be quiet. It weighs probes by
their usual seconds, which rich.progress, whose tasks are all alike, cannot.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ascend_doctor.language import say
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.probing.request import ProbeRequest

_REFRESH = 8
# As many ranks as a machine has NPUs; more would push the rest off the screen.
_ROWS = 16
_BAR = 24
NOUNS = PROBES, STEPS, NODES, RUNS = ("probes", "steps", "nodes", "runs")
# The share of all weights that has to be done before it tells the pace of the rest.
_BASIS = 0.1
_MINUTE, _HOUR = 60, 3600
# Seconds of silence after which a person wonders.
_SILENCE = 3.0


class Tasks:
    """What is to be done, how much of it is done, and how long the rest takes.

    A task's weight compares it with the others, its ``certain`` seconds are known beforehand. The
    estimate takes the weights that are left at the pace of those that are done, so there is none
    before enough of them are, and none where a task that is left has no weight.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = clock()
        self._weights: dict[str, float] = {}
        self._certain: dict[str, float] = {}
        self._running: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self.all_known = False

    def expect(
        self, weights: Mapping[str, float], certain: Mapping[str, float] | None = None
    ) -> None:
        """Tasks that are to come; a weight of 0 is not known."""
        self.all_known = True
        self._weights.update(weights)
        self._certain.update(certain or {})

    def begin(self, name: str) -> None:
        """A task begins, or begins again; one that nobody expected counts from now on."""
        self._weights.setdefault(name, 0.0)
        self._seconds.pop(name, None)
        self._running[name] = self._clock()

    def end(self, name: str) -> None:
        """A task has ended; one that never began took no time, and says nothing of the pace."""
        self._weights.setdefault(name, 0.0)
        begin = self._running.pop(name, None)
        self._seconds[name] = 0.0 if begin is None else self._clock() - begin
        if begin is None:
            self._weights[name] = self._certain[name] = 0.0

    def pass_over(self, names: Iterable[str]) -> None:
        """Those of these tasks that have not begun are not to come any more."""
        for name in names:
            if name not in self._running and name not in self._seconds:
                self._weights.pop(name, None)
                self._certain.pop(name, None)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._begin

    @property
    def done(self) -> int:
        return len(self._seconds)

    @property
    def total(self) -> int:
        return len(self._weights)

    @property
    def running(self) -> list[str]:
        """The tasks that have begun and not ended."""
        return list(self._running)

    @property
    def left(self) -> float | None:
        """Seconds until the end, as far as the tasks that have ended tell; else None."""
        ended = {name: self._weights[name] for name in self._seconds if self._weights[name]}
        pending = [name for name in self._weights if name not in self._seconds]
        known = all(self._weights[name] for name in pending)
        if not known or not ended or sum(ended.values()) < _BASIS * sum(self._weights.values()):
            return None
        certain = sum(self._certain.get(name, 0.0) for name in ended)
        pace = max(sum(self._seconds[name] for name in ended) - certain, 0.0) / sum(ended.values())
        return sum(self._estimate(name, pace) for name in pending)

    def _estimate(self, name: str, pace: float) -> float:
        begin = self._running.get(name)
        since = 0.0 if begin is None else self._clock() - begin
        return max(pace * self._weights[name] + self._certain.get(name, 0.0) - since, 0.0)


class ProgressBar:
    """Tasks with a bar on a terminal, lines elsewhere, nothing if ``quiet``.

    ``noun`` says in the plural what is counted; ``detail`` draws what runs now, ``rate`` times a
    second. A terminal that cannot move its cursor has lines, too.
    """

    def __init__(
        self,
        noun: str,
        *,
        quiet: bool = False,
        console: Console | None = None,
        detail: Callable[[], Sequence[RenderableType]] = tuple,
        rate: float = _REFRESH,
    ) -> None:
        self.tasks = Tasks()
        self._rate = rate
        self.quiet = quiet
        self._noun = noun
        self._console = console or Console(file=sys.stderr, markup=False, highlight=False)
        self._detail = detail
        self._live: Live | None = None

    @property
    def moves(self) -> bool:
        """Whether there is a terminal on which a display can move."""
        console = self._console
        return not self.quiet and console.is_terminal and not console.is_dumb_terminal

    def __enter__(self) -> ProgressBar:  # noqa: PYI034 - Self is newer than Python 3.10
        if self.moves:
            self._live = Live(
                console=self._console,
                transient=True,
                refresh_per_second=self._rate,
                redirect_stdout=False,
                redirect_stderr=False,
                get_renderable=self.draw,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def line(self, text: str, *, always: bool = False) -> None:
        """A line where nothing moves; ``always``: above what moves, too, to stay there."""
        if not self.quiet and (always or self._live is None):
            self._console.print(Text(one_line(text)), soft_wrap=True)

    def draw(self) -> Group:
        """The bar, and what runs now."""
        return Group(Text(self.headline(), no_wrap=True, overflow="ellipsis"), *self._detail())

    def headline(self) -> str:
        """How much is done, since when, and how long it will still take where that is known."""
        tasks = self.tasks
        parts = [self.count(), show_seconds(tasks.elapsed)]
        if tasks.left is not None and tasks.done < tasks.total:
            parts.append(say(f"about {show_seconds(tasks.left)} left"))
        if not tasks.all_known:
            return "  ".join(parts)
        full = _BAR * tasks.done // max(tasks.total, 1)
        filled, empty = ("#", ".") if self._console.options.ascii_only else ("█", "░")
        return "  ".join((filled * full + empty * (_BAR - full), *parts))

    def count(self) -> str:
        """How many tasks have ended, of all where somebody knows them."""
        done, noun = self.tasks.done, say(self._noun)
        return f"{done}/{self.tasks.total} {noun}" if self.tasks.all_known else f"{done} {noun}"


_OwnDisplay = TypeVar("_OwnDisplay", bound="Display")


class Display:
    """A bar for as long as it is entered."""

    def __init__(self, progress: ProgressBar) -> None:
        self._progress = progress

    def __enter__(self: _OwnDisplay) -> _OwnDisplay:  # noqa: PYI019 - Self is newer than Python 3.10
        self._progress.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__()


class TaskDisplay(Display):
    """Tasks one after the other that say nothing themselves; ``noun`` says what is counted.

    On a terminal where nothing moves, a line says what runs once it has run for some seconds;
    nobody waits at a pipe.
    """

    def __init__(
        self,
        noun: str,
        tasks: Sequence[str],
        *,
        quiet: bool = False,
        console: Console | None = None,
        silence: float = _SILENCE,
    ) -> None:
        console = console or Console(file=sys.stderr, markup=False, highlight=False)
        quiet = quiet or not console.is_terminal
        super().__init__(ProgressBar(noun, quiet=quiet, console=console, detail=self._rows))
        self._progress.tasks.expect(dict.fromkeys(tasks, 0.0))
        self._silence = silence

    @contextlib.contextmanager
    def run(self, task: str) -> Iterator[None]:
        """Enclose a task."""
        self._progress.tasks.begin(task)
        text = f"{say(task)} ..."
        timer = threading.Timer(self._silence, self._progress.line, [text])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._progress.tasks.end(task)

    def _rows(self) -> list[RenderableType]:
        return [_row(say(task)) for task in self._progress.tasks.running]


class ProbeDisplay(Display):
    """Which probes run, in which stages their ranks are, and which ended.

    ``runs`` are the runs that have ended, for whoever interrupts.
    """

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        super().__init__(ProgressBar(PROBES, quiet=quiet, console=console, detail=self._rows))
        self.runs: list[ProbeRun] = []
        self._request: ProbeRequest | None = None
        self._stages: dict[int, tuple[str, float]] = {}
        self._shown_stages: set[str] = set()
        self._ended: dict[str, str] = {}
        self._start = 0.0

    def expect(self, requests: Sequence[ProbeRequest]) -> None:
        """Those that are to run."""
        certain = {request.probe: _MINUTE * request.minutes for request in requests}
        weights = {request.probe: request.usual * _crowding(request) for request in requests}
        self._progress.tasks.expect(weights, certain)

    def started(self, request: ProbeRequest) -> None:
        self._request = request
        self._stages = {}
        self._shown_stages = set()
        self._start = time.monotonic()
        self._progress.tasks.begin(request.probe)
        count = len(request.ranks)
        ranks = f"{count} ranks" if count > 1 else "one process"
        text = f"{request.probe}: {ranks} on {request.device}, at most {request.deadline:.0f} s"
        self._progress.line(say(text))

    def entered(self, rank: int, stage: str, seconds: float) -> None:
        self._stages[rank] = (stage, seconds)
        if stage not in self._shown_stages:
            self._shown_stages.add(stage)
            if self._request is not None:
                self._progress.line(f"{self._request.probe}: {stage} ({seconds:.1f} s)")

    def ended(self, run: ProbeRun) -> None:
        self.runs.append(run)
        self._request = None
        tasks = self._progress.tasks
        tasks.end(run.probe)
        count = f" ({self._progress.count()})" if tasks.all_known else ""
        if run.not_started:
            self._ended[run.probe] = "not started"
            self._progress.line(say(f"{run.probe}: not started: {run.not_started}") + count)
        else:
            self._ended[run.probe] = "passed" if run.sound else "failed"
            seconds = f"{run.seconds:.1f} s"
            self._progress.line(
                say(
                    f"{run.probe}: deadline passed after {seconds}"
                    if run.timed_out
                    else f"{run.probe}: ended after {seconds}"
                )
                + count
            )

    def _rows(self) -> list[RenderableType]:
        ended: dict[str, list[str]] = {"passed": [], "failed": [], "not started": []}
        for probe, end in self._ended.items():
            ended[end].append(probe)
        rows: list[RenderableType] = [
            _row(f"{say(word)}: {', '.join(names)}") for word, names in ended.items() if names
        ]
        if request := self._request:
            elapsed = time.monotonic() - self._start
            state = f"{elapsed:.0f} / {request.deadline:.0f} s"
            rows += [_row(f"{request.probe}: {request.device}  {state}"), self._table(request)]
        return rows

    def _table(self, request: ProbeRequest) -> Table:
        """The ranks, or from 17 ranks on how many are in each stage."""
        elapsed = time.monotonic() - self._start
        table = Table(box=None, pad_edge=False)
        if len(request.ranks) > _ROWS:
            table.add_column(say("ranks"), justify="right")
            table.add_column(say("stage"))
            counted = Counter(stage for stage, _ in self._stages.values())
            counted[say("not started")] = len(request.ranks) - len(self._stages)
            for stage, count in counted.items():
                if count:
                    table.add_row(str(count), Text(one_line(stage)))
            return table
        table.add_column(say("rank"), justify="right")
        table.add_column(say("stage"))
        table.add_column(say("for"), justify="right")
        for rank in request.ranks:
            stage, since = self._stages.get(rank, (say("not started"), elapsed))
            table.add_row(str(rank), Text(one_line(stage)), f"{max(elapsed - since, 0.0):.0f} s")
        return table


def _crowding(request: ProbeRequest) -> float:
    """How many ranks share a core, where the ranks compute on cores."""
    cores = os.cpu_count() or 1
    return max(1.0, len(request.ranks) / cores) if request.device == "cpu" else 1.0


class NodeDisplay(Display):
    """Which of the nodes of a fleet have written their reports, a file each, into a folder."""

    def __init__(self, folder: str, nodes: int, *, seconds: float, quiet: bool) -> None:
        super().__init__(ProgressBar(NODES, quiet=quiet, detail=self._look, rate=1))
        self._folder = folder
        self._seconds = seconds
        if nodes:
            self._progress.tasks.expect({str(number): 0.0 for number in range(nodes)})

    def __enter__(self) -> NodeDisplay:  # noqa: PYI034 - as above
        self._progress.line(say(f"The nodes are checked, for at most {self._seconds:g} s."))
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._look()
        self._progress.line(
            f"{self._progress.count()}, {show_seconds(self._progress.tasks.elapsed)}"
        )

    def _look(self) -> list[RenderableType]:
        with contextlib.suppress(OSError):
            reports = sum(name.endswith(".json") for name in os.listdir(self._folder))
            for number in range(reports):
                self._progress.tasks.end(str(number))
        return []


def _row(text: str) -> Text:
    return Text(one_line(text), no_wrap=True, overflow="ellipsis")


def show_seconds(seconds: float) -> str:
    """A span of time in the two units that fit."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
