import socket

import pytest

from ascend_doctor.findings import Level
from tests.checks.levels import remedy_of
from tests.probes.judged import judge_probes
from tests.probes.standins import ran


def test_a_port_that_is_held_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        # Bound but not listening: no table of listeners has it.
        held.bind(("", 0))
        monkeypatch.setenv("MASTER_PORT", str(held.getsockname()[1]))
        run = ran("port", device="cpu")
    (finding,) = judge_probes(run, check="port")
    assert finding.level is Level.WARNING
    assert "in use" in finding.observed
    free = run.ranks[0].values["free"]
    assert len(set(free)) == 3
    assert remedy_of(finding).commands == (f"export MASTER_PORT={free[0]}",)


def test_a_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("", 0))
        number = listener.getsockname()[1]
    monkeypatch.setenv("MASTER_PORT", str(number))
    (finding,) = judge_probes(ran("port", device="cpu"), check="port")
    assert finding.level is Level.OK
    assert finding.observed.startswith(f"port {number}; free as well: ")


@pytest.mark.parametrize("text", ["a lot", "99999"])
def test_a_port_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MASTER_PORT", text)
    (finding,) = judge_probes(ran("port", device="cpu"), check="port")
    assert finding.level is Level.WARNING


def test_rank_0_elsewhere_is_not_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "192.0.2.1")
    (finding,) = judge_probes(ran("port", device="cpu"), check="port")
    assert finding.level is Level.SKIPPED
