"""The live display on stderr, and what it shows of a running probe; never writes to stdout."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from types import TracebackType

    from ascend_doctor.probing.request import ProbeRequest

_REFRESH = 8
_ROWS = 16


def live(console: Console, render: Callable[[], RenderableType], rate: float) -> Live:
    """What ``render`` gives, drawn ``rate`` times a second and gone at its end."""
    return Live(
        console=console,
        transient=True,
        refresh_per_second=rate,
        redirect_stdout=False,
        redirect_stderr=False,
        get_renderable=render,
    )


def stderr_console() -> Console:
    return Console(file=sys.stderr, markup=False, highlight=False)


class ProbeDisplay:
    """A table of ranks and stages on a terminal, plain lines elsewhere, nothing if ``quiet``.

    ``runs`` are the runs that have ended, for whoever interrupts.
    """

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self.runs: list[ProbeRun] = []
        self._quiet = quiet
        self._console = console or stderr_console()
        self._live: Live | None = None
        self._request: ProbeRequest | None = None
        self._stages: dict[int, tuple[str, float]] = {}
        self._shown_stages: set[str] = set()
        self._start = 0.0

    def __enter__(self) -> ProbeDisplay:  # noqa: PYI034 - Self is newer than Python 3.10
        if not self._quiet and self._console.is_terminal:
            self._live = live(self._console, self._table, _REFRESH)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, request: ProbeRequest) -> None:
        self._request = request
        self._stages = {}
        self._shown_stages = set()
        self._start = time.monotonic()
        count = len(request.ranks)
        ranks = f"{count} ranks" if count > 1 else "one process"
        self._say(f"{request.probe}: {ranks} on {request.device}, at most {request.deadline:.0f} s")

    def entered(self, rank: int, stage: str, seconds: float) -> None:
        self._stages[rank] = (stage, seconds)
        if stage not in self._shown_stages:
            self._shown_stages.add(stage)
            if self._request is not None:
                self._say(f"{self._request.probe}: {stage} ({seconds:.1f} s)")

    def ended(self, run: ProbeRun) -> None:
        self.runs.append(run)
        self._request = None
        if run.not_started:
            self._say(f"{run.probe}: not started: {run.not_started}")
        else:
            outcome = "deadline passed" if run.timed_out else "ended"
            self._say(f"{run.probe}: {outcome} after {run.seconds:.1f} s")

    def _say(self, line: str) -> None:
        if not self._quiet and self._live is None:
            self._console.print(Text(one_line(line)), soft_wrap=True)

    def _table(self) -> Table | Text:
        """The ranks, or from 17 ranks on how many are in each stage."""
        request = self._request
        if request is None:
            return Text("")
        elapsed = time.monotonic() - self._start
        title = f"{request.probe} on {request.device}  {elapsed:.0f} of {request.deadline:.0f} s"
        table = Table(title=Text(title), box=None, title_justify="left", pad_edge=False)
        if len(request.ranks) > _ROWS:
            table.add_column("ranks", justify="right")
            table.add_column("stage")
            counted = Counter(stage for stage, _ in self._stages.values())
            counted["not started"] = len(request.ranks) - len(self._stages)
            for stage, count in counted.items():
                if count:
                    table.add_row(str(count), Text(one_line(stage)))
            return table
        table.add_column("rank", justify="right")
        table.add_column("stage")
        table.add_column("for", justify="right")
        for rank in request.ranks:
            stage, since = self._stages.get(rank, ("not started", 0.0))
            table.add_row(str(rank), Text(one_line(stage)), f"{max(elapsed - since, 0.0):.0f} s")
        return table
