import re
import shutil
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_doctor
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Finding, Level, Remedy
from ascend_doctor.fleet.merge import merge, report_files
from ascend_doctor.fleet.merged_report import judge
from ascend_doctor.judging.subjects import Subject
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.render.formats.html import render
from ascend_doctor.report import Report
from tests.fleet.nodes import node, write
from tests.present import present
from tests.programs import run_program

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
VOID = {"meta", "link", "br", "input", "wbr"}
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


def visible(page: str) -> str:
    """A page without its other language."""
    assert page.count("<template") == page.count("</template>") <= 1
    return re.sub("<template.*</template>", "", page, flags=re.DOTALL)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.headings: list[int] = []
        self.feed(visible(text))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.ids += [name] if (name := known.get("id")) else []
        self.fetched += [
            known[attribute] or "" for attribute in ("src", "srcset", "data") if attribute in known
        ]
        if tag == "link":
            self.fetched.append(known.get("href") or "")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


_TEMPLATES = Path(ascend_doctor.__file__).parent / "render" / "pages"


def single(*findings: Finding, probes: tuple[ProbeRun, ...] = ()) -> Report:
    return node("n", *findings, snapshot=Snapshot(probes=probes))


def fleet(folder: Path) -> Report:
    odd = msgspec.structs.replace(BROKEN, check="odd", level=Level.WARNING)
    write(folder, node("n0", BROKEN), node("n1"), node("n2", torch="9"), node("n3", odd))
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
    for shown in ("Broken", "mend --now", "a-check", "rank 1", "no result in sum"):
        assert shown in text
    html = render(fleet(tmp_path))
    assert "gone" in html
    assert "<b>9</b>: n2" in html


def test_a_fleet_has_a_cell_for_every_node_and_a_list_to_leave_out(tmp_path: Path) -> None:
    text = visible(render(fleet(tmp_path)))
    cells = re.findall(r'<li class="cell (\w+)" title="(\w+): ([^;"]+)', text)
    assert cells == [
        ("missing", "gone", "missing"),
        ("error", "n0", "failed"),
        ("ok", "n1", "passed"),
        ("error", "n2", "failed"),
        ("warning", "n3", "passed, with findings"),
    ]
    assert 'title="n0: failed; Broken [a-check]"' in text
    assert 'aria-label="Nodes to leave out"><span class="row">gone,n[0,2]' in text
    assert 'id="filter"' in text
    assert 'id="filter"' not in render(single(BROKEN))


def test_a_fleet_has_a_heading_of_nodes_and_a_line_a_subject(tmp_path: Path) -> None:
    cann = Subject(name="CANN", level=Level.ERROR, text="not installed")
    host = Subject(name="Host", level=Level.OK, text="debian")
    write(tmp_path, node("n0", BROKEN, subjects=(host, cann)), node("n1", subjects=(host,)))
    files = merge(report_files([str(tmp_path)]), frozenset())
    text = visible(render(judge(files, expected=(), fail_on=Level.ERROR, seconds=0)))
    heading = present(re.search(r"<h1[^>]*>(.*?)</h1>", text))
    assert heading[1] == "Broken (1 node)"
    rows = re.findall(r"<b>(\w+)</b>.*?<span>([^<]*)</span></li>", text)
    assert rows == [("Host", "passed on 2 nodes"), ("CANN", "errors on 1 node")]


@pytest.mark.parametrize(
    ("names", "racks"),
    [
        (("r01n1", "r01n2", "r02n1"), ["r01", "r02"]),
        (("rack3-node12.a", "rack4-node1.a", "rack3-node2.a"), ["rack3", "rack4"]),
        (("n1", "n2", "n3"), []),
        (("r01n1", "r01n2"), []),
        (("r01n1", "r02n1"), []),
        (("r01n1", "r01n2", "r02n1", "login"), []),
        (("10.0.0.1", "10.0.0.2", "10.0.1.1"), []),
    ],
)
def test_racks_are_told_by_names(names: tuple[str, ...], racks: list[str], tmp_path: Path) -> None:
    write(tmp_path, *map(node, names))
    files = merge(report_files([str(tmp_path)]), frozenset())
    text = render(judge(files, expected=(), fail_on=Level.ERROR, seconds=0))
    part = text[text.index('class="racks"') : text.index("</section>")]
    assert re.findall("<h3>(.*?)</h3>", part) == racks
    assert part.count("<li ") == len(names)


def test_many_names_of_nodes_are_folded(tmp_path: Path) -> None:
    write(tmp_path, node("bad", BROKEN), *(node(f"n{number}") for number in range(9)))
    files = merge(report_files([str(tmp_path)]), frozenset())
    text = render(judge(files, expected=(), fail_on=Level.ERROR, seconds=0))
    assert "<td>9</td><td><details><summary>names</summary>n[0-8]</details></td>" in text
    assert "<td>1</td><td>bad</td>" in text


def test_a_stage_has_the_colour_of_its_end() -> None:
    ranks = (
        *RANKS,
        ProbeResult(rank=2, ok=False, stage="sum", stages={"import torch": 2.0, "sum": 1.0}),
    )
    text = render(single(probes=(ProbeRun(probe="allreduce", ranks=ranks, seconds=4.0),)))
    rows = re.findall(r"<tr>.*?</tr>", text[text.index('id="time"') :], re.DOTALL)
    stages = [re.findall(r'<i class="(\w+)', row) for row in rows[:3]]
    assert stages == [["ok", "ok"], ["ok", "unknown"], ["ok", "error"]]
    assert [re.findall(r'class="ended (\w+)', row) for row in rows[:3]] == [
        ["ok"],
        ["unknown"],
        ["error"],
    ]


@pytest.mark.parametrize("template", sorted(_TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_no_region_is_called_as_its_section(template: Path) -> None:
    """A screen reader lists regions by their names (axe: landmark-unique)."""
    text = template.read_text("utf-8")
    sections = set(re.findall(r"<h2[^>]*>(\{\{.*?\}\})", text))
    assert not sections & set(re.findall(r'role="region" aria-label="(\{\{.*?\}\})"', text))


def test_long_words_are_broken_where_they_divide() -> None:
    finding = msgspec.structs.replace(BROKEN, observed="a/b and /usr/local/Ascend/cann-9.0.0")
    text = render(single(finding))
    assert "a/b and /usr/<wbr>local/<wbr>Ascend/<wbr>cann-9.0.0" in text


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


def open_page(page: Path, profile: Path) -> str:
    """The page in Chromium after its scripts, with an empty console."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    command += ["--disable-sync", f"--user-data-dir={profile}", "--enable-logging=stderr"]
    done = run_program([*command, "--dump-dom", f"file://{page}"])
    assert "CONSOLE" not in done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_shows_it(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(single(BROKEN, probes=RUNS)))
    assert "mend --now" in open_page(page, tmp_path / "profile")


# A page in a phone-wide frame: what sticks out, a filter in use, a pressed node; in Chinese, too.
PHONE = """<!doctype html><iframe width="390" height="800" srcdoc="{page}"></iframe><pre></pre>
<script>onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const said = [page.documentElement.scrollWidth <= 390];
  const field = page.getElementById("filter");
  field.value = "failed";
  field.dispatchEvent(new Event("input"));
  said.push(page.getElementById("chosen").textContent);
  page.querySelector(".nodes .error").click();
  said.push(page.getElementById("chosen").textContent);
  page.querySelector(".language").click();
  said.push(page.documentElement.lang, page.documentElement.scrollWidth <= 390);
  page.querySelector(".nodes .error").click();
  said.push(page.getElementById("chosen").textContent === said[2]);
  page.querySelector(".language").click();
  said.push(page.getElementById("chosen").textContent === said[2]);
  document.querySelector("pre").textContent = said.join("|");
}};</script>"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_phone_filters_nodes_and_names_the_one_that_is_pressed(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    page = tmp_path / "phone.html"
    page.write_text(PHONE.format(page=escape(render(fleet(reports)))))
    output = open_page(page, tmp_path / "profile")
    announced = "true|2 of 5 nodes: n0: failed, n2: failed|n0: failed; Broken [a-check]"
    assert f"<pre>{announced}|zh-CN|true|false|true</pre>" in output
