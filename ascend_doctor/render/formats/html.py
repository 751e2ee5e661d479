"""The report as one self-contained page: it asks for nothing, and needs no script to be read."""

import base64
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jinja2
import markupsafe

from ascend_doctor import __version__, language
from ascend_doctor.comparison.comparable import group_settings
from ascend_doctor.findings import Finding, Level, quantity
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.planning.memory import GIB, Memory
from ascend_doctor.render.fields import fields, first_step
from ascend_doctor.render.fleet_grid import grid_of
from ascend_doctor.render.manual import page_of
from ascend_doctor.render.page import MARKS
from ascend_doctor.render.pairs import matrix_of
from ascend_doctor.render.plain import one_line, shorten
from ascend_doctor.report import Report

_PAGES = Path(__file__).parent.parent / "pages"
_NO_ID = re.compile(r"[^a-z0-9-].*")
_NODES = 48  # in the matrix of pairs
# Too long words break after separators of paths, names and lists.
_LONG_WORD = re.compile(r"\S{16,}")
_DIVIDER = re.compile(r"(?<=\S[,/_.=:;)\]])(?=[^\s,/_.=:;)\]])(?!(?<=\.)\d)")
_MARKS = {level.value: mark for level, (mark, _, _) in MARKS.items()}
_LOCALES = {"en": "en", "zh": "zh-CN"}
_OTHERS = {"en": "zh", "zh": "en"}
_NAMES = {"en": "English", "zh": "\u4e2d\u6587"}
_BODY = re.compile(r'<body>\n(<div id="page".*</div>)\n<p id="said"', re.DOTALL)


def in_both_languages(render: Callable[..., str]) -> Callable[..., str]:
    """The page in the chosen language, and the other one in a template, for a button."""

    @functools.wraps(render)
    def both(*arguments: Any, **options: Any) -> str:
        chosen = language.current()
        try:
            language.choose(_OTHERS[chosen])
            (other,) = _BODY.findall(render(*arguments, **options))
        finally:
            language.choose(chosen)
        template = f'<template id="other">{other}</template>\n<script>'
        return template.join(render(*arguments, **options).rsplit("<script>", 1))

    return both


@in_both_languages
def render(report: Report) -> str:
    """One page for all screens, light and dark, keyboard and screen reader."""
    settings = group_settings(report.snapshot, Catalog().distributions)
    complaints = report.complaints
    start = first_step(report)
    return page("report.html").render(
        report=report,
        grid=grid_of(report, language.say),
        heading=_heading(report),
        start=start if start[0] else None,
        findings=list(zip(complaints, _anchors(complaints), strict=True)),
        consequences=report.consequences,
        fine=[finding for finding in report.findings if finding.level in {Level.OK, Level.SKIPPED}],
        facts=[(group.value, rows) for group, rows in settings.items() if rows],
        runs=[run for run in report.snapshot.probes if run.ranks],
        matrix=matrix_of(report, most=_NODES),
        **parts(),
    )


PlannedMemory: TypeAlias = tuple[str, bool | None, Memory]


@in_both_languages
def bars_page(heading: str, rows: Sequence[PlannedMemory], **more: Any) -> str:
    """Memory as bars against ``limit``: names, whether it fits, memory.

    ``about``, ``commands`` with titles, and ``notes`` are of the whole page. Sizes in bytes.
    """
    longest = 1.02 * max([more["limit"], 1.0, *(memory.total for _, _, memory in rows)])
    names = list(dict.fromkeys(name for _, _, memory in rows for name in memory.parts))
    more |= {"heading": heading, "rows": rows, "names": names, "gib": GIB, **parts()}
    return page("plan.html").render(version=__version__, longest=longest, **more)


def _heading(report: Report) -> str:
    """The first cause, which a title of a window shows whole; of a good machine the verdict."""
    first = next(iter(report.complaints), None)
    if first is None:
        return report.headline
    if report.fleet is None or not first.nodes:
        return first.title
    return f"{_say(first.title)} ({_say(quantity(len(first.nodes), 'node'))})"


def _anchors(findings: Iterable[Finding]) -> Iterator[str]:
    """The id of each finding's check, with a number where it has several."""
    times: Counter[str] = Counter()
    for finding in findings:
        name = _NO_ID.sub("", finding.check)
        times[name] += 1
        yield name if times[name] == 1 else f"{name}-{times[name]}"


def parts() -> dict[str, Any]:
    """Parts of every page: language, style, script, and the hash that its policy allows."""
    script = _text("report.js")
    return {
        "lang": _LOCALES[language.current()],
        "other": (_LOCALES[other := _OTHERS[language.current()]], _NAMES[other]),
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
        # Markup, a subclass of str, is already harmless.
        finalize=lambda value: one_line(value) if type(value) is str else value,
    )
    pages.globals.update(
        page_of=page_of, marks=_MARKS, say=_say, form=language.form, quantity=quantity
    )
    pages.filters.update(shortened=shorten, breakable=_breakable)
    pages.filters.update(
        say=_say,
        say_items=lambda text: ", ".join(map(_say, text.split(", "))),
        fields=lambda finding, leads: list(fields(finding, leads, _say)),
    )
    return pages.get_template(name)


def _say(text: Any) -> str:
    return language.say(str(text))


def _breakable(text: str) -> Any:
    marked = _LONG_WORD.sub(lambda word: _DIVIDER.sub("\0", word[0]), one_line(text))
    return markupsafe.Markup("<wbr>").join(marked.split("\0"))


def _text(name: str) -> Any:
    return markupsafe.Markup(_PAGES.joinpath(name).read_text("utf-8"))  # noqa: S704 - our own file
