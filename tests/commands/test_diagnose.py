import fcntl
import json
import signal
import subprocess
import sys
import termios
import time
import zipfile
from pathlib import Path

import pytest

from ascend_doctor.render.formats import FORMATS
from tests.conftest import Command
from tests.later import jsonschema
from tests.programs import run_bytes

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("ascend-doctor")
OOM = "[rank3]: RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60 GiB total)"
KEYS = {
    *("schema", "kind", "tool_version", "redacted", "outcome", "exit_code", "logs", "lines"),
    *("bytes", "ranks", "nodes", "world_size", "causes", "guilty", "first_error", "unexplained"),
    *("steps", "excerpt", "codes", "benign", "not_read", "now", "paste", "seconds"),
    *(
        "undecided",
        "work",
        "timeline",
        "suspects",
        "error_lines",
        "or_more_error_lines",
        "outlived",
        "outlived_lines",
        "without_log",
        "verdict",
        "attempt",
        "exit_status",
        "step",
        "stall",
    ),
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(f"{OOM}\n[rank3]: password=hunter2222 at 10.1.2.3\n")
    return path


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("iteration 1/ 10 | lm loss: 2.3\n", 0, "nothing known found"),
        (OOM, 1, "npu-oom-torch"),
        (
            "Traceback (most recent call last):\nValueError: x\n",
            3,
            "2 error lines that the catalogue",
        ),
        ("{'loss': 0.0, 'grad_norm': nan}\n", 3, "npu-loss-zero-gradnorm-nan"),
        ("loading a model\n", 3, "Nothing shows that the run got on"),
        (
            "import error: No module named 'triton'\nstep 1: loss 2.3\n",
            0,
            "1 harmless message (1 kind)",
        ),
    ],
)
def test_exit_codes(doctor: Command, tmp_path: Path, text: str, code: int, words: str) -> None:
    path = tmp_path / "train.log"
    path.write_text(text)
    done = doctor("diagnose", str(path))
    assert done.returncode == code
    assert words in done.stdout
    assert done.stderr == ""


def test_what_fails_is_chosen(doctor: Command, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("{'loss': 0.0, 'grad_norm': nan}\n")
    assert doctor("diagnose", str(path), "--fail-on", "warning").returncode == 1
    path.write_text("ValueError: x\n")
    assert doctor("diagnose", str(path), "--fail-on", "unknown").returncode == 1


@pytest.mark.parametrize("name", ["nothing.log", "empty", "empty.log"])
def test_bad_input_is_one_line_and_exit_2(doctor: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.log").touch()
    done = doctor("diagnose", str(tmp_path / name))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("ascend-doctor: ")


def test_a_packed_log_without_anything_to_read_is_bad_input(
    doctor: Command, tmp_path: Path
) -> None:
    (tmp_path / "a.log.gz").write_bytes(b"\x1f\x8b\x08\x00broken")
    assert doctor("diagnose", str(tmp_path / "a.log.gz")).returncode == 2


def test_standard_input_is_a_log(log: Path) -> None:
    done = run_bytes([PROGRAM, "diagnose", "-"], check=False, input=log.read_bytes())
    assert done.returncode == 1
    assert b"standard input:1 (rank 3)" in done.stdout


def test_the_json_has_pinned_keys_and_fits_its_schema(doctor: Command, log: Path) -> None:
    answer = json.loads(doctor("diagnose", str(log), "--format", "json").stdout)
    assert set(answer) == KEYS
    schema = json.loads(doctor("schema", "diagnosis").stdout)
    jsonschema.Draft202012Validator(schema).validate(answer)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_names_the_failure(doctor: Command, log: Path, name: str) -> None:
    done = doctor("diagnose", str(log), "--format", name)
    assert done.returncode == 1
    assert "npu-oom-torch" in done.stdout


def test_names_are_hidden_unless_asked_for(doctor: Command, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("ValueError: password=hunter2222 of /home/alice at 10.1.2.3\n")
    hidden = doctor("diagnose", str(path)).stdout
    for secret in ("hunter2222", "alice", "10.1.2.3"):
        assert secret not in hidden
    open_ = doctor("diagnose", str(path), "--no-redact").stdout
    assert "10.1.2.3" in open_


def test_check_asks_this_machine(doctor: Command, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("ModuleNotFoundError: No module named 'mindspeed'\n")
    done = doctor("diagnose", str(path), "--check", "--format", "json")
    answer = json.loads(done.stdout)
    assert [finding["check"] for finding in answer["now"]] == [
        "mindspeed-installed",
        "declared-requirements",
    ]
    assert done.returncode == 1


def test_a_file_is_written(doctor: Command, log: Path, tmp_path: Path) -> None:
    done = doctor("diagnose", str(log), "-o", str(tmp_path / "out.json"))
    assert done.stdout == ""
    assert json.loads((tmp_path / "out.json").read_text())["outcome"] == "known failure"


def test_an_interrupted_stream_is_diagnosed_as_far_as_it_was_read() -> None:
    child = subprocess.Popen(
        [PROGRAM, "diagnose", "-", "--format", "json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin
    child.stdin.write(f"{OOM}\n".encode())
    child.stdin.flush()
    left = bytearray(4)
    while fcntl.ioctl(child.stdin, termios.FIONREAD, left) or any(left):
        time.sleep(0.05)
    time.sleep(0.5)  # it has read the line and waits for another one
    child.send_signal(signal.SIGTERM)
    out, errors = child.communicate(timeout=300)
    assert (child.returncode, errors) == (130, b"")
    assert json.loads(out)["causes"][0]["id"] == "npu-oom-torch"


def test_local_ranks_an_archive_and_the_node_that_the_user_names(
    doctor: Command, tmp_path: Path
) -> None:
    rows = [f"[default{n}]:iteration 1/ 10" for n in range(4)]
    rows.append(OOM.replace("[rank3]: ", "[default3]:"))
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("train.log", "using world size: 8\n" + "\n".join(rows) + "\n")
    done = doctor("diagnose", str(tmp_path / "logs.zip"))
    assert done.returncode == 1
    assert "Guilty    local rank 3: it is the first" in done.stdout
    done = doctor("diagnose", "--format", "json", "--node-rank", "1", str(tmp_path / "logs.zip"))
    guilty = json.loads(done.stdout)["guilty"]
    assert (guilty["ranks"], guilty["local_ranks"]) == ([7], [3])
    assert doctor("diagnose", "--node-rank", "-1", str(tmp_path)).returncode == 2


def test_an_archive_that_is_none_is_said_in_one_line(doctor: Command, tmp_path: Path) -> None:
    path = tmp_path / "logs.tar.gz"
    path.write_bytes(b"no archive")
    done = doctor("diagnose", str(path))
    assert done.returncode == 2
    assert "logs.tar.gz" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_host_of_torchruns_summary_is_hidden(doctor: Command, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "Root Cause (first observed failure):\n[0]:\n  host      : atlas-17\n"
        "  rank      : 11 (local_rank: 3)\n  exitcode  : -9 (pid: 4242)\n"
    )
    shown = doctor("diagnose", "--no-redact", str(path)).stdout
    assert "rank 11, local rank 3, node atlas-17" in shown
    assert "atlas" not in doctor("diagnose", "--redact", str(path)).stdout


def test_what_others_can_do_with_a_report(
    doctor: Command, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = tmp_path / "fine.log"
    fine.write_text("iteration 1/ 10 | lm loss: 2.3\n")
    done = doctor("diagnose", "--silent", str(fine))
    assert (done.returncode, done.stdout) == (0, "")
    assert "npu-oom-torch" in doctor("diagnose", "--silent", str(log)).stdout
    paste = doctor("diagnose", "--format", "markdown", "--issue", str(log)).stdout
    assert paste.startswith("### ascend-doctor")
    page = tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert doctor("diagnose", "--format", "github", str(log)).returncode == 1
    assert "npu-oom-torch" in page.read_text()


ECC = "[rank0]: RuntimeError: NPU function error: HBM MULTI BIT ECC ERROR, error code is 507054\n"
HANG = "[rank0]: EI0006: 2026-03-01-10:02:05.000.000 Getting socket times out.\n"


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        (ECC, "exclude atlas-07", 69),
        (HANG, "restart", 75),
        (f"{OOM}\n", "stop", 78),
        ("[ERROR] something odd\n", "unknown", 3),
        ("iteration 1/ 10 | lm loss: 2.3\n", "unknown", 0),
    ],
)
def test_a_verdict_for_scripts(
    doctor: Command, tmp_path: Path, text: str, line: str, code: int
) -> None:
    path = tmp_path / "train.log"
    path.write_text(text)
    file = tmp_path / "diagnosis.json"
    options = ("--verdict", "--nodes", "atlas-07", "--format", "json", "-o", str(file))
    done = doctor("diagnose", str(path), *options)
    assert done.stdout == f"{line}\n"
    assert done.stderr.startswith("ascend-doctor: ")
    assert done.returncode == json.loads(file.read_text())["exit_code"]
    assert doctor("diagnose", str(path), *options, "--exit-verdict").returncode == code
    assert "atlas-07" not in file.read_text()
    hidden = doctor("diagnose", str(path), "--verdict", "--nodes", "atlas-07", "--redact").stdout
    assert "atlas-07" not in hidden


def test_the_verdict_stands_first(doctor: Command, log: Path) -> None:
    text = doctor("diagnose", str(log)).stdout.split("\n")
    assert text[1].startswith("Verdict: stop: NPU out of memory")
    page = doctor("diagnose", str(log), "--format", "markdown").stdout
    assert "**Verdict: stop" in page


def test_the_verdict_alone_takes_standard_output(doctor: Command, log: Path) -> None:
    done = doctor("diagnose", str(log), "--verdict", "--format", "json")
    assert done.returncode == 2
    assert "--verdict takes standard output" in done.stderr


def test_a_hidden_node_is_known_again_in_a_history(doctor: Command, tmp_path: Path) -> None:
    logs = tmp_path / "train.log"
    history = tmp_path / "1.json"
    waiting = "".join(f"[rank{rank}]: {HANG[9:]}" for rank in range(1, 16))
    absent = "[rank1]: Failed to connect agent[0].\n"
    for step in (3, 7):
        logs.write_text(
            f"using world size: 16, \n iteration {step}/ 10 | lm loss: 2\n{waiting}{absent}"
        )
        done = doctor(
            *("diagnose", str(logs), "--verdict", "--nodes", "atlas-07,atlas-12"),
            *(("--history", str(history)) if step > 3 else ()),
            *("--format", "json", "-o", str(tmp_path / f"{step}.json")),
        )
        if step == 3:
            assert done.stdout == "restart\n"
            (tmp_path / "3.json").rename(history)
    assert done.stdout == "exclude atlas-07\n"
    assert "atlas-07" not in history.read_text()
