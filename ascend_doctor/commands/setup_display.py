"""Shows on stderr the plan of a setup and its steps: the bytes that grow, the time, the ends."""

import contextlib
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from ascend_doctor.exits import EXIT_FINDINGS
from ascend_doctor.findings import show_bytes
from ascend_doctor.language import say
from ascend_doctor.progress import STEPS, ProgressBar
from ascend_doctor.provision.kept import measure_folder
from ascend_doctor.provision.lock import Lock, Prefix
from ascend_doctor.provision.options import Plan, SetupOptions
from ascend_doctor.provision.steps import Outcome, Steps
from ascend_doctor.render.columns import pad, terminal_width, width, wrap
from ascend_doctor.render.plain import one_line

_LITTLE = 64  # MiB
_ROW = re.compile(r"  \S+(?: \S+)*  +")


class SetupDisplay(Steps):
    """A live line on a terminal, else plain ones. ``last``: the steps after the checkouts."""

    def __init__(self, prefix: Prefix, *, quiet: bool, yes: bool, last: Sequence[str] = ()) -> None:
        self._prefix = prefix
        self._quiet = quiet
        self._yes = yes
        self._last = tuple(last)
        self._order: tuple[str, ...] = ()
        self._progress = ProgressBar(STEPS, quiet=quiet, now=self._say_now, rate=1)
        self._now: tuple[str, Sequence[Path], int] = ("", (), 0)
        self._cost: tuple[float, int] | None = None
        self._state = ""
        self.progress = self._show_state if self._progress.moves else None

    def show_plan(self, plan: Plan, *, finished: bool) -> None:
        """Raises UsageError if it cannot ask, and Exit if the answer is no."""
        if not self._quiet:
            write_plan(plan, self._prefix)
        checkouts = [checkout.name for checkout in plan.lock.checkouts]
        self._order = (*checkouts, *self._last)
        self._progress.add(self._order)
        if finished or self._yes:
            return
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to ask on; --yes builds without asking")
        if not click.confirm(say("Build this?"), default=True, err=True):
            raise click.exceptions.Exit(EXIT_FINDINGS)

    @contextlib.contextmanager
    def show(self, title: str, folders: Sequence[Path]) -> Iterator[None]:
        start, self._state = time.monotonic(), ""
        self._now = (title, folders, sum(map(measure_folder, folders)))
        self._progress.begin(title)
        # A step without folders may have its own display, as the proof has.
        moving = self._progress.moves and folders
        if not moving and not self._quiet:
            write_lines([f"{say(title)} ..."])
        try:
            with self._progress if moving else contextlib.nullcontext():
                yield
        finally:
            self._cost = (time.monotonic() - start, self._grown())

    def _say_now(self) -> str:
        now = f"{say(self._now[0])}  {show_bytes(self._grown())}  {self._state}"
        return f"{self._progress.count()} · {now.rstrip()}"

    def _show_state(self, text: str) -> None:
        self._state = text

    def _grown(self) -> int:
        _, folders, before = self._now
        return max(sum(map(measure_folder, folders)) - before, 0)

    def end(self, outcome: Outcome) -> None:
        super().end(outcome)
        cost, self._cost = self._cost, None  # of the step that this was, if it was any
        self._progress.end(outcome.title)
        if outcome.title in self._order:
            before = self._order[: self._order.index(outcome.title)]
            self._progress.drop(before)
        if self._quiet and outcome.word != "failed":
            return
        took = ""
        if cost is not None and outcome.word != "skipped":
            grown = f", {show_bytes(cost[1])}" if cost[1] else ""
            took = f"  ({cost[0]:.1f} s{grown})"
        count = f"  {self._progress.count()}" if self._progress.all_known else ""
        word, title, detail = say(outcome.word), say(outcome.title), say(outcome.detail)
        write_lines([f"{pad(word, 9)} {title}: {detail}{took}{count}"])

    def show_failure(self, error: Exception) -> None:
        lines = [f"ascend-doctor: {say(str(error))}"]
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self._prefix.root).free >> 20
            if free < _LITTLE:  # what venv and pip ran into they do not always say
                lines.append(say(f"{free} MiB are left on the disk of {self._prefix.root}"))
        hint = say("setup failed; what is done is kept: run the same command again to go on")
        write_lines([*lines, f"ascend-doctor: {hint}"])

    def show_carried(self, options: SetupOptions, lock: Lock) -> None:
        there = f"{lock.python.arch} with Python {lock.python.version}"
        carry = f"ascend-doctor setup --offline --from {options.bundle} --yes"
        made = say(f"for {there}, where it is proven; nothing was installed here")
        write_lines([made, f"{say('there')}: {carry}"])

    def show_unproven(self, lock: Lock, flags: str) -> None:
        """Report a stack that failed its proof; ``flags`` accept it."""
        stack, current = self._prefix.stack(lock.id), self._prefix.current()
        still = f"the stack in use is still {current}"
        take = f"to take it with that, on record in the lock, without another proof: {flags}"
        write_lines(
            f"ascend-doctor: {line}"
            for line in (
                say(f"{stack} was built and does not work: {lock.proof_summary}"),
                say(still if current not in (None, stack) else "no stack was put in use"),
                say("the same command proves it again; --prove 0 puts it in use as it is"),
                *([say(take)] if flags else ()),
            )
        )


def write_lines(lines: Iterable[str], *, err: bool = True) -> None:
    for line in lines:
        click.echo(one_line(line), err=err)


def describe(plan: Plan, prefix: Prefix) -> Iterator[str]:
    lock = plan.lock
    yield say(f"stack {lock.id} in {prefix.root}")
    if plan.based_on:
        yield f"{say('set')}: {say(plan.based_on.title)} [{plan.based_on.id}]"
    if plan.known_good:
        yield _row("known good", say(f"{plan.known_good}; --no-known-good resolves anew"))
    for checkout in lock.checkouts:
        where = checkout.commit or say("the commit that it names then")
        yield f"  {checkout.name:<22} {checkout.ref}  {where}"
    yield f"  {'python':<22} {lock.python.version}  {plan.python}"
    if plan.exact:
        yield _row("wheels", say(f"{len(lock.wheels)}, by their hashes"))
    else:
        bounds = {re.split("[=<>!~]", text)[0]: text for text in plan.constraints}
        packages = [bounds.get(requirement, requirement) for requirement in plan.requirements]
        yield from (f"  {'pip':<22} {package}" for package in packages)
        yield from (_row("constraint", text) for text in plan.constraints if text not in packages)
    if lock.as_of and not plan.exact:
        yield _row("as of", say(f"{lock.as_of}, where an index tells the days of its files"))
    for name, version in lock.preserved.items():
        yield _row("kept", f"{name} {version}")
    for requirement, urls in plan.indexes.items():
        where = say(f"{', '.join(urls)}, where yours do not have it")
        yield _row("index", f"{requirement}: {where}")
    for setting in lock.settings:
        yield _row("variable", f"{setting.name}={setting.value}")
    yield from (f"{say('accepted')}: {say(text)}" for text in lock.accepted.values())
    yield from (f"{say('note')}: {say(doubt)}" for doubt in plan.doubts)
    yield from (f"{say('to get')}: {say(text)}" for text in plan.missing)


def write_plan(plan: Plan, prefix: Prefix, *, err: bool = True) -> None:
    """Write the plan; on a terminal long lines go on below their text."""
    shown = (sys.stderr if err else sys.stdout).isatty()
    room = terminal_width()
    for line in describe(plan, prefix):
        write_lines(_fold(line, room) if shown else [line], err=err)


def _fold(line: str, room: int) -> list[str]:
    if width(line) <= room:
        return [line]
    row = _ROW.match(line)
    # A label of half the page leaves its text no room beside it.
    indent = row.end() if row and row.end() < room // 2 else 4
    first, *more = wrap(line[indent:], room - indent)
    return [line[:indent] + first, *(" " * indent + rest for rest in more)]


def _row(label: str, text: str) -> str:
    return f"  {pad(say(label), 22)} {text}"
