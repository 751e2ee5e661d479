from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, Remedy
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.merged_report import judge
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.render.formats.html import render
from ascend_doctor.report import Report
from tests.fleet.nodes import node, write

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
VOID = {"meta", "link", "br", "input"}
RANKS = (
    ProbeResult(rank=0, ok=True, stages={"import torch": 2.0, "sum": 1.0}),
    ProbeResult(rank=1, ok=None, stage="sum", stages={"import torch": 2.0, "sum": 2.0}),
)
RUNS = (
    ProbeRun(probe="allreduce", ranks=RANKS, seconds=4.0),
    ProbeRun(
        probe="bandwidth",
        ranks=(
            ProbeResult(
                ok=True,
                values={"rates": {"all-reduce": {"1024": {"busbw": 1.0}, "4096": {"busbw": 3.0}}}},
            ),
        ),
    ),
    ProbeRun(
        probe="smoke-train",
        world_size=4,
        ranks=(ProbeResult(ok=True, values={"layouts": {"TP2 EP2": {}}}),),
    ),
)
BROKEN = Finding(
    check="a-check",
    level=Level.ERROR,
    title="Broken",
    observed="this",
    remedy=Remedy(summary="Mend it", commands=("mend --now",)),
    refs=("https://example.org/a",),
)


class Page(HTMLParser):
    """Whether tags are balanced, which ids there are, and what would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.headings: list[int] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.ids += [name] if (name := known.get("id")) else []
        self.fetched += [known[one] or "" for one in ("src", "srcset", "data") if one in known]
        if tag == "link":
            self.fetched.append(known.get("href") or "")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def single(*findings: Finding, probes: tuple[ProbeRun, ...] = ()) -> Report:
    return node("n", *findings, snapshot=Snapshot(probes=probes))


def fleet(folder: Path) -> Report:
    write(folder, node("n0", BROKEN), node("n1"), node("n2", torch="9"), node("n3"))
    return judge(
        merge(report_files([str(folder)]), frozenset({"torch"})),
        expected=("gone",),
        fail_on=Level.ERROR,
        seconds=0,
    )


def test_a_page_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    for report in (single(BROKEN, probes=RUNS), fleet(tmp_path)):
        text = render(report)
        page = Page(text)
        assert page.fetched == ["data:,"]
        assert not re.search(r"@import|url\(", text)
        assert len(page.ids) == len(set(page.ids))
        steps = zip(page.headings, page.headings[1:], strict=False)
        assert page.headings[0] == 1
        assert all(after <= before + 1 for before, after in steps)


def test_it_shows_what_the_report_has(tmp_path: Path) -> None:
    text = render(single(BROKEN, probes=RUNS))
    for shown in (
        "Broken",
        "mend --now",
        "a-check",
        "rank 1",
        "no result in sum",
        "4 KiB",
        "TP2·EP2",
    ):
        assert shown in text
    told = render(fleet(tmp_path))
    assert "gone" in told
    assert "<b>9</b> on n2" in told


def test_a_fleet_has_a_cell_for_every_node_and_a_list_to_leave_out(tmp_path: Path) -> None:
    text = render(fleet(tmp_path))
    cells = re.findall(r'<li class="cell (\w+)" title="(\w+): ([^;"]+)', text)
    assert cells == [
        ("missing", "gone", "missing"),
        ("error", "n0", "failed"),
        ("ok", "n1", "passed"),
        ("error", "n2", "failed"),
        ("ok", "n3", "passed"),
    ]
    assert 'title="n0: failed; Broken [a-check]"' in text
    assert 'aria-label="nodes to leave out">gone,n[0,2]</pre>' in text
    assert 'id="filter"' in text
    assert 'id="filter"' not in render(single(BROKEN))


def test_the_policy_allows_this_script_alone() -> None:
    text = render(single(BROKEN))
    assert "default-src 'none'" in text
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", text)
    assert text.count("<script>") == 1


def test_a_simulated_result_says_so() -> None:
    assert "SIMULATED" in render(node("n", BROKEN, simulated=True))
    assert "SIMULATED" not in render(single(BROKEN))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(hostile=st.text(max_size=60))
def test_no_text_of_a_report_becomes_markup(hostile: str) -> None:
    evil = f"</script><img src=x onerror=a>\x1b[2J{hostile}"
    bad = Finding(
        check="a-check",
        level=Level.ERROR,
        title=evil,
        observed=evil,
        remedy=Remedy(summary=evil, commands=(evil,)),
        nodes=(evil,),
        refs=(evil,),
    )
    result = ProbeResult(
        stage=evil,
        stages={evil: 1.0},
        values={"rates": {evil: {"1": {"busbw": 2}, "2": {"busbw": 3}}}, "name": evil},
    )
    tried = ProbeResult(values={"layouts": {evil: {}, f"TP2 {evil}": {}}})
    runs = (
        ProbeRun(probe=evil, device="npu", ranks=(result,)),
        ProbeRun(probe="smoke-train", world_size=4, ranks=(tried,)),
    )
    text = render(single(bad, probes=runs))
    assert "<img" not in text
    assert "\x1b" not in text
    assert Page(text).fetched == ["data:,"]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_shows_it(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(single(BROKEN, probes=RUNS)))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    command += ["--disable-sync", f"--user-data-dir={tmp_path}/profile", "--enable-logging=stderr"]
    done = subprocess.run(
        [*command, "--dump-dom", f"file://{page}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "mend --now" in done.stdout
    assert "CONSOLE" not in done.stderr
