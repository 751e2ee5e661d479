"""The steps of a setup as others see them, and what every step works with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ascend_doctor.errors import DoctorError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.provision.lock import Checkout, Prefix
from ascend_doctor.provision.running import Runner
from ascend_doctor.provision.sources import RepositorySource

Word = Literal["built", "repaired", "skipped", "failed"]
Done = Callable[[Word, str], None]


@dataclass(frozen=True)
class Outcome:
    """What became of one step, and a few words on it."""

    title: str
    word: Word
    detail: str = ""


class StepWatch(Protocol):
    """Who is told of the steps; ``folders`` grow while the step runs."""

    def step(self, title: str, folders: Sequence[Path]) -> contextlib.AbstractContextManager[None]:
        """Enclose a step that has something to do."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """A step has ended, with or without anything to do."""
        ...


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a setup works and what from. ``source`` gives the server of a component.

    Without ``asks`` no server is asked for its refs: the commits are known, or come in a bundle.
    ``wheelhouse`` has the wheels of a bundle; no index is asked then.
    """

    prefix: Prefix
    runner: Runner
    catalog: Catalog
    source: Callable[[Checkout], RepositorySource]
    watch: StepWatch
    asks: bool = True
    wheelhouse: Path | None = None

    @contextlib.contextmanager
    def step(self, title: str, *folders: Path) -> Iterator[Done]:
        """A step; what it calls ``done`` with is told when it has ended, and so is a failure."""
        outcomes: list[Outcome] = []
        try:
            with self.watch.step(title, folders):
                yield lambda word, detail: outcomes.append(Outcome(title, word, detail))
        except (DoctorError, OSError) as error:
            self.watch.ended(Outcome(title, "failed", str(error)))
            raise
        for outcome in outcomes:
            self.watch.ended(outcome)
