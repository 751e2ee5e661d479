"""Gives mkdocs the generated pages, and every page in Chinese below zh/, at the same place.

Each language has its own search. The address of an id leads to its place on a page.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, get_navigation
from mkdocs.structure.pages import Page
from mkdocs.utils.templates import TemplateContext
from paragraphs import ROOT, site_page, translations

from ascend_doctor import language
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.render.manual import BASE

FOLDER = "zh/"
SEARCH = "search/search_index.json"
INDEXES = {"checks.md", "failures.md", "codes.md", "commands.md"}
MOVED = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}">'
MOVED += '<a href="{0}">{0}</a>\n'
# From these the theme looks for a list of pages beside each page.
_ALTERNATE = re.compile(r"<link rel=\"?alternate\"? [^>]*hreflang[^>]*>")
_PATH = re.compile(r'(class="md-path" aria-label=")[^"]*')
_CORNER = re.compile(r"<th([^>]*)></th>")
_NAMES = {"en": "English", "zh": "\u4e2d\u6587"}
_FEW_PARTS = 5  # that a page shows without a list of them
_navigations: dict[str, Navigation] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The addresses of the site, and of its pages in the repository."""
    text = (ROOT / "hatch_metadata.py").read_text("utf-8")
    address = re.findall(r'^ADDRESS = "(.+)"$', text, re.MULTILINE)[0]
    owner, name = address.split("/")[-2:]
    config.edit_uri = f"{address}/edit/main/docs/"  # with repo_url pages would ask its host
    config.site_url = os.environ.get(BASE) or f"https://{owner}.github.io/{name}/"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages and the changes, and the Chinese of all."""
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    files.append(File.generated(config, "changelog.md", content=changes))
    written = {file.src_uri: file.content_string for file in files.documentation_pages()}
    chinese = {name: site_page(page, translations()) for name, page in written.items()}
    texts: dict[str, str] = {}
    try:
        for name in language.LANGUAGES:
            language.choose(name)
            folder = FOLDER if name == "zh" else ""
            texts.update({folder + place: page for place, page in pages.pages(Catalog())})
    finally:
        language.choose("en")
    texts.update({FOLDER + name: outward(page) for name, page in chinese.items()})
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: object) -> str:
    """What helps first is found first, by other words too; a list of links is not found."""
    name = page.file.src_uri.removeprefix(FOLDER)
    boosts = [boost for place, boost in config.extra["boosts"].items() if name.startswith(place)]
    page.meta["search"] = {"boost": boosts[0]} if boosts else {"exclude": name in INDEXES}
    words = config.extra["words"].get(name.removesuffix(".md"), "").split()
    chinese = page.file.src_uri.startswith(FOLDER)
    page.meta["tags"] = [word for word in words if chinese or word.isascii()]
    return markdown


def outward(page: str) -> str:
    """A Chinese page, one folder below the pictures, with those in Chinese."""
    page = re.sub(r"(\(pictures/[\w-]+?)(?:-zh)?\.svg\)", r"\1-zh.svg)", page)
    return re.sub(r"\]\((?!https?:|#|[\w./-]+\.md\b)", "](../", page)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Builds the Chinese navigation beside the English one."""
    ours = [file for file in files.documentation_pages() if file.src_uri.startswith(FOLDER)]
    for file in ours:
        file.page = None
    rows, config.nav = config.nav, list(in_chinese(config.nav or []))
    _navigations.update({"en": nav, "zh": get_navigation(Files(ours), config)})
    config.nav = rows
    for file in files.documentation_pages():
        folder, _, _ = file.src_uri.rpartition("/")
        index = files.get_file_from_path(f"{folder}s.md")
        if file.page and index:
            file.page.parent = index.page  # type: ignore[assignment] # read as a place above
    return nav


def in_chinese(rows: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """The rows of the navigation with Chinese titles and pages."""
    for row in rows:
        for title, inner in row.items():
            below = list(in_chinese(inner)) if isinstance(inner, list) else f"{FOLDER}{inner}"
            yield {translations().get(title, title): below}


def on_page_context(
    context: TemplateContext, page: Page, config: MkDocsConfig, **_: object
) -> TemplateContext:
    """Has the theme speak the page's language and lead to the same page in the other."""
    chinese = page.url.startswith(FOLDER)
    english = page.url.removeprefix(FOLDER) or "./"
    config.theme["language"] = "zh" if chinese else "en"
    config.extra["alternate"] = [
        {"name": _NAMES["en"], "link": english, "lang": "en"},
        {"name": _NAMES["zh"], "link": FOLDER + english.removeprefix("./"), "lang": "zh"},
    ]
    context["nav"] = _navigations[config.theme["language"]]
    if sum(len(title.children) for title in page.toc) <= _FEW_PARTS:
        page.meta["hide"] = ["toc"]  # its room is that of a hundred columns
    return context


def on_post_page(output: str, *, page: Page, **_: object) -> str:
    """Names the search and corners of tables; Chinese pages search below zh/."""
    chinese = page.url.startswith(FOLDER)
    if chinese:
        output = re.sub(r'"base": "((?:\.\./)*)\.\."', _one_below, output, count=1)
    name, subject = ("\u641c\u7d22", "\u9879\u76ee") if chinese else ("Search", "Subject")
    output = _PATH.sub(r"\1" + ("\u8def\u5f84" if chinese else "Path"), output)
    dialog = 'data-md-component="search" role="dialog"'
    named = output.replace(dialog, f'{dialog} aria-label="{name}"')
    corner = rf'<th\1><span class="unseen">{subject}</span></th>'
    return _ALTERNATE.sub("", _CORNER.sub(corner, named))


def _one_below(base: re.Match[str]) -> str:
    return f'"base": "{base[1].rstrip("/") or "."}"'


def on_post_build(config: MkDocsConfig, **_: object) -> None:
    """Divides the search by language, and leads each id's address to its place."""
    site = Path(config.site_dir)
    index = json.loads((site / SEARCH).read_text("utf-8"))
    for folder in ("", FOLDER):
        rows = [
            {**row, "location": row["location"].removeprefix(FOLDER)}
            for row in index["docs"]
            if row["location"].startswith(FOLDER) is bool(folder)
        ]
        (site / folder / SEARCH).parent.mkdir(exist_ok=True)
        config_ = {**index["config"], "lang": ["en", "zh"] if folder else ["en"]}
        text = json.dumps({"config": config_, "docs": rows}, ensure_ascii=False)
        (site / folder / SEARCH).write_text(text, "utf-8")
    for unused in (*site.glob("assets/**/*.map"), *site.glob("assets/javascripts/lunr/min/*")):
        if not unused.name.startswith(("lunr.zh", "lunr.stemmer", "lunr.multi")):
            unused.unlink()
    for place, target in pages.addresses(Catalog()):
        # Chinese reports lead to checks, and codes are typed.
        for folder in ("", FOLDER)[: 1 if place.startswith("failure/") else 2]:
            page = site / folder / place / "index.html"
            page.parent.mkdir()
            page.write_text(MOVED.format(target), "utf-8")
