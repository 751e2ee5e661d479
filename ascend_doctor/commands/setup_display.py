"""Shows on stderr the steps of a setup: the bytes that grow, the time, and what became of each."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ascend_doctor.provision.steps import Outcome
from ascend_doctor.render.plain import one_line

_EVERY = 1.0
_MIB = 1 << 20


class SetupDisplay:
    """One moving line on a terminal, plain lines elsewhere; if ``quiet`` only what failed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._moving = not quiet and sys.stderr.isatty()
        self._seconds: float | None = None

    @contextlib.contextmanager
    def step(self, title: str, folders: Sequence[Path]) -> Iterator[None]:
        start = time.monotonic()
        over = threading.Event()
        mover = threading.Thread(target=self._move, args=(title, folders, over), daemon=True)
        if self._moving:
            mover.start()
        elif not self._quiet:
            self._say(f"{title} ...")
        try:
            yield
        finally:
            over.set()
            if self._moving:
                mover.join()
                sys.stderr.write("\r\x1b[K")
            self._seconds = time.monotonic() - start

    def ended(self, outcome: Outcome) -> None:
        seconds, self._seconds = self._seconds, None  # of the step that this was, if it was any
        if self._quiet and outcome.word != "failed":
            return
        timed = seconds is not None and outcome.word != "skipped"
        took = f"  ({seconds:.1f} s)" if timed else ""
        self._say(f"{outcome.word:<9} {outcome.title}: {outcome.detail}{took}")

    def _say(self, line: str) -> None:
        click.echo(one_line(line), err=True)

    def _move(self, title: str, folders: Sequence[Path], over: threading.Event) -> None:
        start, before = time.monotonic(), _size(folders)
        while not over.wait(_EVERY):
            grown = max(_size(folders) - before, 0) / _MIB
            line = f"{title}  {grown:.1f} MiB  {time.monotonic() - start:.0f} s"
            sys.stderr.write(f"\r\x1b[K{one_line(line)}")
            sys.stderr.flush()


def _size(folders: Sequence[Path]) -> int:
    """Bytes of all files; those that vanish meanwhile count nothing."""
    total = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(parent, name)).st_size
    return total
