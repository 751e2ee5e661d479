import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ascend_doctor import __version__
from ascend_doctor.checks import all_checks
from ascend_doctor.cli import SECTIONS
from ascend_doctor.commands import check, rehearse, setup
from ascend_doctor.commands.short_help import ShortHelpCommand
from tests.conftest import Command
from tests.later import jsonschema
from tests.programs import run_program

PROGRAM = Path(sys.executable).with_name("ascend-doctor")
COMMANDS = [name for table in SECTIONS.values() for name in table]


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("ascend-doctor: ")
    return line


def test_version_and_help(installed: Command) -> None:
    assert installed("--version").stdout.strip() == f"ascend-doctor, version {__version__}"
    text = installed("--help").stdout
    assert all(name in text for name in COMMANDS)
    assert "Exit codes" in text


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "ascend_doctor", "--version"]
    done = run_program(command)
    assert done.stdout.strip() == f"ascend-doctor, version {__version__}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COMMANDS, "fleet check", "matrix solve", "matrix upgrade"])
def test_every_command_has_help_of_a_screen(
    doctor: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = doctor(*name.split(), "-h")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: ascend-doctor {name}")
    assert done.stdout.count("\n") <= 45


@pytest.mark.slow
@pytest.mark.parametrize("command", [check.command, rehearse.command, setup.command])
def test_short_help_leads_to_the_whole(doctor: Command, command: ShortHelpCommand) -> None:
    """The usual options are options of the command, and no more than a dozen are shown."""
    name = str(command.name)
    short, whole = doctor(name, "--help").stdout, doctor(name, "--help-all").stdout
    options = {
        str(option.name): option.opts[0] for option in command.params if option.opts[0][0] == "-"
    }
    assert command.usual < set(options)
    assert "--help-all" in short
    shown = {option for option in options.values() if f" {option} " in short.replace(",", " ")}
    assert len(shown - {"--help-all"}) <= 12
    assert all(option in whole for option in options.values())


@pytest.mark.slow
def test_json_is_short_for_its_format(doctor: Command) -> None:
    assert doctor("list", "--json").stdout == doctor("list", "--format", "json").stdout
    both = doctor("judge", "--json", "--format", "text", "x.json")
    assert (both.returncode, "only one format can go" in both.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "try `check`"),
        (["matrix", "verl"], "explain verl"),
        (["fix-it"], "mean `fix`?"),
        (["stack", "rm", "x"], "mean `remove`?"),
        (["setup", "0.15.3"], "did you mean `ascend-doctor setup --megatron 0.15.3`?"),
        (["setup", "ms-swift"], "`ascend-doctor setup --framework ms-swift`?"),
        (["check", "--preset", "slurm"], "'init'; did you mean `ascend-doctor check --preset pr"),
        (["plan", "qwen3"], "did you mean Qwen3-0.6B, Qwen3-1.7B"),
        (["explain", "python x.py"], "`ascend-doctor lint -- python x.py`"),
        (["fix", "cann-installed"], "did you mean `ascend-doctor fix --only cann-installed`?"),
        (["completion"], "Choose from: bash, zsh, fish"),
        (["explain", "507999"], "says what code 507999 means"),
        (["check", "0.15.3"], "0.15.3: no such program; append a launch command after `--`"),
        (["check", "--config", "/"], "/: a folder; --config takes a file"),
        (["lint", "ls", "x.py"], "ls: no such file; append a command after `--`"),
        (["judge", "/"], "/: a folder, not a file"),
        (["compare", "no-a", "no-b"], "no-a: no such dump; name two folders"),
        (["run", "--", __file__], "not executable; start it by its interpreter"),
        (["plan", "--world", "8"], "No such option '--world'. (see ascend-doctor plan --help)"),
        (["stack", "list", "--prefix", "/zzz"], "/zzz: no such folder"),
        (["lint", sys.executable], "not a text file (NUL at byte "),
        (["help", "check", "sub"], "ascend-doctor check has no commands"),
        (["explain"], "name a check"),
        (["explain", "EI00066"], "did you mean EI0006?"),
        (["explain", "HCCL_CONECT_TIMEOUT"], "did you mean HCCL_CONNECT_TIMEOUT?"),
        (["explain", "all is well here"], "nothing is known of this line"),
        (["check", "-l", "9"], "not in the range"),
        (["check", "--only", "torch-npu-can"], "did you mean torch-npu-cann?"),
        (["check", "--skip", "zzz"], "no check is called 'zzz'"),
        (["check", "--format", "json", "--format", "junit"], "only one format"),
        (["check", "-o", "report.weird"], "give its --format"),
        (
            ["check", "--format", "text", "--format", "json", "-o", "x"],
            "x: is it for text or json?",
        ),
        (["check", "-o", "/no/such/folder/x.json"], "no such folder"),
        (["check", "--format", "json", "-o", ""], "'': that is no file"),
        (["check", "--format", "json", "-o", "/usr"], "/usr: that is no file"),
        (["check", "--python", "/no/such/python", "-l", "0"], "/no/such/python"),
        (["check", "--python", "/etc/hosts", "-l", "0"], "/etc/hosts: not an interpreter; name"),
        (["check", "--python", "/usr/lib", "-l", "0"], "a folder without bin/python is no env"),
        (["rehearse", "--python", "/etc/hosts"], "no interpreter; name the python of an environ"),
        (["rehearse", "--only", "zzz", "--python", "/nope"], "no check is called 'zzz'"),
        (["check", "-l", "two"], "'two' is not a whole number."),
        (["check", "--expect", "8"], "such as npus=8"),
        (["plan", "--model", "Qwen3-8B", "--soc", "zzz"], "known are Ascend310P1, "),
        (["explain", "torch-npu-without-cann"], "did you mean cann-installed (CANN is installed),"),
        (["explain", "heartbeat"], "hccl-heartbeat-lost (HCCL heartbeat of another rank lost)"),
        (["check", "--nproc", "0"], "not in the range"),
        (["check", "--replay", "/no/such/machine", "-l", "0"], "no machine.yaml in it"),
        (["check", "--replay", "/a", "--record", "/b"], "exclude each other"),
        (["explain", "zzz"], "is called 'zzz'"),
        (["judge", "/no/such/file"], "No such file"),
        (["diagnose"], "give a log, a folder of logs, or -"),
        (["setup", "--megatron", "core_v0.15.9"], "core_v0.15.9 is not known; core_v0.15.3, "),
        (["plan", "--model", "qwen9", "--npus", "8"], "did you mean Qwen3.5-9B, Qwen3-8B"),
        (["plan", "--model", "zzz", "--npus", "8"], "give its config.json instead"),
        (["judge", "/dev/null"], "not a regular file"),
        (["check", "--fix"], "Did you mean 'ascend-doctor fix'?"),
        (["check", "--npus", "8"], "Did you mean '--nproc'?"),
        (["check", "--levle", "0"], "Did you mean '--level'?"),
        (["check", "cann-installed"], "did you mean `ascend-doctor check --only cann-installed`?"),
        (["diagnose", "--explain"], "No such option '--explain'. (see"),
        (["diagnose", "EI0006"], "`ascend-doctor explain` takes such a line"),
        (["explain", "check"], "is a command; `ascend-doctor check --help` explains it"),
        (["explain", "/usr"], "is a file or folder; `ascend-doctor diagnose /usr` reads logs"),
        (["fleet", "check", "--hosts", "x"], "Did you mean '--expect'?"),
        (["matrix", "show", "nosuch"], "`ascend-doctor matrix list` has them"),
        (["plan", "--npus", "8"], "give a launch script, or --model"),
        (["run", "--", "/usr"], "/usr: a folder, not a program"),
        (["setup", "--list"], "Did you mean 'ascend-doctor stack list'?"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    doctor: Command, arguments: list[str], words: str
) -> None:
    done = doctor(*arguments)
    assert done.returncode == 2
    assert words in one_line(done)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema": 1, "taken_at"', "cut short"),
        ('{"schema": 99}', "newer than this doctor"),
        ('{"schema": 0}', "not a snapshot"),
        ("[]", "not a snapshot"),
        ('{"schema": 1, "host": {"cpus": "many"}}', "damaged"),
        ("\x1b]0;x\x07", "damaged"),
    ],
)
def test_a_bad_snapshot_is_one_line_and_exit_2(
    doctor: Command, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "s.json").write_text(text)
    done = doctor("judge", str(tmp_path / "s.json"))
    assert done.returncode == 2
    assert words in one_line(done)
    assert "\x1b" not in done.stderr


@pytest.mark.slow
def test_list_and_explain_document_every_check(doctor: Command) -> None:
    listed = json.loads(doctor("list", "--format", "json").stdout)
    known = all_checks()
    assert [row["id"] for row in listed["checks"]] == [check.id for check in known]
    page = doctor("explain", known[0].id).stdout
    assert page.startswith(f"{known[0].id}: {known[0].title}")
    text = doctor("list").stdout
    assert len(text.splitlines()) == len(known)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "head"),
    [
        (["EI0006"], "EI0006: "),
        (["507018"], "507018: "),
        (["9"], "9: "),
        (["561002"], "op-tiling-failed: An operator could not be tiled"),
        (["HCCL_CONNECT_TIMEOUT"], "HCCL_CONNECT_TIMEOUT: "),
        (
            ["ImportError:", "libhccl.so: cannot open shared object file"],
            "cann-libhccl-not-found: ",
        ),
        (["fleet-drift"], "fleet-drift: "),
    ],
)
def test_explain_takes_codes_variables_and_lines(
    doctor: Command, words: list[str], head: str
) -> None:
    done = doctor("explain", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(head)


def test_help_and_bare_groups_show_help(installed: Command) -> None:
    assert installed("help", "matrix", "solve").stdout == installed("matrix", "solve", "-h").stdout
    for group in ([], ["matrix"], ["stack"], ["fleet"]):
        bare = installed(*group)
        assert bare.returncode == 2
        assert bare.stderr == installed(*group, "-h").stdout


_COMPLETED = """\
chec|check
explain cann-inst|cann-installed
explain EI000|EI0001 EI0002 EI0003 EI0004 EI0005 EI0006 EI0007 EI0008 EI0009
explain 50701|507010 507011 507012 507013 507014 507015 507016 507017 507018 507019
explain HCCL_CONN|HCCL_CONNECT_TIMEOUT
check --only cann-inst|cann-installed
fleet check --skip torch-npu-ca|torch-npu-cann torch-npu-cann-symbols
check --expect np|npus=
rehearse --inject rank-a|rank-absent
setup --framework ms|ms-swift
setup --megatron 0.15.|0.15.0 0.15.1 0.15.2 0.15.3
plan --model Qwen3-30B-A3B-I|Qwen3-30B-A3B-Instruct-2507
plan --soc Ascend910B4|Ascend910B4 Ascend910B4-1
plan --framework m|megatron ms-swift
"""
_COMPLETES = """\
source <(ascend-doctor completion bash)
compopt() { :; }
while read -r line; do
  read -ra COMP_WORDS <<< "ascend-doctor $line"
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _ascend_doctor_completion ascend-doctor
  echo "$line|$(printf '%s\\n' "${COMPREPLY[@]}" | sort | paste -sd ' ')"
done
"""


@pytest.mark.slow
def test_bash_completes_names() -> None:
    done = run_program(
        ["bash", "-c", _COMPLETES],
        input="".join(row.partition("|")[0] + "\n" for row in _COMPLETED.splitlines()),
        env={**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"},
    )
    assert done.stdout == _COMPLETED
    assert done.stderr == ""


@pytest.mark.slow
def test_the_schema_is_a_schema(doctor: Command) -> None:
    schema = json.loads(doctor("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_bug_is_exit_70_with_a_file_to_paste(installed: Command, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, types, click\n"
        "broken = types.ModuleType('ascend_doctor.commands.list')\n"
        "@click.command('list')\n"
        "def command():\n"
        "    raise RuntimeError('token=supersecretvalue \\x1b[2J')\n"
        "broken.command = command\n"
        "sys.modules['ascend_doctor.commands.list'] = broken\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = installed("list", env=env)
    assert done.returncode == 70
    assert "a bug in ascend-doctor: RuntimeError" in done.stderr
    assert "Traceback" not in done.stderr
    match = re.search(r"text in (\S+)", done.stderr)
    assert match
    text = Path(match[1]).read_text()
    assert "Traceback" in text
    assert "supersecretvalue" not in text + done.stderr
    assert "\x1b" not in text + done.stderr


def _heed_interrupts() -> None:
    """Without job control, a shell's background job ignores SIGINT and passes that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_exit_130_and_leaves_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    tool = tmp_path / "npu-smi"
    note = tmp_path / "pid"
    tool.write_text(f"#!/bin/sh\necho $$ > {note}\nexec sleep 600\n")
    tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        [PROGRAM, "check", "-l", "0"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - this process has no threads of ours
    )
    for _ in range(300):
        if note.exists() and note.read_text().strip():
            break
        time.sleep(0.1)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in stderr
    assert b"Traceback" not in stderr
    pid = int(note.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"
