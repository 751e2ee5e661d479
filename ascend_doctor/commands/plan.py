"""``ascend-doctor plan``: parallel layouts for a model on a number of NPUs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.commands.options.format_option import FormatOption
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.kinds import defaulted, flag
from ascend_doctor.commands.options.launch import read_megatron
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import file_option, put
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_UNKNOWN
from ascend_doctor.findings import quantity
from ascend_doctor.language import say
from ascend_doctor.machine.kinds import CONFIGURATION, MODEL, SCRIPT, refuse_other
from ascend_doctor.matrix.models import Model, find, find_named
from ascend_doctor.planning.flags import FRAMEWORKS, describe_sizes
from ascend_doctor.planning.launches import launch, setup_command
from ascend_doctor.planning.layout import TITLES, parse
from ascend_doctor.planning.memory import GIB, NEARNESS, TrainingRun
from ascend_doctor.planning.ranking import (
    MARGIN,
    RankBudget,
    RankedLayout,
    choice,
    choices,
    fewest,
    rank_budget,
)
from ascend_doctor.planning.rules import RULES, LayoutQuery, broken, fit_delta
from ascend_doctor.planning.step_time import STEP_NEARNESS
from ascend_doctor.render import columns
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.matrix.catalog import Catalog

_MOST_NPUS = 4096
_USUAL_SOC = "Ascend910B3"  # assumed where the chip is not given
# Of the JSON; an incompatible change raises it.
_SCHEMA = 1
# Indent of a broken line's rest, and its least room on a narrow page.
_HANGING, _ROOM = 2, 20
_SHAPES = ("text", "json", "html")


@click.command("plan")
@click.argument("launches", metavar="[LAUNCH | -- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--model",
    "name",
    metavar="M",
    type=InputFile(MODEL),
    help="A config.json, its folder, or a known model such as Qwen3-8B.",
)
@click.option(
    "--npus",
    type=click.IntRange(1, _MOST_NPUS),
    metavar="N",
    help="[default: the fewest that fit, of 1, 2, 4 and so on]",
)
@click.option("--soc", metavar="S", help="Chip, as Ascend910B3 or A3: its memory.")
@click.option("--per-node", type=click.IntRange(1, 1024), help="NPUs of one machine.")
@defaulted("--seq", type=click.IntRange(1, 1 << 24), default=4096)
@defaulted("--micro-batch", type=click.IntRange(1, 4096), default=1)
@click.option(
    "--global-batch", type=click.IntRange(1, 1 << 20), default=256, help="Samples of a step."
)
@flag("--swap-optimizer", help="Its states on the host (MindSpeed).")
@click.option("--lora", type=click.IntRange(1, 4096), metavar="R", help="LoRA of this rank.")
@flag("--full", help="Train all weights.  [default]")
@click.option("--framework", type=click.Choice(list(FRAMEWORKS)), help="Whose options to print.")
@click.option("--megatron", metavar="X", default="", help="Version; some rules differ by it.")
@click.option("--layout", "layout_name", metavar="L", help="Judge this one, such as TP2·EP4.")
@defaulted("--top", type=click.IntRange(1, 1000), default=8)
@matrix_option
@click.option(
    "--format",
    "shape",
    cls=FormatOption,
    type=click.Choice(_SHAPES),
    help="[default: the file's ending; text]",
)
@file_option("Write it there, whole or not at all.")
def command(  # noqa: PLR0913 - the options of the command
    *,
    launches: tuple[str, ...],
    name: str | None,
    npus: int | None,
    soc: str | None,
    per_node: int | None,
    seq: int,
    micro_batch: int,
    global_batch: int,
    swap_optimizer: bool,
    lora: int | None,
    full: bool,
    framework: str | None,
    megatron: str,
    layout_name: str | None,
    top: int,
    overlays: tuple[str, ...],
    shape: str | None,
    file: str | None,
) -> int:
    """Rank the legal parallel layouts of a model, with the memory that each NPU needs.

    Of a LAUNCH, a script or a configuration, or of a COMMAND: whether it fits as it is.

    \b
    Exit codes: 0 a layout fits, 1 none fits, 2 bad usage, 3 too close to the memory to tell.
    """
    shape, rows = shape or _shape_of(file), catalog(overlays)
    if not name and len(launches) == 1 and find_named(rows, launches[0]):
        name, launches = launches[0], ()
    if launches:
        odd = bool(npus or name or framework or lora)
        return _plan_launch(launches, rows, soc or "", shape, file, odd=odd)
    if lora and full:
        raise click.UsageError("--lora and --full exclude each other")
    sizes = {"sequence": seq, "micro_batch": micro_batch, "global_batch": global_batch}
    run = TrainingRun(**sizes, swap=swap_optimizer, lora=lora or 0)
    model = _model(rows, name)
    asked = fit_delta(LayoutQuery(model=model, run=run, megatron=read_megatron(megatron)))
    if layout_name and not npus:
        raise click.UsageError("--layout needs --npus")
    where = _budget(rows, rows.chip_called(soc or _USUAL_SOC), per_node or 0)
    npus = npus or _fewest(asked, where)
    layouts = _layouts(asked, layout_name, npus, where)
    if not soc:
        click.echo(say(f"assuming {_USUAL_SOC} with 64 GB; --soc names another chip"), err=True)
    frameworks = _frameworks(framework, swap=swap_optimizer)
    if shape == "json":
        text = _lines(pretty(_data(asked, where, layouts[:top], frameworks)).splitlines())
    elif shape == "html":
        text = _html(asked, where, layouts[:top], frameworks)
    else:
        text = _lines(_text(asked, where, layouts, top, npus), _width(file))
        if layouts:
            text += _lines(_detail(asked, where, layouts[0], frameworks), _width(file))
    put(file, text)
    return _exit_code(layouts, where)


def _shape_of(file: str | None) -> str:
    ending = file.rpartition(".")[2] if file else ""
    return ending if ending in _SHAPES else "text"


def _model(rows: Catalog, name: str | None) -> Model:
    if not name:
        raise click.UsageError("give a launch script, or --model, such as --model Qwen3-8B")
    return find(rows, name)


def _plan_launch(
    words: tuple[str, ...], rows: Catalog, soc: str, shape: str, file: str | None, *, odd: bool
) -> int:
    from ascend_doctor.commands import planned_launch

    if odd:
        raise click.UsageError("--npus, --model, --framework and --lora do not change a launch")
    if len(words) == 1:
        refuse_other(words[0], SCRIPT, CONFIGURATION)
    command = words if len(words) > 1 else ()
    again = shlex.join(words if command else ("bash", words[0]))
    judged, where, chip = planned_launch.judge_launches(words[0], command, rows, soc)
    if shape == "json":
        text = planned_launch.data(judged, where, chip, _SCHEMA)
    elif shape == "html":
        text = planned_launch.html(judged, where, chip, again)
    else:
        page = map(_Prose, planned_launch.describe(judged, where, chip, again))
        text = _lines(page, _width(file))
    put(file, text)
    return planned_launch.exit_code(judged, where)


def _exit_code(layouts: Sequence[RankedLayout], where: RankBudget) -> int:
    if not layouts or layouts[0].fits is False:
        return EXIT_FINDINGS
    return EXIT_UNKNOWN if where.memory and layouts[0].fits is None else 0


def _layouts(
    asked: LayoutQuery, name: str | None, npus: int, where: RankBudget
) -> tuple[RankedLayout, ...]:
    if not name:
        return choices(asked, npus, where)
    layout = parse(name, npus)
    wrong = [text for _, text in broken(asked, layout)]
    if wrong:
        raise DataError(f"{layout.name} is not legal: {'; '.join(wrong)}")
    return (choice(asked, layout, where),)


def _frameworks(name: str | None, *, swap: bool) -> list[str]:
    if swap and name not in {None, "megatron"}:
        raise click.UsageError("--swap-optimizer is an option of MindSpeed: --framework megatron")
    return ["megatron"] if swap else [name] if name else list(FRAMEWORKS)


def _budget(rows: Catalog, name: str, per_node: int) -> RankBudget:
    family = rows.family_of(name)
    if family is None:
        known = ", ".join(sorted(soc.soc for row in rows.families for soc in row.socs))
        raise click.UsageError(f"--soc {name}: no such chip in the matrix; known are {known}")
    chips = [soc for soc in family.socs if soc.soc in {name, f"Ascend{name}"}]
    where = rank_budget(family, chips[0] if chips else None, per_node)
    if not where.memory:
        click.echo(say(f"no row says how much memory {name} has; nothing is said of fit"), err=True)
    return where


def _fewest(asked: LayoutQuery, where: RankBudget) -> int:
    if not where.memory:
        raise click.UsageError("without the memory of the chip --npus is needed")
    return fewest(asked, where, _MOST_NPUS)


def _width(file: str | None) -> int:
    return columns.page_width() if file in {None, "-"} else columns.PAGE


class _Prose(str):
    __slots__ = ()


def _lines(rows: Iterable[str], width: int = 0) -> str:
    return "".join(f"{line}\n" for row in rows for line in _broken(row, width))


def _broken(row: str, width: int) -> list[str]:
    line = one_line(row)
    # A broken command could not be copied; a table would lose its columns.
    if not isinstance(row, _Prose):
        return [line]
    text = line.lstrip()
    start, text = line[: len(line) - len(text)], say(text)
    if not width:
        return [start + text]
    first, *more = columns.wrap(text, max(width - len(start) - _HANGING, _ROOM)) or [""]
    return [start + first, *(start + " " * _HANGING + part for part in more)]


def _text(
    asked: LayoutQuery, where: RankBudget, layouts: Sequence[RankedLayout], top: int, npus: int
) -> Iterator[str]:
    yield _Prose(_title(asked, layouts, npus))
    if layouts and where.memory:
        yield _Prose(_answer(layouts, where))
    if asked.model.note:
        yield _Prose(asked.model.note)
    if not layouts:
        yield say("No layout satisfies every rule.")
        for rule in RULES:
            yield _Prose(f"  {say(rule.text)} ({rule.source})")
        return
    if where.memory:
        yield _Prose(
            f"{where.memory / GIB:.1f} GiB a NPU, less what is taken at idle; a layout fits with "
            f"{MARGIN:.0%} to spare, and is close with less: the estimate is not nearer"
        )
    yield ""
    yield _head(experts=bool(asked.model.experts))
    for number, layout in enumerate(layouts[:top], 1):
        fits = {True: "yes", False: "no", None: "close" if where.memory else "?"}[layout.fits]
        each = f"  {layout.experts:>7}" if asked.model.experts else ""
        again = "full" if layout.memory.recompute else "none"
        crosses = ", ".join(kind.upper() for kind in layout.crosses)
        over = crosses or (say("none") if where.per_node else "?")
        yield (
            f"{number:>3} {layout.layout.name:<22}{layout.memory.total / GIB:>10.1f}  "
            f"{columns.pad(say(fits), 6)}{columns.pad(say(again), 10)}{layout.step:>4.2f}x"
            f"{each}  {over}"
        )
    yield ""
    yield from map(_Prose, (NEARNESS, STEP_NEARNESS))


def _title(asked: LayoutQuery, layouts: Sequence[RankedLayout], npus: int) -> str:
    run = asked.run
    how = f"LoRA of rank {run.lora}" if run.lora else "all weights"
    return (
        f"{asked.model.title} on {quantity(npus, 'NPU')}: {how}, "
        f"{run.micro_batch} x {run.sequence} tokens, {quantity(len(layouts), 'legal layout')}"
    )


def _answer(layouts: Sequence[RankedLayout], where: RankBudget) -> str:
    best, has = layouts[0], where.memory / GIB
    name, takes = best.layout.name, best.memory.total / GIB
    return {
        True: f"Yes, it fits: {name} takes {takes:.1f} of {has:.1f} GiB a NPU",
        None: f"It is too close to tell: {name} takes {takes:.1f} of {has:.1f} GiB a NPU",
        False: f"No, it does not fit: {name} takes {takes:.1f} of {has:.1f} GiB a NPU",
    }[best.fits]


def _html(
    asked: LayoutQuery,
    where: RankBudget,
    layouts: Sequence[RankedLayout],
    frameworks: Sequence[str],
) -> str:
    from ascend_doctor.render.formats.html import bars_page

    npus = layouts[0].layout.npus if layouts else 0
    title = _title(asked, layouts, npus)
    best = layouts[0] if layouts else None
    flags = [(name, FRAMEWORKS[name](asked, best)) for name in frameworks] if best else []
    typed = [("stack", [setup_command(asked)]), *flags]
    return bars_page(
        _answer(layouts, where) if layouts and where.memory else title,
        [(each.layout.name, each.fits, each.memory, f"step {each.step:.2f}x") for each in layouts],
        limit=where.memory,
        about=[title, asked.model.note],
        commands=typed,
        notes=(NEARNESS, STEP_NEARNESS),
    )


def _head(*, experts: bool) -> str:
    each = "  " + columns.pad(say("experts"), 7) if experts else ""
    return (
        f"    {columns.pad(say('layout'), 22)}{_right('GiB a NPU', 10)}  "
        f"{columns.pad(say('fits'), 6)}{columns.pad(say('recompute'), 10)}{_right('step', 5)}"
        f"{each}  {say('over nodes')}"
    )


def _right(text: str, width: int) -> str:
    word = say(text)
    return " " * (width - columns.width(word)) + word


def _detail(
    asked: LayoutQuery,
    where: RankBudget,
    ranked: RankedLayout,
    frameworks: Sequence[str],
) -> Iterator[str]:
    yield ""
    yield f"{ranked.layout.name}: {say(describe_sizes(ranked.layout))}"
    parts = (f"{say(name)} {size / GIB:.1f}" for name, size in ranked.memory.parts.items())
    memory = ", ".join(parts)
    yield _Prose("  " + f"memory of a rank of stage {ranked.memory.stage}: {memory} GiB")
    for name in frameworks:
        yield ""
        yield name
        yield from (f"  {flag}" for flag in FRAMEWORKS[name](asked, ranked))
    yield ""
    yield say("stack")
    yield f"  {setup_command(asked)}"
    if "ms-swift" in frameworks:
        yield ""
        yield say("launch")
        yield from launch(asked, ranked, where.per_node)


def _data(
    asked: LayoutQuery,
    where: RankBudget,
    ranked_layouts: Sequence[RankedLayout],
    frameworks: Sequence[str],
) -> dict[str, object]:
    layouts = [
        {
            **msgspec.to_builtins(ranked),
            "name": ranked.layout.name,
            "total": ranked.memory.total,
            "dp": ranked.layout.dp,
            "edp": ranked.layout.edp,
            "groups": {kind: ranked.layout.groups(kind) for kind in TITLES},
            "flags": {name: FRAMEWORKS[name](asked, ranked) for name in frameworks},
        }
        for ranked in ranked_layouts
    ]
    return {
        "schema": _SCHEMA,
        "model": asked.model,
        "run": asked.run,
        "place": where,
        "margin": MARGIN,
        "nearness": {"memory": NEARNESS, "step": STEP_NEARNESS},
        "layouts": layouts,
        "rules": [{"text": rule.text, "source": rule.source} for rule in RULES],
    }
