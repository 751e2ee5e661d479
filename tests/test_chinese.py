"""The Chinese catalogue loads, says what the glossary says, and changes nothing for programs."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_doctor import language
from ascend_doctor.cli import run
from ascend_doctor.commands.explain import pages_by_name
from ascend_doctor.findings import Finding, Level
from ascend_doctor.language import make_dictionary, of_locale, read_catalogue
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.render.columns import pad, width, wrap
from ascend_doctor.render.diagnosis import render
from docs.paragraphs import catalogue
from tests.catalogue import current, entries, meanings, texts, translations
from tests.diagnosis.logs import of_text
from tests.glossary import TERMS
from tests.test_machines import NAMES, folder_of

_SLOT = re.compile(r"\{\d+\}")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_WRITTEN = re.compile(r"[!-~]+")
_AROUND = ".,;:!?()[]{}'\"`"
# A word with one of these is a number, option, path, variable, or a name with capitals.
_NAME = re.compile(r"[_$\d=*\\]|^[-~/<].*\w|\w\.\w|[A-Za-z][A-Z]")
# What English adds to them: plurals, ordinals, "A3-like", "non-A3".
_AFFIX = re.compile(
    r"(?<=[A-Z\d])s$|(?<=[A-Z\d])(?:-[a-z]+)+$|(?<=\d)(?:th|nd)$|'s$|^(?:[a-z]+-)+(?=[A-Z])"
)
# Those that are words in Chinese, and those that Chinese has for words.
_WORDS = {"=", "1.The", "1,actual", "down.Suggest", "e.g", "i.e", "ERROR", "INTERRUPTED", "MEM"}
_WORDS |= {"NIC", "NO", "NOT", "SIMULATED", "SUPPORTED", "SuperPoD"}
_SHORT = {"BOM", "CANN", "DMA", "GB", "ID", "JPEG", "KV", "NPU", "RMS"}
_SENTENCE = re.compile("[a-z]{2,} [a-z]{2,} [a-z]{2,}")
# What programs say, as it is quoted, and names.
_QUOTES = re.compile(
    r"`[^`]*`|gated delta nets?|cannot open shared object file|"
    r"Failed to load the backend extension|dcmi module initialize failed|"
    r"Read file failed, cmd execute failed! pls check cmd run permission"
)
# What probes found in a rehearsal.
_FOUND = (
    (
        "compared on npu: sdpa causal, sdpa padding, no mask, causal, 2 dimensions, padding, "
        "one for all heads, padding, one a head, compressed triangle, packed"
    ),
    (
        "compared on npu: rms norm, addition and rms norm, rotary embedding, swiglu, grouped "
        "matrix product, permutation of tokens"
    ),
    "compared on npu: where, read, write, vector, rows, backward, repeated",
    "plain, fused float16, fused bfloat16, fused float32; slowest 0.1 s",
    (
        "4 ranks on npu: TP2 EP2 ETP1, TP2 PP2 EP2 ETP1, no parallelism but DP; every bit of "
        "the weights, the loss on unseen batches, and two steps; Megatron's checkpoints with "
        "the optimizer as dp_reshardable, fully_sharded_model_space; TP2 PP2 EP2 ETP1 loaded as "
        "EP2 ETP1; no parallelism but DP loaded as TP2"
    ),
    (
        "4 ranks on npu; all-reduces of 4096 tokens: 3 at once, 1280, 160 in chunks of 16, 128; "
        "writing into saved tensors: refused by autograd in 8 of 20 orders and chunks, harmless "
        "in the rest"
    ),
    (
        "4 ranks on npu: with ETP 1 equal adapters; with ETP 2 they drift by 0.028 in three "
        "steps, so keep ETP at 1"
    ),
    (
        "4 ranks on npu: no parallelism but DP, bfloat16 TP2 EP2 ETP1, bfloat16 TP2 EP2 CP2 "
        "ETP1; losses, modules and gradients as in plain torch in every step; in bfloat16 with "
        "attention: npu_fusion_attention, experts: npu_grouped_matmul, context parallelism: "
        "keys and values gathered by the probe; megatron.core 0.15.3, through "
        "torch_npu.contrib.transfer_to_npu"
    ),
    "2 undefined: _ZN5torch1A (wanted by libtorch_npu.so); _ZN5torch1B (wanted by libhccl.so)",
)
_SUMMARY = """Root Cause (first observed failure):
[0]:
  host      : a
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 8)
"""


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


def test_obsolete_translations_are_dropped() -> None:
    assert current({"a": "\u7532", "old": "\u65e7"}, ["a", "new"]) == {"a": "\u7532"}


def test_an_absent_translation_is_reported_with_places() -> None:
    texts = {"say {0}": ["c.py:3", "b.py:2", "b.py:2"]}
    assert list(entries(texts)) == ['#: b.py:2, c.py:3\nmsgid "say {0}"\nmsgstr ""\n']


def test_every_slot_is_filled() -> None:
    for text, said in translations("zh").items():
        assert sorted({*_SLOT.findall(text)}) == sorted({*_SLOT.findall(said)}), text
        names = re.sub(r"\W", "", said) == re.sub(r"\W", "", text)
        assert _CHINESE.search(said) or names, text
        assert set(re.findall(r"`[^`]*`", said)) == set(re.findall(r"`[^`]*`", text)), text


def names(text: str) -> Iterator[str]:
    """What no translation may change: commands, paths, options, variables, codes, numbers."""
    for token in _WRITTEN.findall(_SLOT.sub(" ", text)):
        bare = token.strip(_AROUND)
        for word in [bare] if re.match(r"[-~/<$.]", bare) else bare.split("/"):
            name = _AFFIX.sub("", word.strip(_AROUND))
            if _NAME.search(name):
                yield name


def stands(name: str, text: str) -> bool:
    """Whether a text has the name, and not as a part of a longer one."""
    before = r"(?<![A-Za-z0-9])" if name[0].isalnum() else ""
    behind = r"(?![A-Za-z0-9])" if name[-1].isalnum() else ""
    return re.search(f"{before}{re.escape(name)}{behind}", text) is not None


def test_names_and_numbers_stay() -> None:
    for text, said in translations("zh").items():
        english = set(names(text))
        assert {name for name in english if not stands(name, said)} <= _WORDS, text
        parts = {part for name in names(said) for part in re.split(r"[,;:()]+", name) if part}
        new = {part for part in parts - english if not stands(part, text)}
        assert new <= _SHORT, text


def test_what_a_name_is() -> None:
    text = "Run `npu-smi info -t ecc` on 8-card A3s of ~/ascend/log or $HOME, e.g. torch/libatb.so."
    assert set(names(text)) == {"-t", "8", "A3", "~/ascend/log", "$HOME", "e.g", "libatb.so"}
    assert stands("8", "8\u5361")
    assert not stands("8", "80\u5361")
    assert not stands("A3", "A310")


@pytest.mark.slow
@pytest.mark.parametrize("english", TERMS)
def test_a_term_is_said_as_the_glossary_has_it(english: str) -> None:
    term = TERMS[english]
    used = 0
    for text, said in translations("zh").items():
        if re.search(rf"\b{english}", text, re.IGNORECASE):
            used += any(word in said for word in term.words)
        assert not any(word in said for word in term.avoid), (english, said)
    assert used, f"nobody says {english}"


def test_what_is_read_of_a_catalogue() -> None:
    text = (
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain\\n"\n\n'
        '#: a.py\nmsgid "one"\nmsgstr "\u4e00"\n\n'
        '#, fuzzy\nmsgid "two"\nmsgstr "\u4e8c"\n\n'
        'msgid ""\n"a\\n"\n"b"\nmsgstr ""\n"c"\n'
    )
    assert dict(read_catalogue(text)) == {"one": "\u4e00", "a\nb": "c"}


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
    language.choose("zh")
    assert "{1}" in language.form("{0} of {1} nodes")
    assert language.form("nobody says {0}") == "nobody says {0}"


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


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_chinese(name: str, tmp_path: Path) -> None:
    """Titles and remedies of all recorded machines, and what stands around them."""
    findings = json.loads(replay(name, "--format", "json"))["findings"]
    language.choose("zh")
    for row in findings:
        finding = Finding(level=Level(row["level"]), title=row["title"])
        said = [finding.title, (row["remedy"] or {}).get("summary", "")]
        if finding.level in {Level.OK, Level.SKIPPED}:
            said = said[:1]
        for text in filter(None, said):
            assert _CHINESE.search(language.say(text)), text
    replay(name, "--lang", "zh", "-vv", "-o", str(tmp_path / "report.txt"))
    report = (tmp_path / "report.txt").read_text("utf-8")
    assert _CHINESE.search(report)
    for row in report.splitlines():
        typed = re.match(r" *[$>] |\u4ece\u8fd9\u91cc\u5f00\u59cb|\u6765\u6e90|  \u6765\u6e90", row)
        assert typed or not _SENTENCE.search(_QUOTES.sub("", row)), row
    assert not re.search(r"^  (Found|Expected|Why|Fix|Leads to) ", report, re.MULTILINE)
    replay(name, "--lang", "zh", "--format", "markdown", "-o", str(tmp_path / "report.md"))
    markdown = (tmp_path / "report.md").read_text("utf-8")
    rows = re.findall(r"^(?:###|- (?!\S*\u6765\u6e90)|\*\*).*", markdown, re.MULTILINE)
    assert rows
    assert all(_CHINESE.search(row) for row in rows)


@pytest.mark.slow
def test_programs_read_the_same_in_both_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ("json", "sarif", "junit", "prometheus", "jsonl", "github"):
        english = replay("cann-not-sourced", "--format", shape, "--lang", "en")
        monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
        chinese = replay("cann-not-sourced", "--format", shape)
        monkeypatch.delenv("LC_ALL")
        number = r"[\d.]+"
        assert re.sub(number, "", chinese) == re.sub(number, "", english)


def test_a_known_failure_is_explained_in_chinese(tmp_path: Path) -> None:
    failure = Catalog().failures["libgomp-static-tls"]
    log = tmp_path / "train.log"
    log.write_text(f"{failure.example}\n")
    pages = {"explain": output("explain", failure.id, "--lang", "zh")}
    for shape in ("text", "markdown", "json"):
        output("diagnose", str(log), "--format", shape, "--lang", "zh", "-o", str(tmp_path / shape))
        pages[shape] = (tmp_path / shape).read_text("utf-8")
    language.choose("zh")
    for text in (failure.title, failure.cause, failure.fix):
        begin, *_ = re.split("[\uff08\uff0c\uff1b\u3002]", language.say(text))
        assert _CHINESE.search(begin)
        for shape in ("text", "markdown", "explain"):
            plain = re.sub(r"\s|\\", "", pages[shape])
            assert re.sub(r"\s", "", begin) in plain, (shape, begin)
        assert text in pages["json"]
    for text in (failure.affected, failure.before):
        assert re.sub(r"\s", "", language.say(text)) in re.sub(r"\s", "", pages["explain"])


@pytest.mark.parametrize("name", ["cann-installed", "fleet-drift", "HCCL_CONNECT_TIMEOUT"])
def test_manuals_are_chinese(name: str) -> None:
    paragraphs = [part for part in output("explain", name, "--lang", "zh").split("\n\n") if part]
    assert all(_CHINESE.search(part) for part in paragraphs)


@pytest.mark.slow
def test_every_error_code_is_explained_in_chinese() -> None:
    rows = Catalog()
    codes = rows.error_codes
    language.choose("zh")
    for meaning in meanings(rows):
        said = language.say(meaning)
        assert _CHINESE.search(said), meaning
        assert not _SENTENCE.search(said), said
    for code in (*codes.reported, *map(str, codes.acl), *map(str, codes.hccl)):
        for part in "\n\n".join(pages_by_name(code, rows)).split("\n\n"):
            assert _CHINESE.search(part), (code, part)


@pytest.mark.slow
@pytest.mark.parametrize("name", [row.id for row in Catalog().components])
def test_what_the_matrix_says_of_a_component_is_chinese(name: str) -> None:
    for row in output("matrix", "show", name, "--lang", "zh").splitlines():
        assert "\u6765\u6e90: " in row or not _SENTENCE.search(row), row


def test_a_terminal_without_chinese_letters_is_told_in_english() -> None:
    from ascend_doctor.render.page import Page  # noqa: PLC0415 - beside what it is about

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


@pytest.mark.slow
def test_there_is_much_to_say() -> None:
    assert len(texts()) > 2500


def test_few_texts_are_the_same_in_both_languages() -> None:
    """They are names, values and commands."""
    same = [text for text, said in translations("zh").items() if said == text]
    assert len(same) < len(translations("zh")) / 40


@pytest.mark.parametrize(
    "text",
    [
        "[rank1]: EI0006: Getting socket times out. Reason: x\n[rank2]: ValueError: x\n",
        "[rank1]: RuntimeError: NPU out of memory. Tried to allocate 3 GiB (NPU 0; 60 GiB)\n",
        f"train.py FAILED\n{_SUMMARY}",
    ],
)
def test_who_is_guilty_and_why_is_said(text: str) -> None:
    language.choose("zh")
    rows = render(of_text(text), width=200).split("\n")
    (row,) = [row for row in rows if "\u51fa\u9519\u65b9" in row]
    reason = row.rpartition("\uff1a")[2]
    assert _CHINESE.search(reason), row
    assert not re.search(r"[a-z]{3,} [a-z]{2,}", reason), row


@pytest.mark.parametrize("text", _FOUND)
def test_what_probes_found_is_chinese(text: str) -> None:
    language.choose("zh")
    said = language.say(text)
    assert not re.search(r"[a-z]{2,} [a-z]{2,}", said), said
    assert all(stands(name, said) for name in names(text))
