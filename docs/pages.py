"""The generated pages of the documentation: commands, checks, the matrix, known failures.

They are in the language in use; nothing of them is kept in the repository.
"""

from __future__ import annotations

import contextlib
import functools
import html
import importlib
import inspect
import io
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import click
from paragraphs import PROBES, ROOT, probe_manual, translations

from ascend_doctor import language
from ascend_doctor.checks import all_checks
from ascend_doctor.cli import SECTIONS, run
from ascend_doctor.commands.explain import pages_by_name
from ascend_doctor.commands.short_help import WHOLE
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.judging.judge import Check
from ascend_doctor.language import current, say
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.loading import load
from ascend_doctor.matrix.schema import Component, Failures, KnownFailure, Source

sys.path.insert(0, str(ROOT))

from tests.machines.compose import build, names

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|])")
_FAMILY = re.compile(r"[A-Z].|\d{3}(?=\d)")
# Options, what has an underscore, and files of these kinds.
_CODE = re.compile(
    r"(?<![\w./:`-])(`[^`]+`|--[a-z][a-z-]*|[a-zA-Z0-9./]*[a-zA-Z0-9]_[a-zA-Z0-9_]*[=:./]?[\w./:]*\w"
    r"|[\w./-]+\.(?:sh|so|py|conf)|[A-Z]*PATH)(?![\w`])",
    re.ASCII,
)
_ADDRESS = re.compile(r"https?://[^\s<>]+")


class Subject(NamedTuple):
    """A page of the reference, and its entries by id; ``kind`` is its folder."""

    kind: str
    name: str
    title: str
    entries: dict[str, Iterable[str]]

    @property
    def place(self) -> str:
        return f"{self.kind}/{self.name}.md"

    def page(self) -> Iterator[str]:
        yield f"# {self.title}\n"
        for name, lines in self.entries.items():
            yield f"## {name} {{#{name}}}\n"
            yield from lines


def plain(text: str) -> str:
    """Text of the data in Markdown, in the language in use, without markup of its own."""
    return escaped(say(" ".join(text.split())))


def escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", html.escape(text, quote=False))


def marked(text: str) -> str:
    """As ``plain``, with options, variables, files and functions as code."""
    parts = _CODE.split(say(" ".join(text.split())))
    return "".join(
        f"`{part.strip('`')}`" if at % 2 else escaped(part) for at, part in enumerate(parts)
    )


def source(text: str) -> str:
    """A source as a link, if it is one."""
    return f"<{text}>" if _ADDRESS.fullmatch(text) else plain(text)


def phrase(text: str, *values: object) -> str:
    """What only these pages say, in the language in use."""
    chinese = translations().get(text) if current() == "zh" else None
    return (chinese or text).format(*values)


def manual(text: str) -> str:
    """A manual in Markdown, each paragraph in the language in use where it has one."""
    parts = inspect.cleandoc(text).split("\n\n")
    whole = [(part, " ".join(part.split())) for part in parts]
    said = (part if say(line) == line else say(line) for part, line in whole)
    return "\n\n".join(part if "`" in part else _CODE.sub(r"`\1`", part) for part in said)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


def commands() -> Iterator[str]:
    yield f"# {phrase('Commands')}\n"
    for title, section in SECTIONS.items():
        yield f"## {say(title)}\n"
        yield from table(
            (phrase("command"), phrase("use")),
            ((f"[{name}](command/{name}.md)", plain(text)) for name, text in section.items()),
        )


def described(
    found: click.Command, path: str, parent: click.Context | None, mark: str
) -> Iterator[str]:
    context = click.Context(
        found, info_name=path if parent is None else found.name, parent=parent, max_content_width=90
    )
    context.meta[WHOLE] = True
    yield f"{mark} {path}\n\n```text\n{found.get_help(context)}\n```\n"
    if isinstance(found, click.Group):
        for name in found.list_commands(context):
            if one := found.get_command(context, name):
                yield from described(one, f"{path} {name}", context, f"{mark}#")


def subjects(catalog: Catalog) -> list[Subject]:
    """The pages of checks, known failures and error codes."""
    areas: dict[str, list[Check]] = {}
    for check in all_checks():
        areas.setdefault(check.run.__module__.split(".")[2], []).append(check)
    found = [
        Subject(
            "check", area, phrase("Checks: {0}", area), {one.id: one_check(one) for one in rows}
        )
        for area, rows in areas.items()
    ]
    merged = {name: merged_check(topic.title, topic.explain) for name, topic in TOPICS.items()}
    found.append(Subject("check", "merged", phrase("In merged reports"), merged))
    for name, paths in catalog.files("failures").items():
        rows = [row for path in paths for row in load(path, Failures).failures]
        title = phrase("Known failures: {0}", name)
        found.append(Subject("failure", name, title, {row.id: failure(row) for row in rows}))
    places = {name: f"../{one.place}#{name}" for one in found for name in one.entries}
    families: dict[str, list[str]] = {}
    for code in codes(catalog):
        families.setdefault(family(code), []).append(code)
    for name, members in families.items():
        title = phrase("Error codes: {0}", name)
        entries = {code: one_code(code, catalog, places) for code in members}
        found.append(Subject("code", name, title, entries))
    return found


def addresses(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """The address of each id, and where it leads from there."""
    for subject in subjects(catalog):
        for name in subject.entries:
            yield f"{subject.kind}/{name}", f"../{subject.name}/#{name}"


def index(title: str, kind: str, about: str, found: list[Subject]) -> Iterator[str]:
    """The ids of one kind by subject."""
    yield f"# {title}\n\n{about}\n"
    for subject in found:
        if subject.kind == kind:
            links = (f"[{name}]({subject.place}#{name})" for name in subject.entries)
            yield f"## [{subject.name}]({subject.place})\n\n{' · '.join(links)}\n"


def sources(found: tuple[Source, ...]) -> str:
    return "; ".join(f"{source(one.url)} ({one.date})" for one in found)


def matrix(catalog: Catalog) -> Iterator[str]:
    yield f"# {phrase('The matrix')}\n\n## {phrase('Stacks')}\n"
    yield from table(
        (phrase("stack"), phrase("status"), phrase("components"), phrase("sources")),
        (
            (
                plain(one.id),
                one.status,
                "<br>".join(f"{plain(k)} {plain(v)}" for k, v in one.components.items()),
                sources(one.sources),
            )
            for one in catalog.stacks
        ),
    )
    for component in catalog.components:
        yield from of(component)


def of(component: Component) -> Iterator[str]:
    yield f"## {plain(component.title)}\n\n`{component.id}`. {plain(component.note)}\n"
    if component.releases:
        yield from table(
            (phrase("version"), phrase("status"), phrase("needs"), phrase("sources")),
            (
                (
                    plain(one.version),
                    one.status,
                    "<br>".join(
                        f"{need.component} {plain(need.versions)}" for need in one.requires
                    ),
                    sources(one.sources),
                )
                for one in component.releases
            ),
        )
    if component.refs:
        yield from table(
            (phrase("ref that documents name"), phrase("there"), phrase("use")),
            (
                (
                    plain(one.ref),
                    phrase("yes") if one.exists else phrase("no"),
                    plain(one.use or one.note),
                )
                for one in component.refs
            ),
        )


def failure(one: KnownFailure) -> Iterator[str]:
    yield f"**{plain(one.title)}** ({say(one.severity)})\n"
    if one.example:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", one.example)), default=0))
        yield f"{fence}text\n{one.example}\n{fence}\n"
    yield f"**{say('Why')}** {marked(one.cause)}\n\n**{say('Fix')}** {marked(one.fix)}\n"
    if one.caught_by:
        yield phrase("Before a run: ") + f"`ascend-doctor check --only {one.caught_by[0]}`\n"
    yield phrase("Sources: ") + ", ".join(map(source, one.sources)) + "\n"


def variables(catalog: Catalog) -> Iterator[str]:
    yield f"# {phrase('Environment variables')}\n"
    yield from table(
        (
            *(phrase("variable"), phrase("meaning"), phrase("default"), phrase("recommended")),
            phrase("sources"),
        ),
        (
            (
                f"`{one.name}`",
                plain(one.meaning),
                plain(one.default),
                plain(one.recommend),
                sources(one.sources),
            )
            for one in catalog.variables.variables
        ),
    )


def entries(catalog: Catalog) -> Iterator[tuple[str, Iterator[str]]]:
    """A page for each command, probe, and subject of checks, failures and error codes."""
    for name in (name for section in SECTIONS.values() for name in section):
        module = importlib.import_module(f"ascend_doctor.commands.{name}")
        yield f"command/{name}.md", described(module.command, f"ascend-doctor {name}", None, "#")
    for probe in PROBES:
        yield f"probe/{probe.stem.replace('_', '-')}.md", one_probe(probe)
    for subject in subjects(catalog):
        yield subject.place, subject.page()


@functools.cache
def examples(lang: str) -> dict[str, str]:
    """What a check of a recorded machine prints of a finding, by the check's id."""
    found: dict[str, str] = {}
    ids = {check.id for check in all_checks()}
    with tempfile.TemporaryDirectory() as folder:
        for name in names():
            machine = str(build(name, Path(folder, name)))
            out = io.TextIOWrapper(io.BytesIO(), "utf-8")
            with contextlib.redirect_stdout(out):
                run(["--lang", lang, "check", "-q", "-l", "0", "--replay", machine])
                out.flush()
            for block in out.buffer.getvalue().decode().split("\n\n"):
                found.setdefault(block.partition("\n")[0].rpartition(" ")[2], block)
    language.choose(lang)
    return {name: block for name, block in found.items() if name in ids}


def one_check(check: Check) -> Iterator[str]:
    yield f"**{plain(check.title)}.** {phrase('Level {0}.', check.level)}\n"
    yield manual(check.explain) + "\n"
    if check.probe:
        link = f"[{check.probe}](../probe/{check.probe}.md)"
        yield phrase("It judges what the probe {0} measured.", link) + "\n"
    yield f"```bash\nascend-doctor check -l {check.level} --only {check.id}\n```\n"
    if example := examples(current()).get(check.id):
        yield f"```text\n{example}\n```\n"


def merged_check(title: str, text: str) -> Iterator[str]:
    yield f"**{plain(title)}.**\n\n{manual(text)}\n"


def one_probe(file: Path) -> Iterator[str]:
    name = file.stem.replace("_", "-")
    yield f"# {name}\n"
    summary, *more = probe_manual(file)
    yield phrase(summary) + "\n"
    yield phrase("How to run it alone, and what it records:") + "\n"
    yield "```text\n" + "\n\n".join(more).replace("```", "") + "\n```\n"
    for check in all_checks():
        if check.probe == name:
            area = check.run.__module__.split(".")[2]
            link = f"[{check.id}](../check/{area}.md#{check.id})"
            yield "- " + phrase("judged by {0}", link)


def codes(catalog: Catalog) -> list[str]:
    known = catalog.error_codes
    numbers = {str(number) for number in (*known.acl, *known.hccl)}
    return sorted({*known.reported, *numbers, *catalog.error_guides})


def family(code: str) -> str:
    """The page of an error code: its first letters, or figures; small numbers are HCCL's."""
    begun = _FAMILY.match(code)
    return begun[0] if begun else "HCCL"


def one_code(code: str, catalog: Catalog, places: Mapping[str, str]) -> Iterator[str]:
    """What ``explain`` says of a code; its failures are links."""
    for page in pages_by_name(code, catalog):
        title = page.partition("\n")[0]
        name = title.partition(": ")[0]
        if name in places:
            yield f"- [{plain(title)}]({places[name]})\n"
        else:
            yield "```text\n" + page.replace("```", "") + "\n```\n"


def pages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """All generated pages by the place of their files."""
    found = subjects(catalog)
    about = {
        "check": (
            "checks",
            phrase("Checks"),
            phrase("The manual of each, as `ascend-doctor explain ID` prints it."),
        ),
        "failure": (
            "failures",
            phrase("Known failures"),
            phrase("What `ascend-doctor diagnose` finds in logs."),
        ),
        "code": (
            "codes",
            phrase("Error codes"),
            phrase("What `ascend-doctor explain CODE` says of each."),
        ),
    }
    for name, page in (
        *entries(catalog),
        *(
            (f"{name}.md", index(title, kind, text, found))
            for kind, (name, title, text) in about.items()
        ),
        ("commands.md", commands()),
        ("matrix.md", matrix(catalog)),
        ("variables.md", variables(catalog)),
    ):
        yield name, "\n".join(page)
