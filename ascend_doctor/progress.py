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
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ascend_doctor.language import say
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.probing.request import ProbeRequest

_REFRESH = 8
_BAR = 24
PROBES, STEPS, NODES, RUNS = "probes", "steps", "nodes", "runs"


_OwnBar = TypeVar("_OwnBar", bound="ProgressBar")


class ProgressBar:
    """Tasks with a bar on a terminal, lines elsewhere, nothing if ``quiet``.

    ``noun`` is the plural of what is counted; ``detail`` draws what runs now, ``rate`` times a
    second. A terminal that cannot move its cursor gets lines.
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
        self.quiet = quiet
        self.running: list[str] = []
        self.all_known = False
        self._names: set[str] = set()
        self._ended: set[str] = set()
        self._noun = noun
        self._start = time.monotonic()
        self._console = console or Console(file=sys.stderr, markup=False, highlight=False)
        self._detail: Callable[[], Sequence[RenderableType]] = tuple
        columns = (
            BarColumn(_BAR),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=self._console, auto_refresh=False)
        self._live = Live(
            get_renderable=lambda: Group(self._bar, *self._detail()),
            console=self._console,
            refresh_per_second=rate,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._detail = detail
        self._task = self._bar.add_task(self.count(), total=None)
        self._moving = False

    @property
    def moves(self) -> bool:
        console = self._console
        return not self.quiet and console.is_terminal and not console.is_dumb_terminal

    def __enter__(self: _OwnBar) -> _OwnBar:  # noqa: PYI019 - Self is newer than Python 3.10
        self._moving = self.moves
        if self._moving:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._moving:
            self._live.stop()
        self._moving = False

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
            description=self.count(),
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
        super().__init__(noun, quiet=quiet, console=console, detail=self._rows)
        self.add(tasks)

    @contextlib.contextmanager
    def run(self, task: str) -> Iterator[None]:
        self.begin(task)
        self.line(f"{say(task)} ...")
        try:
            yield
        finally:
            self.end(task)

    def _rows(self) -> list[RenderableType]:
        return [_row(say(task)) for task in self.running]


class ProbeDisplay(ProgressBar):
    """The running probes, the stages of their ranks, and the ended probes.

    ``runs`` are the runs that have ended, for an interrupt.
    """

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        super().__init__(PROBES, quiet=quiet, console=console, detail=self._rows)
        self.runs: dict[str, ProbeRun] = {}
        self._request: ProbeRequest | None = None
        self._stages: dict[int, str] = {}
        self._shown_stages: set[str] = set()
        self._ends: dict[str, str] = {}

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
            self._ends[run.probe] = "not started"
            self.line(say(f"{run.probe}: not started: {run.not_started}") + count)
            return
        self._ends[run.probe] = "passed" if run.sound else "failed"
        seconds = f"{run.seconds:.1f} s"
        self.line(
            say(
                f"{run.probe}: deadline passed after {seconds}"
                if run.timed_out
                else f"{run.probe}: ended after {seconds}"
            )
            + count
        )

    def _rows(self) -> list[RenderableType]:
        ends: dict[str, list[str]] = {"passed": [], "failed": [], "not started": []}
        for probe, end in self._ends.items():
            ends[end].append(probe)
        rows: list[RenderableType] = [
            _row(f"{say(word)}: {', '.join(names)}") for word, names in ends.items() if names
        ]
        if request := self._request:
            counted = Counter(self._stages.values())
            counted[say("not started")] = len(request.ranks) - len(self._stages)
            most = say(f"at most {request.deadline:.0f} s")
            rows.append(_row(f"{request.probe}: {request.device}, {most}"))
            rows += [_row(f"  {count}  {stage}") for stage, count in counted.items() if count]
        return rows


class NodeDisplay(ProgressBar):
    """Nodes of a fleet that have written their report files into a folder."""

    def __init__(self, folder: str, nodes: int, *, seconds: float, quiet: bool) -> None:
        super().__init__(NODES, quiet=quiet, detail=self._look, rate=1)
        self._folder = folder
        self._seconds = seconds
        if nodes:
            self.add(map(str, range(nodes)))

    def __enter__(self) -> NodeDisplay:  # noqa: PYI034 - as above
        self.line(say(f"The nodes are checked, for at most {self._seconds:g} s."))
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._look()
        self.line(f"{self.count()}, {time.monotonic() - self._start:.0f} s")

    def _look(self) -> list[RenderableType]:
        with contextlib.suppress(OSError):
            reports = sum(name.endswith(".json") for name in os.listdir(self._folder))
            for number in range(reports):
                self.end(str(number))
        return []


def _row(text: str) -> Text:
    return Text(one_line(text), no_wrap=True, overflow="ellipsis")
