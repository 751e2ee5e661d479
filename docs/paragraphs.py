"""The paragraphs of the pages, and their Chinese in docs/zh.po.

A paragraph is what a reader takes in at once: a heading, an item, a cell of a table, a comment in a
block of shell. One whose English has changed, or that has no Chinese, stays English.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from markdown import Markdown
from markdown_it import MarkdownIt

from ascend_doctor.language import read_catalogue

ROOT = Path(__file__).parent.parent
CATALOGUE = ROOT / "docs" / "zh.po"
# Pages in English only.
RECORDS = ("architecture", "fidelity", "probes", "remedies")
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in RECORDS]
PROBES = sorted((ROOT / "probes").glob("[a-z]*.py"))
_PARSER = MarkdownIt().enable("table")
_PROSE = re.compile(r"[a-z]{2}")
# A name or value, which is the same in both languages.
_IDENTIFIER = re.compile(r"(?=.*[\d@/._-])[a-z][\w@./-]*")
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
_COMMENT = re.compile(r"(?:^|\s)# (\S.*)")
_CELL = re.compile(r"(?<=\|) *((?:\\\||[^|])*?) *(?=\|)")
_SOME_WITHOUT = "*本页有 {} 段只有英文。*\n"
_WHOLE_WITHOUT = "*本页只有英文。*\n"
_HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n'


class Paragraph(NamedTuple):
    """A text, its lines, and its columns on the first and the last of them."""

    begin: int
    end: int
    start: int
    stop: int
    text: str
    heading: bool = False


def paragraphs(page: str) -> list[Paragraph]:
    """What a page says, from top to bottom, without what is code, output or a number."""
    lines = page.split("\n")
    return [part for part in _parts(page, lines) if _PROSE.search(_CODE.sub("", part.text))]


def _parts(page: str, lines: list[str]) -> Iterator[Paragraph]:
    rows: set[int] = set()
    before = ""
    for token in _PARSER.parse(page):
        begin, end = token.map or (0, 0)
        if token.type == "tr_open":
            rows.add(begin)
            for cell in _CELL.finditer(lines[begin]):
                yield Paragraph(begin, end, *cell.span(1), cell[1])
        elif token.type == "inline" and begin not in rows:
            text = " ".join(token.content.split())
            first = token.content.split("\n", 1)[0].rstrip()
            start = lines[begin].index(first)
            stop = len(lines[end - 1])
            yield Paragraph(begin, end, start, stop, text, before == "heading_open")
        elif token.type == "fence" and token.info in {"bash", "shell", "sh"}:
            for number in range(begin + 1, end - 1):
                if comment := _COMMENT.search(lines[number]):
                    yield Paragraph(number, number + 1, *comment.span(1), comment[1])
        before = token.type


def translate(page: str, messages: Mapping[str, str], anchors: Sequence[str] = ()) -> str:
    """A page in Chinese; ``anchors``: one for each heading."""
    lines, left = page.split("\n"), list(anchors)
    for part in reversed(list(_parts(page, lines))):
        text = messages.get(part.text, "")
        if part.heading and left:
            text = f"{text or part.text} {{#{left.pop()}}}"
        if text:
            line = lines[part.begin][: part.start] + text + lines[part.end - 1][part.stop :]
            lines[part.begin : part.end] = [line]
    return "\n".join(lines)


def site_page(page: str, messages: Mapping[str, str]) -> str:
    """A page in Chinese that has the anchors of the English one and says what has no Chinese."""
    reader = Markdown(extensions=["tables", "toc", "fenced_code"])
    reader.convert(page)
    text = translate(page, messages, re.findall(r'href="#([^"]+)"', reader.toc))
    parts = [part for part in paragraphs(page) if " " in part.text and not part.heading]
    known = [part.text in messages for part in parts]
    if all(known):
        return text
    note = _SOME_WITHOUT.format(known.count(False)) if any(known) else _WHOLE_WITHOUT
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{note}\n{rest}"


@functools.cache
def translations() -> dict[str, str]:
    """The paragraphs that have Chinese."""
    known = read_catalogue(CATALOGUE.read_text("utf-8"))
    return {text: chinese for text, chinese in known if chinese}


def titles() -> list[str]:
    """The titles of the navigation."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    return list(_titles(yaml.safe_load(text)["nav"]))


def phrases() -> Iterator[str]:
    """What the generated pages say around the texts of the doctor."""
    for node in ast.walk(ast.parse((ROOT / "docs" / "pages.py").read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id="phrase"), args=[ast.Constant(value=str(text)), *_]):
                yield text
    for probe in PROBES:
        yield probe_manual(probe)[0]


def probe_manual(probe: Path) -> list[str]:
    """The paragraphs of a probe's manual."""
    return (ast.get_docstring(ast.parse(probe.read_text("utf-8"))) or "").split("\n\n")


def _titles(rows: list[dict[str, object]]) -> Iterator[str]:
    for row in rows:
        for title, inner in row.items():
            yield title
            if isinstance(inner, list):
                yield from _titles(inner)


def texts() -> dict[str, list[str]]:
    """Every paragraph of the pages, with the files that have it."""
    texts: dict[str, list[str]] = {}
    for title in titles():
        texts.setdefault(title, []).append("mkdocs.yml")
    for text in phrases():
        texts.setdefault(text, []).append("docs/pages.py")
    for page in PAGES:
        for part in paragraphs(page.read_text("utf-8")):
            where = f"{page.relative_to(ROOT).as_posix()}:{part.begin + 1}"
            texts.setdefault(part.text, []).append(where)
    return texts


def untranslated() -> dict[str, list[str]]:
    """The paragraphs without Chinese that are more than a name, with the files that have them."""
    known = translations()
    return {
        text: places
        for text, places in texts().items()
        if text not in known and not _IDENTIFIER.fullmatch(text)
    }


def catalogue(messages: Mapping[str, str]) -> str:
    """A .po file: sorted, three lines a message, without places, flags and wrapping."""
    rows = (
        f"msgid {json.dumps(text, ensure_ascii=False)}\n"
        f"msgstr {json.dumps(messages[text], ensure_ascii=False)}\n"
        for text in sorted(messages)
        if messages[text]
    )
    return "\n".join((_HEADER, *rows))


def write() -> None:
    """Drops obsolete paragraphs from docs/zh.po."""
    known = texts()
    messages = {text: chinese for text, chinese in translations().items() if text in known}
    CATALOGUE.write_text(catalogue(messages), "utf-8")
    sys.stdout.write(f"{len(messages)} of {len(known)} paragraphs of pages have Chinese\n")
