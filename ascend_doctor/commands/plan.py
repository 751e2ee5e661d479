"""``ascend-doctor plan``: parallel layouts for a model on a number of NPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.commands.options import defaulted, flag
from ascend_doctor.commands.options.format_option import FormatOption
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.launch import read_megatron, timeout_option
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.commands.options.output import file_option, put
from ascend_doctor.commands.options.stack import LaunchRuns, run_options
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_UNKNOWN
from ascend_doctor.findings import quantity
from ascend_doctor.language import say
from ascend_doctor.machine import watchdog
from ascend_doctor.machine.files import is_there
from ascend_doctor.machine.kinds import CONFIGURATION, MODEL, SCRIPT, refuse_other
from ascend_doctor.matrix.models import find, find_named, find_near
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
from ascend_doctor.render import columns
from ascend_doctor.render.columns import Prose
from ascend_doctor.render.formats.json import pretty
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.commands.planned_launch import LaunchPage
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
@gather_options(
    "training",
    lambda seq, micro_batch, global_batch, swap_optimizer, lora: TrainingRun(
        sequence=seq, micro_batch=micro_batch, global_batch=global_batch or 0,
        swap=swap_optimizer, lora=lora or 0,
    ),
    defaulted("--seq", type=click.IntRange(1, 1 << 24), default=4096),
    defaulted("--micro-batch", type=click.IntRange(1, 4096), default=1),
    click.option("--global-batch", type=click.IntRange(1, 1 << 20), help="Samples of a step."),
    flag("--swap-optimizer", help="Its states on the host (MindSpeed)."),
    click.option("--lora", type=click.IntRange(1, 4096), metavar="R", help="LoRA of this rank."),
)  # fmt: skip
@click.option("--framework", type=click.Choice(list(FRAMEWORKS)), help="Whose options to print.")
@click.option("--megatron", metavar="X", default="", help="Version; some rules differ by it.")
@click.option("--layout", "layout_name", metavar="L", help="Judge this one, such as TP2·EP4.")
@defaulted("--top", type=click.IntRange(1, 1000), default=8)
@run_options
@timeout_option("Seconds for all runs of --run and --sweep.", default=1800)
@matrix_option
@click.option(
    "--format",
    "shape",
    cls=FormatOption,
    type=click.Choice(_SHAPES),
    help="[default: the file's ending; text]",
)
@file_option("Write it there, whole or not at all.")
def command(
    *,
    launches: tuple[str, ...],
    name: str | None,
    npus: int | None,
    soc: str | None,
    per_node: int | None,
    training: TrainingRun,
    framework: str | None,
    megatron: str,
    layout_name: str | None,
    top: int,
    runs: LaunchRuns | None,
    timeout: float,
    overlays: tuple[str, ...],
    shape: str | None,
    file: str | None,
) -> int:
    """Rank the legal parallel layouts of a model, with the memory that each NPU needs.

    Of a LAUNCH, a script or a configuration, or of a COMMAND: whether it fits as it is.

    \b
    Exit codes: 0 a layout fits, 1 none fits, 2 bad usage, 3 too close to the memory to tell.
    """
    watchdog.limit(None if runs else timeout)
    rows = catalog(overlays)
    if not name and launches[1:] and find_named(rows, launches[0]):
        npus_typed = launches[1] if launches[1].isdecimal() else "N"
        raise click.UsageError(f"say `ascend-doctor plan {launches[0]} --npus {npus_typed}`")
    if not name and len(launches) == 1 and _means_model(launches[0], rows):
        name, launches = launches[0], ()
    if launches:
        if npus or name or framework or training.lora:
            raise click.UsageError(
                "--npus, --model, --framework and --lora do not change a launch; its own follow --"
            )
        page = _plan_launch(launches, rows, soc)
        return _write(runs.count(page, timeout) if runs else page, shape, file)
    if runs or not name:
        raise click.UsageError("give a launch script, or --model, such as --model Qwen3-8B")
    if layout_name and not npus:
        raise click.UsageError("--layout needs --npus")
    query = LayoutQuery(model=find(rows, name), run=training, megatron=read_megatron(megatron))
    asked = fit_delta(query)
    where = _budget(rows, soc, per_node or 0)
    npus = npus or _fewest(asked, where)
    layouts = _layouts(asked, layout_name, npus, where)
    if not soc:
        click.echo(say(f"assuming {_USUAL_SOC} with 64 GB; --soc names another chip"), err=True)
    frameworks = _frameworks(framework, swap=training.swap)
    shown = _ModelPage(asked, where, layouts, frameworks, npus=npus, top=top)
    return _write(shown, shape, file)


def _means_model(word: str, rows: Catalog) -> bool:
    return bool(find_named(rows, word) or (not is_there(word) and find_near(rows, word)))


def _plan_launch(words: tuple[str, ...], rows: Catalog, soc: str | None) -> LaunchPage:
    from ascend_doctor.commands.planned_launch import judge_launches

    if len(words) == 1:
        refuse_other(words[0], SCRIPT, CONFIGURATION)
    return judge_launches(words, rows, rows.chip_called(soc) if soc else "")


def _write(page: LaunchPage | _ModelPage, shape: str | None, file: str | None) -> int:
    ending = file.rpartition(".")[2] if file else ""
    shape = shape or (ending if ending in _SHAPES else "text")
    if shape == "json":
        text = pretty({"schema": _SCHEMA, **page.data()})
    elif shape == "html":
        text = page.html()
    else:
        width = columns.page_width() if file in {None, "-"} else columns.PAGE
        text = "".join(f"{line}\n" for row in page.describe() for line in _broken(row, width))
    put(file, text)
    return page.exit_code()


def _layouts(
    asked: LayoutQuery, name: str | None, npus: int, where: RankBudget
) -> tuple[RankedLayout, ...]:
    if not name:
        return choices(asked, npus, where)
    layout = parse(name, npus)
    wrong = [say(rule.text) for rule in broken(asked, layout)]
    if wrong:
        raise DataError(f"{layout.name} breaks a rule: {'; '.join(wrong)}")
    return (choice(asked, layout, where),)


def _frameworks(name: str | None, *, swap: bool) -> list[str]:
    if swap and name not in {None, "megatron"}:
        raise click.UsageError("--swap-optimizer is an option of MindSpeed: --framework megatron")
    return ["megatron"] if swap else [name] if name else list(FRAMEWORKS)


def _budget(rows: Catalog, soc: str | None, per_node: int) -> RankBudget:
    name = rows.chip_called(soc or _USUAL_SOC)
    where = rank_budget(rows, name, per_node)
    if where is None:
        known = ", ".join(sorted(soc.soc for row in rows.families for soc in row.socs))
        raise click.UsageError(f"--soc {name}: no such chip in the matrix; known are {known}")
    if not where.memory:
        click.echo(say(f"no row says how much memory {name} has; nothing is said of fit"), err=True)
    return where


def _fewest(asked: LayoutQuery, where: RankBudget) -> int:
    if not where.memory:
        raise click.UsageError("without the memory of the chip --npus is needed")
    return fewest(asked, where, _MOST_NPUS)


def _broken(row: str, width: int) -> list[str]:
    line = one_line(row)
    # A broken command could not be copied; a table would lose its columns.
    if not isinstance(row, Prose):
        return [line]
    text = line.lstrip()
    start = line[: len(line) - len(text)]
    first, *more = columns.wrap(say(text), max(width - len(start) - _HANGING, _ROOM)) or [""]
    return [start + first, *(start + " " * _HANGING + part for part in more)]


def _right(text: str, width: int) -> str:
    word = say(text)
    return " " * (width - columns.width(word)) + word


class _ModelPage:
    """What is said of a model's layouts."""

    def __init__(
        self,
        asked: LayoutQuery,
        where: RankBudget,
        layouts: Sequence[RankedLayout],
        frameworks: Sequence[str],
        *,
        npus: int,
        top: int,
    ) -> None:
        self._asked, self._where, self._layouts = asked, where, layouts
        self._shown, self._frameworks = layouts[:top], frameworks
        run = asked.run
        how = f"LoRA of rank {run.lora}" if run.lora else "all weights"
        self._title = (
            f"{asked.model.title} on {quantity(npus, 'NPU')}: {how}, "
            f"{run.micro_batch} x {run.sequence} tokens, {quantity(len(layouts), 'legal layout')}"
        )

    def exit_code(self) -> int:
        if not self._layouts or self._layouts[0].fits is False:
            return EXIT_FINDINGS
        return EXIT_UNKNOWN if self._where.memory and self._layouts[0].fits is None else 0

    def describe(self) -> Iterator[str]:
        yield Prose(self._title)
        memory = self._where.memory
        if answer := self._answer():
            yield Prose(answer)
        if self._asked.model.note:
            yield Prose(self._asked.model.note)
        if not self._layouts:
            yield say("No layout satisfies every rule.")
            for rule in RULES:
                yield Prose(f"  {say(rule.text)} ({rule.source})")
            return
        if memory:
            yield Prose(
                f"{memory / GIB:.1f} GiB an NPU, less what is taken at idle; a layout fits with "
                f"{MARGIN:.0%} to spare, and is close with less: the estimate is not nearer"
            )
        yield ""
        each = "  " + columns.pad(say("experts"), 7) if self._asked.model.experts else ""
        yield (
            f"    {columns.pad(say('layout'), 22)}{_right('GiB an NPU', 10)}  "
            f"{columns.pad(say('fits'), 6)}{columns.pad(say('recompute'), 10)}"
            f"{each}  {say('over nodes')}"
        )
        yield from (f"{number:>3} {self._row(row)}" for number, row in enumerate(self._shown, 1))
        yield ""
        yield Prose(NEARNESS)
        yield from self._detail(self._layouts[0])

    def _row(self, row: RankedLayout) -> str:
        where = self._where
        fits = {True: "yes", False: "no", None: "close" if where.memory else "?"}[row.fits]
        each = f"  {row.experts:>7}" if self._asked.model.experts else ""
        again = "full" if row.memory.recompute else "none"
        crosses = ", ".join(kind.upper() for kind in row.crosses)
        over = crosses or (say("none") if where.per_node else "?")
        return (
            f"{row.layout.name:<22}{row.memory.total / GIB:>10.1f}  "
            f"{columns.pad(say(fits), 6)}{columns.pad(say(again), 10)}{each}  {over}"
        )

    def _answer(self) -> str:
        if not (self._layouts and self._where.memory):
            return ""
        best, has = self._layouts[0], self._where.memory / GIB
        name, takes = best.layout.name, best.memory.total / GIB
        return {
            True: f"Yes, it fits: {name} takes {takes:.1f} of {has:.1f} GiB an NPU",
            None: f"It is too close to tell: {name} takes {takes:.1f} of {has:.1f} GiB an NPU",
            False: f"No, it does not fit: {name} takes {takes:.1f} of {has:.1f} GiB an NPU",
        }[best.fits]

    def html(self) -> str:
        from ascend_doctor.render.formats.html import bars_page

        flags = [
            (name, FRAMEWORKS[name](self._asked, best))
            for best in self._layouts[: self.exit_code() != EXIT_FINDINGS]
            for name in self._frameworks
        ]
        typed = [("stack", [setup_command(self._asked)]), *flags] if flags else []
        return bars_page(
            self._answer() or self._title,
            [(each.layout.name, each.fits, each.memory) for each in self._shown],
            limit=self._where.memory,
            about=[self._title, self._asked.model.note],
            commands=typed,
            notes=[NEARNESS],
        )

    def _detail(self, best: RankedLayout) -> Iterator[str]:
        asked = self._asked
        yield ""
        yield f"{best.layout.name}: {say(describe_sizes(best.layout))}"
        memory = ", ".join(f"{say(name)} {b / GIB:.1f}" for name, b in best.memory.parts.items())
        yield Prose("  " + f"memory of a rank of stage {best.memory.stage}: {memory} GiB")
        for name in self._frameworks:
            yield from ("", name, *(f"  {flag}" for flag in FRAMEWORKS[name](asked, best)))
        yield from ("", say("stack"), f"  {setup_command(asked)}")
        if "ms-swift" in self._frameworks:
            yield from ("", say("launch"), *launch(asked, best, self._where.per_node))

    def data(self) -> dict[str, object]:
        layouts = [
            {
                **msgspec.to_builtins(each),
                "name": each.layout.name,
                "total": each.memory.total,
                "dp": each.layout.dp,
                "edp": each.layout.edp,
                "groups": {kind: each.layout.groups(kind) for kind in TITLES},
                "flags": {name: FRAMEWORKS[name](self._asked, each) for name in self._frameworks},
            }
            for each in self._shown
        ]
        return {
            "model": self._asked.model,
            "run": self._asked.run,
            "place": self._where,
            "margin": MARGIN,
            "nearness": {"memory": NEARNESS},
            "layouts": layouts,
            "rules": [{"text": rule.text, "source": rule.source} for rule in RULES],
        }
