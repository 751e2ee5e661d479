"""The steps of a setup, as whoever shows them sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ascend_doctor.errors import DoctorError

if TYPE_CHECKING:
    from ascend_doctor.provision.options import Plan

Word = Literal["built", "repaired", "skipped", "failed"]
Done = Callable[[Word, str], None]


class Outcome(msgspec.Struct, frozen=True):
    title: str
    word: Word
    detail: str = ""


class Steps:
    """Shows nothing; displays override ``show_plan``, ``show`` and ``end``.

    ``changed``: a step has changed the stack. ``progress`` shows a running command's output, on
    a moving display. ``failure`` is how the last step failed.
    """

    changed = False
    progress: Callable[[str], None] | None = None
    failure: Outcome | None = None

    def show_plan(self, plan: Plan, *, finished: bool) -> None:
        """Show a plan; an exception here stops it. ``finished``: it was built before."""

    @contextlib.contextmanager
    def show(self, title: str, folders: Sequence[Path]) -> Iterator[None]:  # noqa: ARG002
        """Enclose a step with work to do; ``folders`` grow meanwhile."""
        yield

    def end(self, outcome: Outcome) -> None:
        self.changed |= outcome.word in ("built", "repaired")
        self.failure = outcome if outcome.word == "failed" else None

    @contextlib.contextmanager
    def step(self, title: str, *folders: Path) -> Iterator[Done]:
        """A step; what its Done says counts once the step ends, as does a failure."""
        outcomes: list[Outcome] = []
        try:
            with self.show(title, folders):
                yield lambda word, detail: outcomes.append(Outcome(title, word, detail))
        except (DoctorError, OSError) as error:
            self.end(Outcome(title, "failed", str(error)))
            raise
        for outcome in outcomes:
            self.end(outcome)
