"""Shows on stderr the plan of a setup and its steps: the bytes that grow, the time, the ends."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from rich.text import Text

from ascend_doctor.exits import EXIT_FINDINGS
from ascend_doctor.progress import live, stderr_console
from ascend_doctor.provision.kept import measure_folder
from ascend_doctor.provision.lock import Lock, Prefix
from ascend_doctor.provision.options import Plan, SetupOptions
from ascend_doctor.provision.steps import Outcome, Steps
from ascend_doctor.render.plain import one_line

_MIB = 1 << 20
_LITTLE = 64  # MiB


class SetupDisplay(Steps):
    """A live line on a terminal, plain lines elsewhere; if ``quiet`` only what failed.

    ``yes``: a plan is built without asking.
    """

    def __init__(self, prefix: Prefix, *, quiet: bool, yes: bool) -> None:
        self._prefix = prefix
        self._quiet = quiet
        self._yes = yes
        self._moving = not quiet and sys.stderr.isatty()
        self._seconds: float | None = None

    def show_plan(self, plan: Plan, *, finished: bool) -> None:
        """Raises UsageError where nobody can be asked, and Exit where the answer is no."""
        if not self._quiet:
            say(describe(plan, self._prefix))
        if finished or self._yes:
            return
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to ask on; --yes builds without asking")
        if not click.confirm("Build this?", default=True, err=True):
            raise click.exceptions.Exit(EXIT_FINDINGS)

    @contextlib.contextmanager
    def show(self, title: str, folders: Sequence[Path]) -> Iterator[None]:
        start, before = time.monotonic(), sum(map(measure_folder, folders))

        def grow() -> Text:
            grown = max(sum(map(measure_folder, folders)) - before, 0) / _MIB
            return Text(one_line(f"{title}  {grown:.1f} MiB  {time.monotonic() - start:.0f} s"))

        # What has no folders may have a display of its own, as the proof has.
        moving = self._moving and folders
        if not moving and not self._quiet:
            say([f"{title} ..."])
        try:
            with live(stderr_console(), grow, 1) if moving else contextlib.nullcontext():
                yield
        finally:
            self._seconds = time.monotonic() - start

    def end(self, outcome: Outcome) -> None:
        super().end(outcome)
        seconds, self._seconds = self._seconds, None  # of the step that this was, if it was any
        if self._quiet and outcome.word != "failed":
            return
        timed = seconds is not None and outcome.word != "skipped"
        took = f"  ({seconds:.1f} s)" if timed else ""
        say([f"{outcome.word:<9} {outcome.title}: {outcome.detail}{took}"])

    def show_failure(self, error: Exception) -> None:
        """The setup ended with an error, and goes on where it is called again."""
        lines = [f"ascend-doctor: {error}"]
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self._prefix.root).free >> 20
            if free < _LITTLE:  # what venv and pip ran into they do not always say
                lines.append(f"{free} MiB are left on the disk of {self._prefix.root}")
        hint = "what is done is kept: run the same command again to go on"
        say([*lines, f"ascend-doctor: setup failed; {hint}"])

    def show_carried(self, options: SetupOptions, lock: Lock) -> None:
        """What to do with a bundle for another machine."""
        there = f"{lock.python.arch} with Python {lock.python.version}"
        carry = f"ascend-doctor setup --offline --from {options.bundle} --yes"
        say([f"for {there}, where it is proven; nothing was installed here", f"there: {carry}"])

    def show_unproven(self, lock: Lock) -> None:
        """What became of a stack that did not stand its proof."""
        stack, current = self._prefix.stack(lock.id), self._prefix.current()
        still = f"the stack in use is still {current}"
        say(
            f"ascend-doctor: {line}"
            for line in (
                f"{stack} was built and does not work: {lock.proof_summary}",
                still if current not in (None, stack) else "no stack was put in use",
                "the same command proves it again; --prove 0 puts it in use as it is",
            )
        )


def say(lines: Iterable[str], *, err: bool = True) -> None:
    for line in lines:
        click.echo(one_line(line), err=err)


def describe(plan: Plan, prefix: Prefix) -> Iterator[str]:
    """The plan in words."""
    lock = plan.lock
    yield f"stack {lock.id} in {prefix.root}"
    for checkout in lock.checkouts:
        where = checkout.commit or "the commit that it names then"
        yield f"  {checkout.name:<22} {checkout.ref}  {where}"
    yield f"  {'python':<22} {lock.python.version}  {plan.python}"
    if plan.exact:
        yield f"  {'wheels':<22} {len(lock.wheels)}, by their hashes"
    else:
        yield from (f"  {'pip':<22} {requirement}" for requirement in plan.requirements)
        yield from (f"  {'constraint':<22} {constraint}" for constraint in plan.constraints)
    if lock.as_of and not plan.exact:
        yield f"  {'as of':<22} {lock.as_of}: nothing younger is taken from an index"
    for name, version in lock.preserved.items():
        yield f"  {'kept':<22} {name} {version}"
    for requirement, urls in plan.indexes.items():
        yield f"  {'index':<22} {requirement}: {', '.join(urls)}, where yours do not have it"
    for setting in lock.settings:
        yield f"  {'variable':<22} {setting.name}={setting.value}"
    yield from (f"accepted: {text}" for text in lock.accepted.values())
    yield from (f"note: {doubt}" for doubt in plan.doubts)
    yield from (f"to get: {text}" for text in plan.missing)
