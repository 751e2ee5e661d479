"""The page of a diagnosis: the root cause first, ranks by what they say, nothing unescaped."""

import re
from pathlib import Path

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.render.diagnosis_html import Dot, draw_timeline, render
from ascend_doctor.render.rank_rows import rank_rows
from tests.conftest import Command
from tests.diagnosis.logs import of_files, of_text
from tests.render.test_html import visible

HOSTILE = "<script>alert(1)</script>\u202e'\"&"
OOM = (
    "[rank1]: RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 1; 60.97 GiB total"
    " capacity; 58.00 GiB already allocated; 1.00 GiB free)\n"
)
WAITS = (
    "2026-11-20-10:12:0{rank} [rank{rank}]: EI0002: [PID: 1] 2026-11-20-10:12:11 The wait execution"
    " of the Notify register times out. Reason: The Notify register has not received the Notify"
    " record from remote rank [1].\n"
)


def of_job() -> Diagnosis:
    logs = {f"rank{rank}.log": WAITS.format(rank=rank) for rank in (0, 2, 3)}
    return of_files({**logs, "rank1.log": f"2026-11-20 10:02:03 {OOM}"})


def test_the_root_cause_stands_first_then_the_ranks_the_guilty_on_top() -> None:
    page = render(of_job())
    assert page.index("<h1") < page.index("Root cause:") < page.index('id="ranks"')
    ranks = page[page.index('id="ranks"') :]
    assert ranks.index('id="rank-1"') < ranks.index('id="rank-0"')
    assert 'waits for <a href="#rank-1">rank 1</a>' in ranks
    assert re.search(r'<li class="error state-guilty" id="rank-1">', ranks)
    assert "What followed from it (1)" in page


def of_unknown_error() -> Diagnosis:
    logs = {f"rank{rank}.log": WAITS.format(rank=rank) for rank in (0, 2, 3)}
    error = "Traceback (most recent call last):\n[rank1]: FrobError: no frob"
    return of_files({**logs, "rank1.log": f"2026-11-20 10:02:03 [rank1]: {error}\n"})


def test_an_error_of_its_own_stands_before_what_followed() -> None:
    page = render(of_unknown_error())
    assert "<h1" in page
    assert "An error that the catalogue does not know" in page[page.index("<h1") :][:200]
    root, followed = page.index("Root cause:"), page.index("What followed:")
    assert root < page.index("FrobError: no frob", root) < followed
    assert "Not explained:" not in page


def test_nothing_of_a_log_is_markup() -> None:
    page = render(of_text(f"[rank0]: Traceback (most recent call last):\nValueError: {HOSTILE}\n"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page
    assert "Content-Security-Policy" in page


def test_a_page_about_nothing_shows_what_was_at_work_last() -> None:
    page = render(of_text("iteration 1/ 10 | lm loss: 2.3 <b>\n"))
    assert "Nothing known was found" in page
    assert "train.log:1: iteration 1/ 10 | lm loss: 2.3 &lt;b&gt;" in page
    page = render(of_text("starting\n"))
    assert "Nothing known was found" not in page
    assert "Nothing shows that the run got on" in page


def test_what_to_type_first_stands_before_the_causes() -> None:
    diagnosis = of_unknown_error()
    page = render(diagnosis, next_step="ascend-doctor diagnose 'a&b' ~/ascend/log")
    shown = page.index("ascend-doctor diagnose &#39;a&amp;b&#39; ~/ascend/log\n</span></pre>")
    assert page.index("Start here") < shown < page.index("<main")
    assert 'class="start"' not in render(diagnosis)


def test_steps_and_failures_share_one_timeline() -> None:
    rows = [f"2026-11-20 10:00:0{n} iteration {n}/ 9 | lm loss: 2.3" for n in (1, 2, 3)]
    late = WAITS.format(rank=0).replace("10:12:00", "10:12:04")
    files = {f"rank{rank}.log": late.replace("rank0", f"rank{rank}") for rank in (0, 2)}
    job = of_files({**files, "rank1.log": "\n".join([*rows, f"2026-11-20 10:02:04 {OOM}"])})
    assert [(step.step, step.after) for step in job.steps] == [
        (1, -123.0),
        (2, -122.0),
        (3, -121.0),
    ]
    timeline = draw_timeline(rank_rows(job), job.steps)
    assert [dot.at for dot in timeline.steps] == [5.0, 15.0, 25.0]
    assert timeline.rows == ((Dot(30.0, "rank 1 +0.0 s"),), (Dot(100.0, "ranks 0,2 +600.0 s"),))
    assert "step 1 -123.0 s to step 3 -121.0 s" in render(job)


def test_the_lines_round_the_cause_are_shown(tmp_path: Path, doctor: Command) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"line {n}\n" for n in range(20)) + f"\x1b[31m{OOM}<b>after\n")
    assert doctor("diagnose", str(log), "-o", str(tmp_path / "page.html")).returncode == 1
    page = visible((tmp_path / "page.html").read_text("utf-8"))
    shown = re.findall(r'<span class="row( here)?"><b>(\d+)</b> (.{6})', page)
    assert [number for _, number, _ in shown] == [str(n) for n in range(15, 23)]
    assert shown[6] == (" here", "21", "[rank1")
    assert shown[7][2] == "&lt;b&"
