"""``plan LAUNCH``: whether a launch fits as it is, and where its memory goes."""

import itertools
import shlex
from collections.abc import Iterator

import msgspec

from ascend_doctor.checks.launch.launched_memory import UNSEEN, LaunchedPlan, budget, plan_launch
from ascend_doctor.commands.counted_launch import CountedRun, TriedLayout
from ascend_doctor.commands.rehearsed_ranks import show_step, step_seconds
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_UNKNOWN
from ascend_doctor.findings import show_bytes
from ascend_doctor.judging import Case, NotApplicable, Place, Unknown, quantity
from ascend_doctor.linting.inputs import LintInput, of_command, read, subjects
from ascend_doctor.linting.launch_checks import machine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.planning.memory import GIB, NEARNESS
from ascend_doctor.planning.ranking import RankBudget, RankedLayout, choices
from ascend_doctor.planning.rules import LayoutQuery
from ascend_doctor.render.columns import Prose

_BETTER = 3


class JudgedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    location: Place
    plan: LaunchedPlan | None = None
    unknown: str = ""  # why its memory cannot be estimated


class LaunchPage(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a file's launches, on NPUs of ``where``. ``again`` starts them."""

    judged: list[JudgedLaunch]
    where: RankBudget
    chip: str
    again: tuple[str, ...]
    counted: CountedRun | None = None
    tried: tuple[TriedLayout, ...] = ()

    def describe(self) -> Iterator[str]:
        """A launch in a few lines, and what to type next."""
        ran = self.counted is not None and not self.counted.uncounted
        yield from map(Prose, (*self._lines(), *([] if ran else ["", NEARNESS])))
        yield f"Next: {self._next}"

    def _lines(self) -> Iterator[str]:
        if self.counted:
            yield from self._describe_count(self.counted)
        for number, launch in enumerate(self.judged):
            if number:
                yield ""
            at = f"{launch.location.file}:{launch.location.line}"
            if launch.plan is None:
                yield f"{at}: could not tell: {launch.unknown}"
                continue
            yield from self._describe(at, launch.plan)
        yield from self._describe_tries()

    @property
    def _next(self) -> str:
        again = shlex.join(self.again)
        if self.counted or self.tried:
            return f"ascend-doctor rehearse --true-size -- {again}"
        file = self.again[0] == "bash" and len(self.again) == 2  # noqa: PLR2004 - started by bash
        return f"ascend-doctor plan --run {again[5:] if file else f'-- {again}'}"

    def html(self) -> str:
        """The same as a page, with a bar for each launch."""
        from ascend_doctor.render.formats.html import bars_page

        first, *about = map(str.strip, self._lines())
        rows = [
            (str(launch.location), launch.plan.fits(self.where), launch.plan.memory)
            for launch in self.judged
            if launch.plan
        ]
        more = {"limit": self.where.memory, "about": about, "notes": [NEARNESS]}
        typed = [("launch", [self._next])]
        return bars_page(first, rows, commands=typed, **more)

    def _describe_count(self, run: CountedRun) -> Iterator[str]:
        if run.uncounted:
            yield f"Not counted, so by the formulas alone: {run.uncounted}"
        elif run.out_of_memory:
            yield f"simulated: It does not fit ({self.chip}): {run.out_of_memory}"
        else:
            fits = "It fits" if run.fits else "It is too close to tell"
            taken = f"{show_bytes(run.reserved)} of {show_bytes(run.memory)}"
            yield f"simulated: {fits}: an NPU has at most {taken} reserved ({self.chip})"
        yield from (f"  {line}" for line in run.describe())

    def _describe(self, at: str, plan: LaunchedPlan) -> Iterator[str]:
        layout, run, memory = plan.layout, plan.run, plan.memory
        how = f"LoRA of rank {run.lora}" if run.lora else "all weights"
        needed, has = memory.total / GIB, self.where.memory / GIB
        doubt = (
            "not known, for options are not counted" if plan.not_counted else "too close to tell"
        )
        verdict = {
            True: f"It fits: {needed:.1f} GiB of {has:.1f} GiB an NPU",
            None: f"It is {doubt}: about {needed:.1f} GiB of {has:.1f} GiB an NPU",
            False: f"It does not fit: {needed:.1f} GiB an NPU, and one has {has:.1f} GiB",
        }[plan.fits(self.where)]
        yield f"{'estimated: ' * bool(self.counted)}{verdict} ({self.chip})"
        yield (
            f"  {at}: {plan.model.title}, {how}, {layout.name} on {quantity(layout.npus, 'NPU')}, "
            f"{run.micro_batch} x {run.sequence} tokens"
        )
        parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in memory.parts.items())
        yield f"  stage {memory.stage}: {parts}"
        if plan.assumed:
            yield f"  assumed: {'; '.join(plan.assumed)}"
        if plan.not_counted:
            yield f"  not counted: {', '.join(plan.not_counted)}"
        if plan.fits(self.where) is not True and not (self.counted or self.tried):
            yield from self._better(plan)

    def _better(self, plan: LaunchedPlan) -> Iterator[str]:
        asked = LayoutQuery(model=plan.model, run=plan.run)
        npus = plan.layout.npus
        for count in (npus, npus * 2, npus * 4, npus * 8):
            ranked = choices(asked, count, self.where)
            fitting = [each for each in itertools.islice(ranked, _BETTER) if each.fits]
            if fitting:
                yield f"  fits on {quantity(count, 'NPU')}: {', '.join(map(_name, fitting))}"
                return

    def _describe_tries(self) -> Iterator[str]:
        for number, each in enumerate(self.tried, 1):
            run, estimate = each.run, f"estimated {each.estimated.memory.total / GIB:.1f} GiB"
            if run is None:
                yield f"not tried, for time was up: {each.name}"
                continue
            if run.uncounted:
                yield f"not counted: {each.name}: {run.uncounted}"
                continue
            fits = {True: "fits", None: "close", False: "does not fit"}[run.fits]
            step = f", {show_step(seconds)}" if (seconds := step_seconds(run.ranks)) else ""
            yield (
                f"simulated: {number}. {each.name}: {fits}, {show_bytes(run.reserved)} reserved, "
                f"{estimate}{step}"
            )

    def exit_code(self) -> int:
        """1 if a launch does not fit, 3 if one is close, unknown or could not run, else 0."""
        runs = [run for run in (self.counted, *(each.run for each in self.tried)) if run]
        if any(run.interrupted for run in runs):
            return EXIT_INTERRUPTED
        fits = [launch.plan.fits(self.where) if launch.plan else None for launch in self.judged]
        if self.counted:
            fits = [self.counted.fits] if not self.counted.uncounted else [*fits, None]
        elif self.tried:
            fits = [self.tried[0].run.fits if self.tried[0].run else None]
        if False in fits:
            return EXIT_FINDINGS
        return EXIT_UNKNOWN if None in fits else 0

    def data(self) -> dict[str, object]:
        rows = [
            {
                **msgspec.to_builtins(launch),
                "fits": launch.plan.fits(self.where) if launch.plan else None,
                "total": launch.plan.memory.total if launch.plan else None,
            }
            for launch in self.judged
        ]
        tried = [{**msgspec.to_builtins(each), "run": _data(each.run)} for each in self.tried]
        return {
            "launches": rows, "place": self.where, "chip": self.chip, "nearness": NEARNESS,
            "counted": _data(self.counted), "tried": tried,
        }  # fmt: skip


def judge_launches(words: tuple[str, ...], catalog: Catalog, soc: str) -> LaunchPage:
    """The launches of a file or command, by formulas. Raises DataError for none."""
    path, *more = words
    inputs = of_command(words, catalog) if more else subjects(path, read(path), catalog)
    launched = [each for each in inputs if each.launch is not None and each.launch.present]
    if not launched:
        raise DataError(f"{path}: no launch of a training is in it; name a model with --model")
    cases = [_case(each, catalog, soc) for each in launched]
    judged = [_judge(*pair) for pair in zip(launched, cases, strict=True)]
    where, chip = budget(cases[0])
    again = words if more else ("bash", path)
    return LaunchPage(judged=judged, where=where, chip=chip, again=again)


def _case(subject: LintInput, catalog: Catalog, soc: str) -> Case:
    base = machine("", soc)
    # Values from elsewhere count as absent, which the page says.
    launch = subject.launch and msgspec.structs.replace(subject.launch, partial=False)
    facts = msgspec.structs.replace(
        base, launch=launch, environment=subject.environment or base.environment
    )
    return Case(facts=facts, catalog=catalog)


def _judge(subject: LintInput, case: Case) -> JudgedLaunch:
    places = subject.launch.places if subject.launch is not None else {}
    inside = [location for location in places.values() if location.file == subject.file]
    location = min(inside, key=lambda each: each.line, default=Place(file=subject.file, line=1))
    try:
        plan = plan_launch(case)
        if subject.launch is not None and subject.launch.partial:
            plan = msgspec.structs.replace(plan, not_counted=(*plan.not_counted, UNSEEN))
        return JudgedLaunch(location=location, plan=plan)
    except (Unknown, NotApplicable) as reason:
        return JudgedLaunch(location=location, unknown=str(reason))


def _data(run: CountedRun | None) -> dict[str, object] | None:
    return (
        None
        if run is None
        else {**msgspec.to_builtins(run), "fits": run.fits, "reserved": run.reserved}
    )


def _name(ranked: RankedLayout) -> str:
    again = ", all activations computed again" * ranked.memory.recompute
    return f"{ranked.layout.name} ({ranked.memory.total / GIB:.0f} GiB{again})"
