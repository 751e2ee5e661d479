"""How far long work has come, on stderr: a bar of rich on a terminal, plain lines elsewhere.

Nothing is written to stdout, and nothing at all where it is to be quiet.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from ascend_doctor.language import say
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.request import ProbeRequest, ProbeWatch
from ascend_doctor.render.plain import one_line

_REFRESH, _BAR = 8, 12
PROBES, STEPS, NODES, RUNS = "probes", "steps", "nodes", "runs"


_OwnBar = TypeVar("_OwnBar", bound="ProgressBar")


class _NowColumn(ProgressColumn):
    def __init__(self, now: Callable[[], str]) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis", ratio=1))
        self._now = now

    def render(self, task: Task) -> Text:
        del task
        return Text(one_line(self._now()))


class ProgressBar:
    """Tasks with a bar on a terminal, lines elsewhere, nothing if ``quiet``.

    ``noun`` is the plural of what is counted; ``now`` says what is done and what runs, ``rate``
    times a second. A terminal that cannot move its cursor gets lines.
    """

    def __init__(
        self,
        noun: str,
        *,
        quiet: bool = False,
        console: Console | None = None,
        now: Callable[[], str] | None = None,
        rate: float = _REFRESH,
    ) -> None:
        self.quiet = quiet
        self.running: list[str] = []
        self.all_known = False
        self._names: set[str] = set()
        self._ended: set[str] = set()
        self._noun = noun
        self._start = time.monotonic()
        self._console = console or Console(file=sys.stderr, markup=False, highlight=False)
        self._bar = Progress(
            *(BarColumn(_BAR), TimeElapsedColumn(), _NowColumn(now or self.now)), expand=True,
            console=self._console, refresh_per_second=rate, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None)
        self._moving = False

    @property
    def moves(self) -> bool:
        console = self._console
        return not self.quiet and console.is_terminal and not console.is_dumb_terminal

    def __enter__(self: _OwnBar) -> _OwnBar:  # noqa: PYI019 - Self is newer than Python 3.10
        self._moving = self.moves
        if self._moving:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._moving:
            self._bar.stop()
        self._moving = False

    def now(self) -> str:
        """What is done and what runs, in one line."""
        return " · ".join((self.count(), *map(say, self.running)))

    def add(self, names: Iterable[str]) -> None:
        self.all_known = True
        self._names.update(names)
        self._show_count()

    def begin(self, name: str) -> None:
        """Begin a task, or begin it again; an unknown one counts from now on."""
        self._names.add(name)
        self._ended.discard(name)
        if name not in self.running:
            self.running.append(name)
        self._show_count()

    def end(self, name: str) -> None:
        """End a task, even if it never began."""
        self._names.add(name)
        self._ended.add(name)
        if name in self.running:
            self.running.remove(name)
        self._show_count()

    def drop(self, names: Iterable[str]) -> None:
        self._names -= {*names} - self._ended - {*self.running}
        self._show_count()

    def count(self) -> str:
        done, noun = len(self._ended), say(self._noun)
        return f"{done}/{len(self._names)} {noun}" if self.all_known else f"{done} {noun}"

    def _show_count(self) -> None:
        self._bar.update(
            self._task,
            total=len(self._names) if self.all_known else None,
            completed=len(self._ended),
        )

    def line(self, text: str) -> None:
        if not self.quiet and not self._moving:
            self._console.print(Text(one_line(text)), soft_wrap=True)


class TaskDisplay(ProgressBar):
    """Tasks one after the other that print nothing; ``noun`` says what is counted.

    On a terminal where nothing moves, a line names a task, but not in a pipe.
    """

    def __init__(
        self,
        noun: str,
        tasks: Sequence[str],
        *,
        quiet: bool = False,
        console: Console | None = None,
    ) -> None:
        console = console or Console(file=sys.stderr, markup=False, highlight=False)
        quiet = quiet or not console.is_terminal
        super().__init__(noun, quiet=quiet, console=console)
        self.add(tasks)

    @contextlib.contextmanager
    def run(self, task: str) -> Iterator[None]:
        self.begin(task)
        self.line(f"{say(task)} ...")
        try:
            yield
        finally:
            self.end(task)


class ProbeDisplay(ProgressBar, ProbeWatch):
    """The running probes, the stages of their ranks, and the ended probes.

    ``runs`` are the runs that have ended, for an interrupt.
    """

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        super().__init__(PROBES, quiet=quiet, console=console)
        self.runs: dict[str, ProbeRun] = {}
        self._request: ProbeRequest | None = None
        self._stages: dict[int, str] = {}
        self._shown_stages: set[str] = set()

    def expect(self, requests: Sequence[ProbeRequest]) -> None:
        self.add(request.probe for request in requests)

    def started(self, request: ProbeRequest) -> None:
        self._request = request
        self._stages, self._shown_stages = {}, set()
        self.begin(request.probe)
        count = len(request.ranks)
        ranks = f"{count} ranks" if count > 1 else "one process"
        text = f"{request.probe}: {ranks} on {request.device}, at most {request.deadline:.0f} s"
        self.line(say(text))

    def entered(self, rank: int, stage: str, seconds: float) -> None:
        self._stages[rank] = stage
        if stage not in self._shown_stages and self._request is not None:
            self._shown_stages.add(stage)
            self.line(f"{self._request.probe}: {stage} ({seconds:.1f} s)")

    def ended(self, run: ProbeRun) -> None:
        self.runs[run.probe] = run
        self._request = None
        self.end(run.probe)
        count = f" ({self.count()})" if self.all_known else ""
        if run.not_started:
            self.line(say(f"{run.probe}: not started: {run.not_started}") + count)
            return
        seconds = f"{run.seconds:.1f} s"
        self.line(
            say(
                f"{run.probe}: deadline passed after {seconds}"
                if run.timed_out
                else f"{run.probe}: ended after {seconds}"
            )
            + count
        )

    def now(self) -> str:
        if not (request := self._request):
            return self.count()
        counted = Counter({say("not started"): len(request.ranks) - len(self._stages)})
        counted.update(self._stages.values())
        stages = ", ".join(f"{count} {stage}" for stage, count in counted.items() if count)
        return f"{self.count()} · {request.probe} ({request.device}): {stages}"


class NodeDisplay(ProgressBar):
    """Nodes of a fleet that have written their report files into a folder."""

    def __init__(self, folder: str, nodes: int, *, seconds: float, quiet: bool) -> None:
        super().__init__(NODES, quiet=quiet, rate=1)
        self._folder = folder
        self._seconds = seconds
        if nodes:
            self.add(map(str, range(nodes)))

    def __enter__(self) -> NodeDisplay:  # noqa: PYI034 - as above
        self.line(say(f"The nodes are checked, for at most {self._seconds:g} s."))
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.line(f"{self.now()}, {time.monotonic() - self._start:.0f} s")

    def now(self) -> str:
        with contextlib.suppress(OSError):
            reports = sum(name.endswith(".json") for name in os.listdir(self._folder))
            for number in range(reports):
                self.end(str(number))
        return self.count()
