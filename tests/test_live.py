import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.request import ProbeRequest
from ascend_doctor.progress import RUNS, NodeDisplay, ProbeDisplay, ProgressBar, TaskDisplay

HOSTILE = "\x1b[31m[red]\n\x07sum"


def request(ranks: int = 2, probe: str = "allreduce") -> ProbeRequest:
    return ProbeRequest(probe=probe, device="cpu", python="python", script="x.py", world_size=ranks)


def console(file: io.StringIO, *, terminal: bool, width: int = 100) -> Console:
    return Console(file=file, force_terminal=terminal, color_system=None, width=width, markup=False)


def show(*, terminal: bool, quiet: bool = False, ranks: int = 2) -> tuple[str, ProbeDisplay]:
    file = io.StringIO()
    screen = console(file, terminal=terminal)
    with ProbeDisplay(quiet=quiet, console=screen) as display:
        display.expect([request(probe="port"), request(ranks)])
        display.ended(ProbeRun(probe="port", not_started="no\x1btorch"))
        display.started(request(ranks))
        display.entered(0, "import", 0.5)
        display.entered(1, "import", 0.6)
        display.entered(1, HOSTILE, 1.5)
        if terminal and not quiet:
            display._bar.refresh()
        display.ended(ProbeRun(probe="allreduce", seconds=2.0))
    return file.getvalue(), display


def test_plain_lines_where_there_is_no_terminal() -> None:
    text, display = show(terminal=False)
    assert text.splitlines() == [
        r"port: not started: no\x1btorch (1/2 probes)",
        "allreduce: 2 ranks on cpu, at most 90 s",
        "allreduce: import (0.5 s)",
        r"allreduce: \x1b[31m[red]\n\x07sum (1.5 s)",
        "allreduce: ended after 2.0 s (2/2 probes)",
    ]
    assert len(display.runs) == 2


def test_a_bar_on_a_terminal() -> None:
    text, _ = show(terminal=True)
    assert "\u2501" * 12 in text
    assert "0:00:00 1/2 probes · allreduce (cpu): 1 import, 1 " in text
    assert r"\x1b[31m[red]\n\x07sum" in text
    assert "\x1b[31m" not in text


def test_many_ranks_are_counted() -> None:
    text, _ = show(terminal=True, ranks=64)
    assert "62 not started" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_quiet(*, terminal: bool) -> None:
    text, display = show(terminal=terminal, quiet=True)
    assert text == ""
    assert len(display.runs) == 2


def test_nothing_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with ProbeDisplay() as display:
        display.started(request())
        display.entered(0, "import", 0.1)
        display.ended(ProbeRun(probe="allreduce"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "import" in captured.err
    assert "(1 probes)" not in captured.err


def test_a_dumb_terminal_has_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    file = io.StringIO()
    with ProgressBar("probes", console=console(file, terminal=True)) as progress:
        assert not progress.moves
        progress.line("a line")
    assert file.getvalue() == "a line\n"


def test_nodes_are_counted_by_their_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NodeDisplay(str(tmp_path), 3, seconds=60, quiet=False):
        (tmp_path / "n0.json").touch()
        (tmp_path / "n1.json").touch()
    assert capsys.readouterr().err.splitlines() == [
        "The nodes are checked, for at most 60 s.",
        "2/3 nodes, 0 s",
    ]
    with NodeDisplay(str(tmp_path), 0, seconds=60, quiet=False):
        pass
    assert capsys.readouterr().err.splitlines()[1] == "2 nodes, 0 s"


@pytest.mark.parametrize(
    ("terminal", "kind", "words"),
    [(True, "xterm", "1/2 runs"), (True, "dumb", "long ...\n"), (False, "xterm", "")],
)
def test_a_task_without_a_word_is_told_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, kind: str, words: str, *, terminal: bool
) -> None:
    monkeypatch.setenv("TERM", kind)
    file = io.StringIO()
    screen = console(file, terminal=terminal)
    display = TaskDisplay(RUNS, ["short", "long"], console=screen)
    for task, seconds in (("short", 0.0), ("long", 0.3)):
        with display, display.run(task):
            time.sleep(seconds)
    assert words in file.getvalue()
    assert kind == "dumb" or "long ..." not in file.getvalue()
    assert terminal or not file.getvalue()


def test_a_narrow_terminal_breaks_no_line() -> None:
    file = io.StringIO()
    screen = console(file, terminal=True, width=60)
    with ProbeDisplay(console=screen) as display:
        display.started(request(1, "vocab-parallel-logprob"))
    assert "vocab-parallel-logp" in file.getvalue()
    assert "1 not started" not in file.getvalue()
