"""The Chinese pages of the documentation: what they keep of the English ones, and when not."""

import re

from docs import paragraphs as pages
from docs.paragraphs import ROOT

_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\]\([^)]*\)")
_PAGE = """# Title

First paragraph,
of two lines.

- An item, see [there](there.md#a-part).

| head of table | other head |
| --- | --- |
| left \\| cell | 12 |

```bash
ascend-doctor check   # what it says
# a line
```

## A part

## A part
"""
_CHINESE = {
    "Title": "\u9898",
    "First paragraph, of two lines.": "\u4e00",
    "An item, see [there](there.md#a-part).": "\u4e8c[\u90a3](there.md#a-part)",
    "head of table": "\u8868",
    "other head": "\u522b",
    "left \\| cell": "\u5de6\\|",
    "what it says": "\u8bf4",
    "a line": "\u884c",
    "A part": "\u90e8",
}


def test_every_paragraph_is_translated_where_it_stands() -> None:
    assert pages.translate(_PAGE, {}) == _PAGE
    assert pages.translate(_PAGE, _CHINESE).split("\n") == [
        *("# \u9898", "", "\u4e00", "", "- \u4e8c[\u90a3](there.md#a-part)", ""),
        *("| \u8868 | \u522b |", "| --- | --- |", "| \u5de6\\| | 12 |", ""),
        *("```bash", "ascend-doctor check   # \u8bf4", "# \u884c", "```", ""),
        *("## \u90e8", "", "## \u90e8", ""),
    ]


def test_a_changed_paragraph_stays_english_and_the_page_says_so() -> None:
    whole = pages.site_page(_PAGE, _CHINESE)
    assert "\u82f1\u6587" not in whole
    changed = pages.site_page(_PAGE.replace("two lines", "three lines"), _CHINESE)
    assert "First paragraph,\nof three lines." in changed
    assert "\u672c\u9875\u6709 1 \u6bb5\u53ea\u6709\u82f1\u6587" in changed
    assert "\u672c\u9875\u53ea\u6709\u82f1\u6587" in pages.site_page(_PAGE, {})


def test_a_heading_keeps_its_anchor() -> None:
    page = pages.site_page(_PAGE, _CHINESE)
    assert re.findall(r"^#+ .*", page, re.MULTILINE) == [
        "# \u9898 {#title}",
        *("# \u884c", "## \u90e8 {#a-part}", "## \u90e8 {#a-part_1}"),
    ]


def test_code_and_links_stay() -> None:
    for text, chinese in pages.translations().items():
        assert sorted({*_CODE.findall(text)}) == sorted({*_CODE.findall(chinese)}), text
        assert sorted(_LINK.findall(text)) == sorted(_LINK.findall(chinese)), text


def test_both_readmes_have_the_same_commands_and_links() -> None:
    english, chinese = ((ROOT / f"README{name}.md").read_text("utf-8") for name in ("", ".zh"))
    assert len(english.split()) <= 600
    links = [_LINK.findall(re.sub(r"[.-]zh", "", page)) for page in (english, chinese)]
    assert links[0] == links[1]
    blocks = (re.findall("```bash\n(.*?)```", page, re.DOTALL) for page in (english, chinese))
    first, second = ([re.sub(" *#.*", "", block) for block in page] for page in blocks)
    assert first == second
