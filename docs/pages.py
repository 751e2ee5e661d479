"""The generated pages of the documentation: commands, checks, the matrix, known failures.

They are in the language in use; nothing of them is kept in the repository.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from paragraphs import PROBES, probe_manual, translations

from ascend_doctor.checks import all_checks
from ascend_doctor.cli import SECTIONS
from ascend_doctor.commands.explain import pages_by_name
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.judging.judge import Check
from ascend_doctor.language import current, say
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component, KnownFailure, Source
from ascend_doctor.report import LEVELS

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


def plain(text: str) -> str:
    """Text of the data in Markdown, in the language in use, without markup of its own."""
    return _SPECIAL.sub(r"\\\1", say(" ".join(text.split())))


def phrase(text: str, *values: object) -> str:
    """What only these pages say, in the language in use."""
    chinese = translations().get(text) if current() == "zh" else None
    return (chinese or text).format(*values)


def manual(text: str) -> str:
    """A manual in Markdown, each paragraph in the language in use where it has one."""
    parts = inspect.cleandoc(text).split("\n\n")
    whole = [(part, " ".join(part.split())) for part in parts]
    return "\n\n".join(part if say(line) == line else say(line) for part, line in whole)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


def commands() -> Iterator[str]:
    yield f"# {phrase('Commands')}\n"
    for name in (name for table in SECTIONS.values() for name in table):
        found: click.Command = importlib.import_module(f"ascend_doctor.commands.{name}").command
        yield from described(found, f"ascend-doctor {name}", None, "##")


def described(
    found: click.Command, path: str, parent: click.Context | None, mark: str
) -> Iterator[str]:
    context = click.Context(
        found, info_name=path if parent is None else found.name, parent=parent, max_content_width=90
    )
    yield f"{mark} {path}\n\n```text\n{found.get_help(context)}\n```\n"
    if isinstance(found, click.Group):
        for name in found.list_commands(context):
            if one := found.get_command(context, name):
                yield from described(one, f"{path} {name}", context, f"{mark}#")


def checks() -> Iterator[str]:
    yield f"# {phrase('Checks')}\n"
    yield phrase("The manual of each, as `ascend-doctor explain ID` prints it.") + "\n"
    for level, adds in enumerate(LEVELS):
        yield f"## {say(f'level {level}: {adds}')}\n"
        for one in all_checks():
            if one.level == level:
                yield f"### {one.id}\n\n**{plain(one.title)}.**\n"
                yield manual(one.explain) + "\n"
    yield f"## {phrase('In merged reports')}\n"
    for name, topic in TOPICS.items():
        yield f"### {name}\n\n**{plain(topic.title)}.**\n\n{manual(topic.explain)}\n"


def sources(found: tuple[Source, ...]) -> str:
    return "; ".join(f"{plain(one.url)} ({one.date})" for one in found)


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


def failures(catalog: Catalog) -> Iterator[str]:
    yield f"# {phrase('Known failures')}\n"
    yield phrase("What `ascend-doctor diagnose` finds in logs.") + "\n"
    for name, one in sorted(catalog.failures.items()):
        yield from failure(name, one, "##")


def failure(name: str, one: KnownFailure, mark: str) -> Iterator[str]:
    yield f"{mark} {name}\n\n**{plain(one.title)}** ({say(one.severity)})\n"
    if one.example:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", one.example)), default=0))
        yield f"{fence}text\n{one.example}\n{fence}\n"
    yield f"{plain(one.cause)}\n\n{plain(one.fix)}\n"
    yield phrase("Sources: ") + ", ".join(plain(url) for url in one.sources) + "\n"


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
    """A page for each command, check, probe, failure and error code; the addresses stay."""
    for name in (name for section in SECTIONS.values() for name in section):
        module = importlib.import_module(f"ascend_doctor.commands.{name}")
        yield f"command/{name}.md", described(module.command, f"ascend-doctor {name}", None, "#")
    for check in all_checks():
        yield f"check/{check.id}.md", one_check(check)
    for probe in PROBES:
        yield f"probe/{probe.stem.replace('_', '-')}.md", one_probe(probe)
    for name, known in catalog.failures.items():
        yield f"failure/{name}.md", failure(name, known, "#")
    for code in codes(catalog):
        yield f"code/{code}.md", one_code(code, catalog)


def one_check(check: Check) -> Iterator[str]:
    yield f"# {check.id}\n\n**{plain(check.title)}.** "
    yield phrase("Level {0}.", check.level) + "\n"
    yield manual(check.explain) + "\n"
    if check.probe:
        link = f"[{check.probe}](../probe/{check.probe}.md)"
        yield phrase("It judges what the probe {0} measured.", link) + "\n"
    yield f"```bash\nascend-doctor check -l {check.level} --only {check.id}\n```\n"


def one_probe(file: Path) -> Iterator[str]:
    name = file.stem.replace("_", "-")
    yield f"# {name}\n"
    summary, *more = probe_manual(file)
    yield phrase(summary) + "\n"
    yield phrase("How to run it alone, and what it records:") + "\n"
    yield "```text\n" + "\n\n".join(more).replace("```", "") + "\n```\n"
    judges = [check.id for check in all_checks() if check.probe == name]
    for check in judges:
        yield "- " + phrase("judged by {0}", f"[{check}](../check/{check}.md)")


def codes(catalog: Catalog) -> list[str]:
    known = catalog.error_codes
    numbers = {str(number) for number in (*known.acl, *known.hccl)}
    return sorted({*known.reported, *numbers, *catalog.error_guides})


def code_index(catalog: Catalog) -> Iterator[str]:
    yield f"# {phrase('Error codes')}\n"
    yield phrase("What `ascend-doctor explain CODE` says of each.") + "\n"
    yield " ".join(f"[{code}](code/{code}.md)" for code in codes(catalog)) + "\n"


def one_code(code: str, catalog: Catalog) -> Iterator[str]:
    yield f"# {code}\n"
    for page in pages_by_name(code, catalog):
        yield "```text\n" + page.replace("```", "") + "\n```\n"


def pages(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """All generated pages by the place of their files."""
    for name, page in (
        *entries(catalog),
        ("codes.md", code_index(catalog)),
        ("commands.md", commands()),
        ("checks.md", checks()),
        ("matrix.md", matrix(catalog)),
        ("failures.md", failures(catalog)),
        ("variables.md", variables(catalog)),
    ):
        yield name, "\n".join(page)
