import json

import pytest

from ascend_doctor import language
from ascend_doctor.findings import Finding, Level
from ascend_doctor.render.formats import html, sarif, text
from ascend_doctor.render.manual import BASE, link, page_of
from tests.test_report import report

BROKEN = Finding(check="hccl-up", level=Level.ERROR, title="HCCL is down", refs=("https://a.b/c",))


@pytest.mark.parametrize("base", ["", "ftp://x", "javascript:x", "https://x y", "https://"])
def test_without_an_address_there_is_no_page(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE, base)
    assert page_of("hccl-up") == ""


def test_only_the_id_of_one_check_has_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE, "https://docs.example/doctor/")
    assert page_of("hccl-up") == "https://docs.example/doctor/check/hccl-up/"
    assert page_of("hccn-tool, npu-free") == page_of("../x") == ""


def test_every_format_that_can_links_to_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE, "https://docs.example")
    address = "https://docs.example/check/hccl-up/"
    rule = json.loads(sarif.render(report(BROKEN)))["runs"][0]["tool"]["driver"]["rules"][0]
    assert rule["helpUri"] == address
    assert f'<a href="{address}">' in html.render(report(BROKEN))
    assert f"\x1b]8;;{address}\x1b\\" in text.render(report(BROKEN), color=True)
    assert "\x1b" not in text.render(report(BROKEN))


def test_a_chinese_report_leads_to_the_chinese_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE, "https://docs.example/")
    language.choose("zh")
    address = "https://docs.example/zh/check/hccl-up/"
    rule = json.loads(sarif.render(report(BROKEN)))["runs"][0]["tool"]["driver"]["rules"][0]
    assert rule["helpUri"] == address
    assert f'<a href="{address}">' in html.render(report(BROKEN))
    assert f"\x1b]8;;{address}\x1b\\" in text.render(report(BROKEN), color=True)


def test_without_it_the_first_source_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BASE, raising=False)
    rule = json.loads(sarif.render(report(BROKEN)))["runs"][0]["tool"]["driver"]["rules"][0]
    assert rule["helpUri"] == "https://a.b/c"
    assert "]8;;" not in text.render(report(BROKEN), color=True)
    assert '<a href="https://a.b/c" rel="noreferrer">' in html.render(report(BROKEN))


def test_a_link_shows_its_text() -> None:
    assert link("a", "") == "a"
    assert link("a", "https://x").replace("\x1b]8;;https://x\x1b\\", "").startswith("a")
