"""The report as one self-contained page: it asks for nothing, and needs no script to be read."""

import base64
import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import markupsafe

from ascend_doctor import language
from ascend_doctor.comparison.comparable import group_settings
from ascend_doctor.findings import Finding, Level, quantity
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.render.fields import fields
from ascend_doctor.render.fleet_grid import grid_of
from ascend_doctor.render.manual import page_of
from ascend_doctor.render.page import MARKS
from ascend_doctor.render.pairs import matrix_of
from ascend_doctor.render.plain import one_line, shorten
from ascend_doctor.report import Report

_PAGES = Path(__file__).parent.parent / "pages"
_SHOWN = (Level.ERROR, Level.UNKNOWN, Level.WARNING)
_NODES = 48  # in the matrix of pairs
# Too long words break after separators of paths, names and lists.
_LONG_WORD = re.compile(r"\S{16,}")
_DIVIDER = re.compile(r"(?<=\S[,/_.=:;)\]])(?=[^\s,/_.=:;)\]])(?!(?<=\.)\d)")
_ENDED = {
    True: ("passed", Level.OK),
    False: ("failed", Level.ERROR),
    None: ("no result", Level.UNKNOWN),
}
_MARKS = {level: mark for level, (mark, _, _) in MARKS.items()}
_LOCALES = {"en": "en", "zh": "zh-CN"}


def render(report: Report) -> str:
    """One page for all screens, light and dark, keyboard and screen reader."""
    catalog = Catalog()
    complaints = report.complaints
    levels = _SHOWN if report.fleet else tuple(reversed(Level))
    return page("report.html").render(
        report=report,
        grid=grid_of(report, language.say),
        groups=[
            (level, findings)
            for level in _SHOWN
            if (findings := [finding for finding in complaints if finding.level is level])
        ],
        consequences=report.consequences,
        fine=[finding for finding in report.findings if finding.level in {Level.OK, Level.SKIPPED}],
        counts=[(level.value, getattr(report.verdict, level.value)) for level in levels],
        marks=_MARKS,
        facts=_facts(report, catalog),
        timelines=[_timeline(run) for run in report.snapshot.probes if run.ranks],
        matrix=matrix_of(report, most=_NODES),
        **parts(),
    )


def parts() -> dict[str, Any]:
    """Parts of every page: language, style, script, and the hash that its policy allows."""
    script = _text("report.js")
    return {
        "lang": _LOCALES[language.current()],
        "style": _text("report.css"),
        "script": script,
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }


@functools.cache
def page(name: str) -> jinja2.Template:
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # A misspelt name would be an empty place on the page.
        undefined=jinja2.StrictUndefined,
        finalize=_harmless,
    )
    pages.globals.update(page_of=page_of, say=_say, form=language.form, quantity=quantity)
    pages.filters.update(shortened=shorten, fields=_fields, breakable=_breakable)
    pages.filters.update(say=_say, say_items=_say_items)
    return pages.get_template(name)


def _say(text: Any) -> str:
    return language.say(str(text))


def _say_items(text: str) -> str:
    return ", ".join(map(_say, text.split(", ")))


def _fields(finding: Finding, consequences: Iterable[Finding]) -> list[tuple[str, str]]:
    return list(fields(finding, consequences, _say))


def _harmless(value: Any) -> Any:
    # Markup, a subclass of str, is already harmless.
    return one_line(value) if type(value) is str else value


def _breakable(text: str) -> Any:
    marked = _LONG_WORD.sub(lambda word: _DIVIDER.sub("\0", word[0]), one_line(text))
    return markupsafe.Markup("<wbr>").join(marked.split("\0"))


def _text(name: str) -> Any:
    return markupsafe.Markup(_PAGES.joinpath(name).read_text("utf-8"))  # noqa: S704 - our own file


def _facts(report: Report, catalog: Catalog) -> list[tuple[str, list[tuple[str, str]]]]:
    settings = group_settings(report.snapshot, catalog.distributions)
    return [(group.value, rows) for group, rows in settings.items() if rows]


class Span(NamedTuple):
    """A stage of a rank: its start and length, in per cent of the longest rank.

    ``level`` is how it ended; every other stage is ``pale``, to separate neighbours.
    """

    stage: str
    seconds: float
    start: float
    width: float
    level: Level
    pale: bool


class RankStages(NamedTuple):
    """``stage`` is the last begun one."""

    rank: int
    mark: str
    ended: str
    level: Level
    stage: str
    spans: list[Span]


class Timeline(NamedTuple):
    """``stages`` are in the order of arrival."""

    probe: str
    seconds: float
    simulated: bool
    stages: list[str]
    ranks: list[RankStages]


def _timeline(run: ProbeRun) -> Timeline:
    longest = max((sum(rank.stages.values()) for rank in run.ranks), default=0.0) or 1.0
    names = list(dict.fromkeys(stage for rank in run.ranks for stage in rank.stages))
    ranks = []
    for result in sorted(run.ranks, key=lambda result: result.rank):
        ended, level = _ENDED[result.ok and not result.wrong]
        if result.skipped:
            ended, level = "skipped", Level.SKIPPED
        at, spans = 0.0, []
        for stage, seconds in result.stages.items():
            # Even a stage without duration must be visible.
            width = max(100 * seconds / longest, 0.2)
            of = level if stage == result.stage else Level.OK
            pale = bool(names.index(stage) % 2)
            spans.append(Span(stage, seconds, 100 * at / longest, width, of, pale))
            at += seconds
        ranks.append(RankStages(result.rank, _MARKS[level], ended, level, result.stage, spans))
    return Timeline(run.probe, run.seconds, run.simulated, names, ranks)
