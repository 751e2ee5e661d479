from __future__ import annotations

import io

import pytest
from rich.console import Console

from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.request import ProbeRequest
from ascend_doctor.progress import ProbeDisplay

HOSTILE = "\x1b[31m[red]\n\x07sum"


def request(ranks: int = 2) -> ProbeRequest:
    return ProbeRequest(
        probe="allreduce", device="cpu", python="python", script="x.py", world_size=ranks
    )


def shown(*, terminal: bool, quiet: bool = False, ranks: int = 2) -> tuple[str, ProbeDisplay]:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=terminal, color_system=None, width=100, markup=False
    )
    with ProbeDisplay(quiet=quiet, console=console) as display:
        display.started(request(ranks))
        display.entered(0, "import", 0.5)
        display.entered(1, "import", 0.6)
        display.entered(1, HOSTILE, 1.5)
        if terminal and not quiet:
            console.print(display._table())
        display.ended(ProbeRun(probe="allreduce", seconds=2.0))
        display.ended(ProbeRun(probe="allreduce", not_started="no\x1btorch"))
    return file.getvalue(), display


def test_plain_lines_where_there_is_no_terminal() -> None:
    text, display = shown(terminal=False)
    assert text.splitlines() == [
        "allreduce: 2 ranks on cpu, at most 90 s",
        "allreduce: import (0.5 s)",
        r"allreduce: \x1b[31m[red]\n\x07sum (1.5 s)",
        "allreduce: ended after 2.0 s",
        r"allreduce: not started: no\x1btorch",
    ]
    assert len(display.runs) == 2


def test_a_table_of_ranks_on_a_terminal() -> None:
    text, _ = shown(terminal=True)
    assert "allreduce on cpu" in text
    assert r"\x1b[31m[red]\n\x07sum" in text
    assert "\x1b[31m" not in text


def test_many_ranks_are_counted() -> None:
    text, _ = shown(terminal=True, ranks=64)
    assert "62  not started" in text


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_quiet(*, terminal: bool) -> None:
    text, display = shown(terminal=terminal, quiet=True)
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
