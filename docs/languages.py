"""Gives mkdocs the generated pages, and every page in Chinese below zh/, at the same place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, get_navigation
from mkdocs.structure.pages import Page
from mkdocs.utils.templates import TemplateContext
from paragraphs import ROOT, site_page, translations

from ascend_doctor import language
from ascend_doctor.matrix.catalog import Catalog

FOLDER = "zh/"
# From these the theme looks for a list of pages beside each page.
_ALTERNATE = re.compile(r"<link rel=\"?alternate\"? [^>]*hreflang[^>]*>")
_CORNER = re.compile(r"<th([^>]*)></th>")
_NAMES = {"en": "English", "zh": "\u4e2d\u6587"}
_navigations: dict[str, Navigation] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and the Chinese of all."""
    written = [file for file in files.documentation_pages() if file.src_uri != "index.md"]
    english = {file.src_uri: file.content_string for file in written}
    english["index.md"] = (ROOT / "README.md").read_text("utf-8")
    chinese = {name: site_page(page, translations()) for name, page in english.items()}
    texts = {"index.md": home(english["index.md"])}
    try:
        for name in language.LANGUAGES:
            language.choose(name)
            folder = FOLDER if name == "zh" else ""
            texts.update({folder + place: page for place, page in pages.pages(Catalog())})
    finally:
        language.choose("en")
    texts.update({FOLDER + name: outward(home(page)) for name, page in chinese.items()})
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return files


def home(text: str) -> str:
    """A page whose links may be those of the README, as a page of the site."""
    text = re.sub(r"\]\(docs/([\w./-]+)\)", r"](\1)", text)
    own = r"\((?:CONTRIBUTING|CHANGELOG|README|SECURITY)[\w.]*\)"
    text = re.sub(rf"^(?:- )?\[[^]]*\]{own}\n", "", text, flags=re.MULTILINE)
    return re.sub(rf"\[([^]]*)\]{own}", r"\1", text)


def outward(page: str) -> str:
    """A page one folder further down, whose pictures have stayed where they were."""
    return re.sub(r"\]\((?!https?:|#|[\w./-]+\.md\b)", "](../", page)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Builds the Chinese navigation beside the English one."""
    ours = [file for file in files.documentation_pages() if file.src_uri.startswith(FOLDER)]
    for file in ours:
        file.page = None
    rows, config.nav = config.nav, list(in_chinese(config.nav or []))
    _navigations.update({"en": nav, "zh": get_navigation(Files(ours), config)})
    config.nav = rows
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
    return context


def on_post_page(output: str, *, page: Page, **_: object) -> str:
    """For who does not see the page: the search has a name, and so has the corner of a table."""
    chinese = page.url.startswith(FOLDER)
    name, subject = ("\u641c\u7d22", "\u9879\u76ee") if chinese else ("Search", "Subject")
    dialog = 'data-md-component="search" role="dialog"'
    named = output.replace(dialog, f'{dialog} aria-label="{name}"')
    corner = rf'<th\1><span class="unseen">{subject}</span></th>'
    return _ALTERNATE.sub("", _CORNER.sub(corner, named))
