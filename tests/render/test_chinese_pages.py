"""All sentences of a page pass the catalogue, but for names, commands and what logs say."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.render.diagnosis_html import render as render_diagnosis
from ascend_doctor.render.formats.html import render
from tests.diagnosis.logs import of_text
from tests.pseudo import HAN
from tests.render.test_diagnosis_html import of_job, of_unknown_error
from tests.render.test_html import RUNS, VOID, fleet, single, visible
from tests.test_chinese import output
from tests.test_machines import folder_of

# Three words of a sentence, once names (packages, layers, programs, statements) are out.
_SENTENCE = re.compile(r"\b(?:[a-z]{2,} ){2}[a-z]{2,}\b")
_NAMES = re.compile(
    r"`[^`]*`|all is well|gated delta nets?|source set_env\.sh|rank table|import \w+"
)
_SHOWN = frozenset({"title", "aria-label", "placeholder"})
_QUOTED = frozenset({"code", "pre", "style", "script", "cite"})


class Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "wbr" and self.texts and self.texts[-1]:
            self.texts.append("")
        if tag not in VOID:
            self._open.append(tag)
        shown = [value for name, value in attrs if name in _SHOWN or name.startswith("data-")]
        self.texts += [*(value for value in shown if value), ""] if shown else []

    def handle_endtag(self, _: str) -> None:
        self._open.pop()
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        if not _QUOTED & set(self._open):
            self.texts = self.texts or [""]
            self.texts[-1] += data


def sentences(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if _SENTENCE.search(_NAMES.sub("", line)):
            yield line.strip()


def english(page: str) -> list[str]:
    assert '<html lang="zh-CN">' in page
    assert HAN.search(page)
    return [line for text in Texts(visible(page)).texts for line in sentences(text)]


pytestmark = pytest.mark.usefixtures("pseudo_chinese")


@pytest.mark.parametrize("probes", [RUNS, ()], ids=["probes", "none"])
def test_a_report_is_chinese(probes: tuple[object, ...]) -> None:
    assert english(render(single(probes=probes))) == []  # type: ignore[arg-type]


def test_a_fleet_is_chinese(tmp_path: Path) -> None:
    assert english(render(fleet(tmp_path))) == []


@pytest.mark.parametrize("make", [of_job, of_unknown_error, lambda: of_text("starting\n")])
def test_a_diagnosis_is_chinese(make: object) -> None:
    diagnosis: Diagnosis = make()  # type: ignore[operator]
    page = render_diagnosis(diagnosis)
    rows: list[object] = [*diagnosis.causes]
    rows += [what for cause in diagnosis.causes for what in cause.consequences]
    own = {getattr(row, name, "") for row in rows for name in ("title", "cause", "fix", "before")}
    own |= {line.strip() for text in own for line in text.splitlines()}
    own |= {code.meaning for code in diagnosis.codes}
    left = [line for line in english(page) if not any(text and text[:40] in line for text in own)]
    assert left == []


@pytest.mark.parametrize("name", ["cann-not-sourced", "mixed-cann"])
def test_the_page_of_a_machine_is_chinese(name: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    output(
        "check", "-l", "0", "-q", "--replay", str(folder_of(name)), "--lang", "zh", "-o", str(page)
    )
    assert english(page.read_text("utf-8")) == []


def test_an_english_sentence_is_seen() -> None:
    page = (
        '<html lang="zh-CN"><p title="this is not said">\u662f</p><code>as it is here</code></html>'
    )
    assert english(page) == ["this is not said"]


def test_scripts_have_their_words_from_the_page(tmp_path: Path) -> None:
    page = render(fleet(tmp_path))
    assert re.search('data-shown="[^"]*\\{0\\}[^"]*\\{1\\}[^"]*"', page)
    script = page[page.index("<script>") :]
    assert not re.search(r'"[A-Z][a-z]+ [a-z]+', script)
