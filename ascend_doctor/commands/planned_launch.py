"""``plan LAUNCH``: whether a launch fits as it is, and where its memory goes."""

import itertools
from collections.abc import Iterator

import msgspec

from ascend_doctor.checks.launch.launched_memory import LaunchedPlan, budget, plan_launch
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_UNKNOWN
from ascend_doctor.judging import Case, NotApplicable, Place, Unknown, quantity
from ascend_doctor.linting.inputs import LintInput, of_command, read, subjects
from ascend_doctor.linting.launch_checks import machine
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.planning.memory import GIB, NEARNESS
from ascend_doctor.planning.ranking import RankBudget, RankedLayout, choices
from ascend_doctor.planning.rules import LayoutQuery
from ascend_doctor.render.formats.json import pretty

_BETTER = 3


class JudgedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    location: Place
    plan: LaunchedPlan | None = None
    unknown: str = ""  # why its memory cannot be estimated


def judge_launches(
    path: str, words: tuple[str, ...], catalog: Catalog, soc: str
) -> tuple[list[JudgedLaunch], RankBudget, str]:
    """The launches of a file or command, the chip's memory and name. Raises DataError for none."""
    inputs = of_command(words, catalog) if words else subjects(path, read(path), catalog)
    launched = [each for each in inputs if each.launch is not None and each.launch.present]
    if not launched:
        raise DataError(f"{path}: no launch of a training is in it; name a model with --model")
    cases = [_case(each, catalog, soc) for each in launched]
    return [_judge(*pair) for pair in zip(launched, cases, strict=True)], *budget(cases[0])


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
            text = "no more options than the file shows"
            plan = msgspec.structs.replace(plan, assumed=(*plan.assumed, text))
        return JudgedLaunch(location=location, plan=plan)
    except (Unknown, NotApplicable) as reason:
        return JudgedLaunch(location=location, unknown=str(reason))


def describe(judged: list[JudgedLaunch], where: RankBudget, chip: str, again: str) -> Iterator[str]:
    """A launch in a few lines, and what to type next. ``again`` starts the launch."""
    for number, launch in enumerate(judged):
        if number:
            yield ""
        at = f"{launch.location.file}:{launch.location.line}"
        if launch.plan is None:
            yield f"{at}: could not tell: {launch.unknown}"
            continue
        yield from _describe(at, launch.plan, where, chip)
    yield ""
    yield NEARNESS
    yield f"Next: ascend-doctor rehearse --true-size -- {again}"


def html(judged: list[JudgedLaunch], where: RankBudget, chip: str, again: str) -> str:
    """The same as a page, with a bar for each launch."""
    from ascend_doctor.render.formats.html import bars_page

    first, *rest = describe(judged, where, chip, again)
    planned = [
        (str(launch.location), launch.plan.fits(where), launch.plan.memory, "")
        for launch in judged
        if launch.plan
    ]
    step = ("launch", [f"ascend-doctor rehearse --true-size -- {again}"])
    about = [text.strip() for text in rest[:-2]]
    return bars_page(
        first, planned, limit=where.memory, about=about, commands=[step], notes=[NEARNESS]
    )


def _describe(at: str, plan: LaunchedPlan, where: RankBudget, chip: str) -> Iterator[str]:
    layout, run, memory = plan.layout, plan.run, plan.memory
    how = f"LoRA of rank {run.lora}" if run.lora else "all weights"
    needed, has = memory.total / GIB, where.memory / GIB
    doubt = "not known, for options are not counted" if plan.not_counted else "too close to tell"
    verdict = {
        True: f"It fits: {needed:.1f} GiB of {has:.1f} GiB a NPU",
        None: f"It is {doubt}: about {needed:.1f} GiB of {has:.1f} GiB a NPU",
        False: f"It does not fit: {needed:.1f} GiB a NPU, and one has {has:.1f} GiB",
    }[plan.fits(where)]
    yield f"{verdict} ({chip})"
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
    if plan.fits(where) is not True:
        yield from _better(plan, where)


def _better(plan: LaunchedPlan, where: RankBudget) -> Iterator[str]:
    asked = LayoutQuery(model=plan.model, run=plan.run)
    npus = plan.layout.npus
    for count in (npus, npus * 2, npus * 4, npus * 8):
        ranked = choices(asked, count, where)
        fitting = [each for each in itertools.islice(ranked, _BETTER) if each.fits]
        if fitting:
            yield f"  fits on {quantity(count, 'NPU')}: {', '.join(map(_name, fitting))}"
            return


def _name(ranked: RankedLayout) -> str:
    again = ", all activations computed again" * ranked.memory.recompute
    return f"{ranked.layout.name} ({ranked.memory.total / GIB:.0f} GiB{again})"


def exit_code(judged: list[JudgedLaunch], where: RankBudget) -> int:
    """1 if a launch does not fit, 3 if one is close or unknown, else 0."""
    fits = [launch.plan.fits(where) if launch.plan else None for launch in judged]
    if False in fits:
        return EXIT_FINDINGS
    return EXIT_UNKNOWN if None in fits else 0


def data(judged: list[JudgedLaunch], where: RankBudget, chip: str, schema: int) -> str:
    rows = [
        {
            **msgspec.to_builtins(launch),
            "fits": launch.plan.fits(where) if launch.plan else None,
            "total": launch.plan.memory.total if launch.plan else None,
        }
        for launch in judged
    ]
    page = {"schema": schema, "launches": rows, "place": where, "chip": chip, "nearness": NEARNESS}
    return pretty(page)
