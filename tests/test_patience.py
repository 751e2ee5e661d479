"""One factor for all deadlines: asked for, or because the processor is emulated."""

import os
import struct
import sys
from pathlib import Path

import pytest

from ascend_doctor.machine import patience as subject
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.patience import EMULATED, VARIABLE, patience
from ascend_doctor.probing.launching import NO_LOCALHOST
from ascend_doctor.probing.schedule import plan
from tests.probes.started import launch

NOT_MINE = 183 if os.uname().machine == "x86_64" else 62


def program(tmp_path: Path, machine: int) -> Path:
    path = tmp_path / "exe"
    path.write_bytes(b"\x7fELF" + bytes(14) + struct.pack("<H", machine))
    return path


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_program_for_another_processor_is_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "_PROGRAM", program(tmp_path, NOT_MINE))
    assert patience().factor == EMULATED
    assert patience().because.startswith(f"{os.uname().machine} is emulated on ")


@pytest.mark.parametrize("machine", [{62: 183, 183: 62}[NOT_MINE], 243, 0])
def test_its_own_processor_and_an_unknown_one_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: int
) -> None:
    monkeypatch.setattr(subject, "_PROGRAM", program(tmp_path, machine))
    assert patience() == (1.0, "")
    monkeypatch.setattr(subject, "_PROGRAM", tmp_path / "absent")
    assert patience() == (1.0, "")


def test_this_machine_is_as_the_kernel_says() -> None:
    assert patience() == (1.0, "")


@pytest.mark.parametrize(
    ("asked", "factor"),
    [("3", 3.0), ("1", 1.0), ("0.5", 1.0), ("odd", 1.0), ("nan", 1.0), ("inf", 1.0)],
)
def test_what_is_asked_for_counts(
    monkeypatch: pytest.MonkeyPatch, asked: str, factor: float
) -> None:
    monkeypatch.setenv(VARIABLE, asked)
    assert patience().factor == factor


def test_asking_for_none_holds_on_an_emulated_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "_PROGRAM", program(tmp_path, NOT_MINE))
    monkeypatch.setenv(VARIABLE, "1")
    assert patience().factor == 1.0


def test_deadlines_of_probes_and_commands_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    def deadlines() -> dict[str, float]:
        requests = plan(4, device="npu", nproc=2, python="python")
        return {request.probe: request.deadline for request in requests}

    before = deadlines()
    monkeypatch.setenv(VARIABLE, "4")
    after = deadlines()
    soak = 60.0  # the minute to soak stays one
    assert {name: (after[name] - 4 * before[name]) for name in after} == {
        name: -3 * soak if name == "soak" else 0.0 for name in after
    }
    done = LiveMachine().run([sys.executable, "-c", "import time; time.sleep(1)"], deadline=0.5)
    assert (done.exit_code, done.timed_out) == (0, False)


def test_probes_hear_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "limits.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1] / 'probes')!r})\n"
        "import _cases, _probe\n"
        "def body(probe):\n"
        "    probe.measure('limits', [_probe.GROUP_SECONDS['cpu'], _cases.IMPORT_SECONDS])\n"
        "_probe.main(body, name='limits')\n"
    )
    monkeypatch.setenv(VARIABLE, "2")
    (request, *_) = plan(1, device="cpu", nproc=1, python=sys.executable)
    request = type(request)(probe="limits", device="cpu", python=sys.executable, script=str(script))
    (rank,) = launch(request).ranks
    assert rank.values["limits"] == [120.0, 240.0]


def test_a_machine_without_localhost_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ascend_doctor.probing.launching._localhost", lambda: False)
    requests = plan(3, device="cpu", nproc=2, python=sys.executable)
    run = launch(next(request for request in requests if request.probe == "allreduce"))
    assert run.not_started == NO_LOCALHOST
    assert "/etc/hosts" in NO_LOCALHOST
