"""The Chinese catalogue loads and changes nothing for programs."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from ascend_doctor import language
from ascend_doctor.cli import run
from ascend_doctor.language import make_dictionary, of_locale, read_catalogue
from ascend_doctor.render.columns import pad, width, wrap
from docs.paragraphs import catalogue
from tests.catalogue import entries, translations
from tests.pseudo import HAN
from tests.test_machines import folder_of

_SLOT = re.compile(r"\{\d+\}")
_SENTENCE = re.compile("[a-z]{2,} [a-z]{2,} [a-z]{2,}")
# Quotes of programs, and names.
_QUOTES = re.compile(
    r"`[^`]*`|gated delta nets?|cannot open shared object file|"
    r"Failed to load the backend extension|dcmi module initialize failed|"
    r"Read file failed, cmd execute failed! pls check cmd run permission"
)


@pytest.fixture(autouse=True)
def as_wide_as_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def output(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run(list(arguments))
    return out.getvalue()


def replay(name: str, *more: str) -> str:
    return output("check", "-l", "0", "-q", "--redact", "--replay", str(folder_of(name)), *more)


def test_a_catalogue_is_sorted_and_unwrapped() -> None:
    text = catalogue({"b": "\u4e59", 'a\n"{0}"': "{0}\\", "none": ""})
    rows = text.split("\n\n")[1:]
    assert rows == ['msgid "a\\n\\"{0}\\""\nmsgstr "{0}\\\\"', 'msgid "b"\nmsgstr "\u4e59"\n']
    assert dict(read_catalogue(text)) == {'a\n"{0}"': "{0}\\", "b": "\u4e59"}


def test_an_absent_translation_is_reported_with_places() -> None:
    texts = {"say {0}": ["c.py:3", "b.py:2", "b.py:2"]}
    assert list(entries(texts)) == ['#: b.py:2, c.py:3\nmsgid "say {0}"\nmsgstr ""\n']


def test_every_slot_is_filled() -> None:
    for text, translation in translations("zh").items():
        assert sorted({*_SLOT.findall(text)}) == sorted({*_SLOT.findall(translation)}), text
        names = re.sub(r"\W", "", translation) == re.sub(r"\W", "", text)
        assert HAN.search(translation) or names, text
        assert set(re.findall(r"`[^`]*`", translation)) == set(re.findall(r"`[^`]*`", text)), text


def test_texts_with_slots() -> None:
    say = make_dictionary(
        {
            "{0} is here": "{0}\u5728\u8fd9\u91cc",
            "{0} of {1} is here": "{1}\u7684{0}\u5728\u8fd9\u91cc",
            "{0} files": "{0}\u4e2a\u6587\u4ef6",
            "Could not tell whether {0}": "\u4e0d\u77e5{0}",
            "It rains": "\u4e0b\u96e8",
            "same {0} {0}": "\u540c{0}",
        }
    ).say
    assert say("the cat is here") == "the cat\u5728\u8fd9\u91cc"
    assert say("tail of cat is here") == "cat\u7684tail\u5728\u8fd9\u91cc"
    assert say("3 files is here") == "3\u4e2a\u6587\u4ef6\u5728\u8fd9\u91cc"
    assert say("no such files") == "no such files"
    assert say("Could not tell whether it rains") == "\u4e0d\u77e5\u4e0b\u96e8"
    assert say("same a a") == "\u540ca"
    assert say("same a b") == "same a b"
    assert say("It rains; unknown") == "\u4e0b\u96e8\uff1bunknown"
    assert say("It rains, unknown") == "It rains, unknown"
    assert say("It rains, 2 files") == "\u4e0b\u96e8\uff0c2\u4e2a\u6587\u4ef6"
    assert say("It rains\n---") == "\u4e0b\u96e8\n---"


def test_sentences_behind_a_statement_are_said() -> None:
    say = make_dictionary(
        {
            "{0} is wet": "{0}\u662f\u6e7f\u7684",
            "It rains.": "\u4e0b\u96e8\u3002",
            "So it is.": "\u662f\u7684\u3002",
        }
    ).say
    assert (
        say("a is wet. It rains. So it is.")
        == "a\u662f\u6e7f\u7684\u3002\u4e0b\u96e8\u3002\u662f\u7684\u3002"
    )
    assert say("a is wet. It rains. So be it.").endswith("So be it.")


def test_a_slot_takes_no_title_or_second_statement() -> None:
    say = make_dictionary(
        {
            "It rains": "\u4e0b\u96e8",
            "{0} is wet": "{0}\u662f\u6e7f\u7684",
            "{0} is 1": "{0}\u4e3a1",
            "the street": "\u8857",
            "at most {0}, as idle chips of {1} use": "\u81f3\u591a{0}\uff0c{1}",
        }
    ).say
    assert say("It rains: the street is wet") == "\u4e0b\u96e8\uff1a\u8857\u662f\u6e7f\u7684"
    assert say("A is 1: b is wet") == "A\u4e3a1\uff1ab\u662f\u6e7f\u7684"
    assert say("x; b is wet") == "x\uff1bb\u662f\u6e7f\u7684"
    assert say("at most 2, as idle chips of A (B: C) use") == "\u81f3\u591a2\uff0cA (B: C)"
    assert say("rank 1: the street") == "rank 1\uff1a\u8857"


def test_a_script_gets_texts_with_their_slots() -> None:
    assert language.form("{0} of {1} nodes") == "{0} of {1} nodes"
    form = make_dictionary({"{0} of {1} nodes": "{1}\u4e2d\u7684{0}"}).form
    assert form("{0} of {1} nodes") == "{1}\u4e2d\u7684{0}"
    assert form("absent {0}") == "absent {0}"


def test_names_in_a_list_are_not_counts() -> None:
    say = make_dictionary(
        {
            "{0} nodes": "{0}\u4e2a\u8282\u70b9",
            "devices {0}": "\u8bbe\u5907{0}",
            "device files": "\u8bbe\u5907\u6587\u4ef6",
            "Nodes differ in {0}": "\u5404\u8282\u70b9\u7684{0}\u4e0d\u540c",
            "ranks and CPUs": "rank\u548cCPU\u6570",
        }
    ).say
    assert say("3 nodes") == "3\u4e2a\u8282\u70b9"
    assert say("lost nodes") == "lost nodes"
    assert say("device files") == "\u8bbe\u5907\u6587\u4ef6"
    assert say("devices 0-7") == "\u8bbe\u59070-7"
    differs = "\u5404\u8282\u70b9\u7684rank\u548cCPU\u6570\u4e0d\u540c"
    assert say("Nodes differ in ranks and CPUs") == differs


def test_the_place_of_an_error_is_translated() -> None:
    say = make_dictionary(
        {
            "{0} in line {1}, column {2}": "\u7b2c{1}\u884c\u7b2c{2}\u5217\uff1a{0}",
            "invalid character": "\u65e0\u6548\u5b57\u7b26",
        }
    ).say
    location = "\u7b2c2\u884c\u7b2c7\u5217"
    assert (
        say("invalid character in line 2, column 7") == f"{location}\uff1a\u65e0\u6548\u5b57\u7b26"
    )
    assert say("a/x.txt: odd in line 2, column 7") == f"a/x.txt\uff1a{location}\uff1aodd"


def test_a_text_without_translation_is_english() -> None:
    language.choose("zh")
    assert language.say("A text that no catalogue has") == "A text that no catalogue has"


@pytest.mark.parametrize(
    ("env", "chosen"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "C", "LC_MESSAGES": "zh_CN"}, "zh"),
        ({"LANG": "zh_CN", "LC_ALL": ""}, "zh"),
    ],
)
def test_the_locale_chooses(env: dict[str, str], chosen: str) -> None:
    assert of_locale(env) == chosen


def test_the_option_is_stronger_than_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "\u7528\u6cd5: ascend-doctor" in output("--help")
    assert "Usage: ascend-doctor" in output("--lang", "en", "--help")
    assert "Usage: ascend-doctor check" in output("check", "--lang", "en", "--help")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert "\u7528\u6cd5: ascend-doctor fleet check" in output(
        "fleet", "check", "--lang", "zh", "--help"
    )
    assert "Usage: ascend-doctor" in output("--help")


@pytest.mark.usefixtures("pseudo_chinese")
@pytest.mark.parametrize("name", ["cann-not-sourced", "mixed-cann"])
def test_every_sentence_of_a_report_passes_the_catalogue(name: str, tmp_path: Path) -> None:
    for shape, quoted in (("text", r" *[$>] |.*https?:"), ("markdown", r"- <?https?:|[^#*-]")):
        replay(name, "--lang", "zh", "-vv", "--format", shape, "-o", str(tmp_path / shape))
        rows = (tmp_path / shape).read_text("utf-8").splitlines()
        read = [_QUOTES.sub("", row) for row in rows if not re.match(quoted, row)]
        assert any(HAN.search(row) for row in read)
        assert [row for row in read if _SENTENCE.search(row)] == []


@pytest.mark.slow
def test_programs_read_the_same_in_both_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ("json", "sarif", "junit", "prometheus", "jsonl", "github"):
        english = replay("cann-not-sourced", "--format", shape, "--lang", "en")
        monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
        chinese = replay("cann-not-sourced", "--format", shape)
        monkeypatch.delenv("LC_ALL")
        number = r"[\d.]+"
        assert re.sub(number, "", chinese) == re.sub(number, "", english)


@pytest.mark.usefixtures("pseudo_chinese")
@pytest.mark.parametrize(
    "name",
    ["cann-installed", "fleet-drift", "HCCL_CONNECT_TIMEOUT", "libgomp-static-tls", "EI0006"],
)
def test_every_paragraph_of_a_manual_passes_the_catalogue(name: str) -> None:
    pages = output("explain", name, "--lang", "zh")
    assert all(HAN.search(part) for part in pages.split("\n\n") if part)


@pytest.mark.usefixtures("pseudo_chinese")
def test_what_the_matrix_says_of_a_component_passes_the_catalogue() -> None:
    for row in output("matrix", "show", "mindspeed", "--lang", "zh").splitlines():
        source = re.search(r"\d{4}-\d\d-\d\d$", row)
        assert source or not _SENTENCE.search(row), row


def test_a_terminal_without_chinese_letters_is_told_in_english() -> None:
    from ascend_doctor.render.page import Page

    language.choose("zh")
    page = Page(color=False, width=80, ascii_only=True, label=10)
    page.field("Found", "CANN is not installed")
    assert page.text == "  Found     CANN is not installed\n"


def test_chinese_takes_two_columns() -> None:
    assert width("CANN\u5305") == 6
    assert pad("\u5305", 4) == "\u5305  "
    text = "\u6ca1\u6709CANN\u7684\u5e93\uff0ctorch_npu\u65e0\u6cd5\u5bfc\u5165\u3002" * 4
    for room in (20, 30, 41):
        rows = wrap(text, room)
        assert "".join(rows) == text
        assert all(width(row) <= room for row in rows)
        assert not any(row[0] in "\uff0c\u3002" for row in rows)
    assert wrap("\u5305 a" + "b" * 50, 20)[0] == "\u5305"
