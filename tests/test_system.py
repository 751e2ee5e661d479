import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.machine.live import (
    OUTPUT_LIMIT,
    LiveMachine,
    NotRecorded,
    ProgramMissing,
    matches,
)
from ascend_doctor.machine.recorded import OverlayMachine, RecordingMachine, ReplayMachine


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_gives_both_streams_and_its_exit_code() -> None:
    done = LiveMachine().run(
        python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    )
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_a_signal_is_a_negative_exit_code() -> None:
    done = LiveMachine().run(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert done.exit_code == -11


@pytest.mark.parametrize("name", ["no-such-program", "/etc/passwd", "a\0b"])
def test_a_program_that_cannot_start_is_missing(name: str) -> None:
    with pytest.raises(ProgramMissing):
        LiveMachine().run([name])


def test_a_hanging_command_ends_at_its_deadline_with_all_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import subprocess, sys, time;child = subprocess.Popen([sys.executable, '-c', 'import "
        f"time; time.sleep(600)']);open({str(note)!r}, 'w').write(str(child.pid));print('begun', "
        "flush=True); time.sleep(600)"
    )
    done = LiveMachine().run(python(code), deadline=2)
    assert done.timed_out
    assert done.exit_code is None
    assert done.stdout == "begun\n"
    child = int(note.read_text())
    for _ in range(50):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie":
            break
        time.sleep(0.1)
    else:
        pytest.fail("the grandchild survived")


def test_a_command_that_closes_its_streams_and_hangs_ends_too() -> None:
    done = LiveMachine().run(
        python("import os, time; os.close(1); os.close(2); time.sleep(600)"), deadline=1
    )
    assert done.timed_out


def test_endless_output_is_cut_and_the_command_ended() -> None:
    done = LiveMachine().run(python("while True: print('x' * 1000)"), deadline=60)
    assert done.truncated
    assert len(done.stdout) == OUTPUT_LIMIT


def test_undecodable_output_is_replaced() -> None:
    done = LiveMachine().run(python("import os; os.write(1, b'a\\xff\\x00b')"))
    assert done.stdout == "a\ufffd\x00b"


def test_a_pipe_or_device_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        LiveMachine().read(str(tmp_path / "pipe"))
    with pytest.raises(OSError, match="not a regular file"):
        LiveMachine().read("/dev/zero")


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"\xff" * 5000)
    assert len(LiveMachine().read(str(tmp_path / "big"), limit=100)) == 100


def test_status_follows_links_and_tells_the_kind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    status = LiveMachine().status(str(tmp_path / "link"))
    assert (status.kind, status.target) == ("file", str(tmp_path / "file"))
    assert LiveMachine().status("/dev/null").kind == "char"


def test_a_recording_replays_what_was_asked_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.txt").write_text("hello secret\n")
    live = RecordingMachine(LiveMachine(env={"PATH": os.environ["PATH"]}))
    folder = str(tmp_path / "d")
    live.read(f"{folder}/a.txt")
    live.run(python("print('secret')"), name="print")
    with pytest.raises(ProgramMissing):
        live.run(["no-such-program"])
    live.value("answer", lambda: {"x": [1, 2]})
    assert matches(live, folder, "*.txt") == (f"{folder}/a.txt",)
    live.status(folder)
    out = tmp_path / "recording"
    live.save(
        out,
        origin="a test",
        python="/bin/python3",
        clean=lambda text: text.replace("secret", "[hidden]"),
        env={"A": "1"},
    )

    again = ReplayMachine(out)
    assert again.recording.python == "/bin/python3"
    assert again.env == {"A": "1"}
    assert again.read(f"{folder}/a.txt") == "hello [hidden]\n"
    assert again.run(python("print('secret')"), name="print").stdout == "[hidden]\n"
    assert again.value("answer", lambda: None) == {"x": [1, 2]}
    assert again.names(folder) == ("a.txt",)
    assert again.status(folder).kind == "directory"
    with pytest.raises(ProgramMissing):
        again.run(["no-such-program"])
    with pytest.raises(ProgramMissing):
        again.run(["never-asked"])
    with pytest.raises(NotRecorded):
        again.value("never-asked", lambda: 1)
    with pytest.raises(FileNotFoundError):
        again.read("/etc/hostname")


def test_a_recording_never_replaces_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "keep").write_text("x")
    with pytest.raises(DataError, match="not empty"):
        RecordingMachine(LiveMachine()).save(tmp_path, origin="x", python="", clean=str, env={})
    assert (tmp_path / "keep").read_text() == "x"


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2", "origin: x\nsurprise: 1\n", "origin: 5\n", "schema: 99\norigin: x\n", "\xff"],
)
def test_a_broken_recording_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine.yaml").write_text(text, "latin-1")
    with pytest.raises(DataError, match=r"machine\.yaml"):
        ReplayMachine(tmp_path)


def test_replayed_links_lead_on(tmp_path: Path) -> None:
    (tmp_path / "root/opt/cann-8.5.0").mkdir(parents=True)
    (tmp_path / "root/opt/cann-8.5.0/f").write_text("x")
    (tmp_path / "machine.yaml").write_text("origin: a test\nlinks: {/opt/cann: /opt/cann-8.5.0}\n")
    machine = ReplayMachine(tmp_path)
    assert machine.read("/opt/cann/f") == "x"
    assert machine.status("/opt/cann").target == "/opt/cann-8.5.0"
    assert machine.names("/opt") == ("cann", "cann-8.5.0")


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("origin: a test\nlinks: {/a: /b, /b: /a}\n")
    with pytest.raises(OSError, match="too many links"):
        ReplayMachine(tmp_path).read("/a/x")


def test_a_recording_cannot_read_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    folder = tmp_path / "machine"
    (folder / "root").mkdir(parents=True)
    (folder / "root" / "out").symlink_to(tmp_path / "secret")
    (folder / "machine.yaml").write_text(
        "origin: a test\ncommands: [{name: a, stdout_file: ../secret}]\n"
    )
    machine = ReplayMachine(folder)
    for path in ("/../../secret", "/out"):
        with pytest.raises(DataError, match="leads out"):
            machine.read(path)
    with pytest.raises(DataError, match="leads out"):
        machine.run(["a"])


def test_an_overlay_answers_first_and_leaves_the_rest_to_the_machine_behind(tmp_path: Path) -> None:
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/hostname").write_text("simulated\n")
    (tmp_path / "machine.yaml").write_text(
        "origin: a test\n"
        "commands: [{name: npu-smi info, stdout: table}]\n"
        "nodes: {/dev/davinci0: {kind: char}}\n"
        "values: {uname: front}\n"
    )
    machine = OverlayMachine(ReplayMachine(tmp_path), LiveMachine(), {"A": "1"})
    assert machine.env == {"A": "1"}
    assert machine.run(["npu-smi", "info"]).stdout == "table"
    done = machine.run(python("import os; print(os.environ.get('A'), 'HOME' in os.environ)"))
    assert done.stdout == "1 False\n"
    assert machine.read("/etc/hostname") == "simulated\n"
    assert machine.read("/proc/self/status")
    assert machine.status("/dev/davinci0").kind == "char"
    assert machine.status("/dev/null").kind == "char"
    assert {"davinci0", "null"} <= set(machine.names("/dev"))
    assert machine.value("uname", lambda: "behind") == "front"
    assert machine.value("user", lambda: "behind") == "behind"
    with pytest.raises(FileNotFoundError):
        machine.names("/no/such/folder")
