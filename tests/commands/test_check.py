import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.render.formats.json import schema
from tests.checks.machine import LIBRARIES
from tests.conftest import Command
from tests.later import jsonschema

pytestmark = pytest.mark.slow


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter with nothing installed."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=120
    )
    return tmp_path / "venv" / "bin" / "python"


def report_of(done: subprocess.CompletedProcess[str]) -> Any:
    loaded = json.loads(done.stdout)
    jsonschema.validate(loaded, schema())
    assert loaded["verdict"]["exit_code"] == done.returncode
    return loaded


def text_of(report: Any, check: str) -> str:
    return json.dumps([finding for finding in report["findings"] if finding["check"] == check])


@pytest.mark.parametrize("level", ["0", "1"])
def test_without_cann_the_six_libraries_and_the_autoload_trap_are_named(
    installed: Command, examined_python: Path, level: str
) -> None:
    done = installed(
        "check", "-l", level, "--python", str(examined_python), "--format", "json", "-q"
    )
    assert done.returncode == 1
    report = report_of(done)
    libraries = text_of(report, "torch-npu-libraries")
    assert all(name in libraries for name in LIBRARIES)
    assert "set_env.sh" in libraries
    trap = text_of(report, "torch-autoload")
    assert "export TORCH_DEVICE_BACKEND_AUTOLOAD=0" in trap
    if level == "1":
        assert "libhccl.so" in text_of(report, "inspect-env")


def test_four_ranks_on_cpu_are_checked_by_value(installed: Command, simulated_python: Path) -> None:
    done = installed(
        *("check", "--device", "cpu", "--nproc", "4", "--only", "allreduce", "--only", "device"),
        *("--python", str(simulated_python), "--format", "json", "-q"),
    )
    report = report_of(done)
    assert done.returncode == 0, done.stdout
    (allreduce,) = [run for run in report["snapshot"]["probes"] if run["probe"] == "allreduce"]
    assert [rank["rank"] for rank in allreduce["ranks"]] == [0, 1, 2, 3]
    assert done.stderr == ""


def test_auto_without_an_npu_never_falls_back_and_exits_3(
    installed: Command, bare_python: Path
) -> None:
    if list(Path("/dev").glob("davinci[0-9]*")):
        pytest.skip("this machine has an NPU")
    done = installed(
        "check", "--only", "allreduce", "--python", str(bare_python), "--format", "json"
    )
    assert done.returncode == 3
    report = report_of(done)
    assert report["device"] == "npu"
    assert [level["ran"] for level in report["levels"]] == [True, True, False, False, False]
    assert "no NPU on this machine" in report["levels"][2]["reason"]
    assert report["snapshot"]["probes"] == []


def test_no_torch_is_told_and_is_never_a_pass(installed: Command, bare_python: Path) -> None:
    done = installed(
        *("check", "--device", "cpu", "--only", "allreduce", "--python", str(bare_python)),
        *("--format", "json", "-q"),
    )
    assert done.returncode in {1, 3}
    assert "torch" in text_of(report_of(done), "allreduce")


def test_only_and_skip_choose(installed: Command, bare_python: Path) -> None:
    arguments = ("check", "-l", "0", "--python", str(bare_python), "--format", "json")
    document = report_of(installed(*arguments, "--only", "cann-installed"))
    assert {finding["check"] for finding in document["findings"]} == {"cann-installed"}
    rest = report_of(installed(*arguments, "--skip", "cann-installed"))
    assert "cann-installed" not in {finding["check"] for finding in rest["findings"]}


def test_several_formats_go_to_their_files(
    installed: Command, bare_python: Path, tmp_path: Path
) -> None:
    places = {name: tmp_path / f"report.{name}" for name in ("json", "xml", "sarif", "md", "prom")}
    files = [part for path in places.values() for part in ("-o", str(path))]
    done = installed("check", "-l", "0", "--python", str(bare_python), *files)
    assert done.stdout == ""
    assert all(path.stat().st_size > 100 for path in places.values())
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    jsonschema.validate(json.loads(places["json"].read_text()), schema())


def test_a_file_takes_the_format_that_its_ending_names(
    installed: Command, bare_python: Path, tmp_path: Path
) -> None:
    page, facts, plain = tmp_path / "a.html", tmp_path / "a.json", tmp_path / "a.out"
    formats = ("--format", "text", "--format", "html", "-o", str(page), "--format", "json")
    arguments = ("check", "-l", "0", "--python", str(bare_python), *formats, "-o", str(facts))
    assert installed(*arguments).stdout.startswith("ascend-doctor ")
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(facts.read_text())["findings"]
    assert installed(*arguments, "-o", str(plain)).stdout == ""
    assert plain.read_text().startswith("ascend-doctor ")


def test_a_dash_is_standard_output(installed: Command, bare_python: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.md"
    formats = ("--format", "json", "-o", "-", "-o", str(page))
    done = installed("check", "-l", "0", "--python", str(bare_python), *formats, cwd=tmp_path)
    assert report_of(done)["findings"]
    snapshot = installed("snapshot", "--python", str(bare_python), "-o", "-", cwd=tmp_path)
    assert json.loads(snapshot.stdout)["host"]
    assert page.is_file()
    assert not (tmp_path / "-").exists()
    twice = installed("check", "--format", "json", "-o", "-", "--format", "text", "-o", "-")
    assert twice.returncode == 2
    assert "only one format" in twice.stderr


def test_a_snapshot_is_judged_as_check_did(
    installed: Command, bare_python: Path, tmp_path: Path
) -> None:
    facts = tmp_path / "facts.json"
    assert installed("snapshot", "--python", str(bare_python), "-o", str(facts)).returncode == 0
    there = report_of(
        installed("check", "-l", "0", "--python", str(bare_python), "--format", "json")
    )
    here = report_of(installed("judge", str(facts), "--format", "json"))

    def verdicts(report: Any) -> list[tuple[str, str]]:
        return [(finding["check"], finding["level"]) for finding in report["findings"]]

    assert verdicts(here) == verdicts(there)
    assert here["redacted"]


def test_a_recording_replays_to_the_same_verdict(
    installed: Command, bare_python: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "machine"
    live = report_of(
        installed(
            *("check", "-l", "0", "--python", str(bare_python), "--record", str(folder)),
            *("--format", "json"),
        )
    )
    again = report_of(installed("check", "-l", "0", "--replay", str(folder), "--format", "json"))
    assert [(finding["check"], finding["level"]) for finding in again["findings"]] == [
        (finding["check"], finding["level"]) for finding in live["findings"]
    ]


@pytest.mark.parametrize("shape", ["text", "json", "markdown"])
def test_secrets_and_the_home_folder_reach_no_output(
    installed: Command, bare_python: Path, no_real_home: Path, shape: str
) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz"
    env = {
        **os.environ,
        "HF_TOKEN": secret,
        "ASCEND_SECRET_TOKEN": secret,
        "PYTHONPATH": f"{no_real_home}/Megatron-LM:{no_real_home}/x",
        "HCCL_WHITELIST_FILE": f"https://user:{secret}@example.com",
    }
    done = installed(
        *("check", "-l", "0", "--python", str(bare_python), "--format", shape, "-v"), env=env
    )
    assert secret not in done.stdout + done.stderr
    assert str(no_real_home) not in done.stdout + done.stderr
    assert os.uname().nodename not in done.stdout or len(os.uname().nodename) < 4


def test_hostile_names_and_values_reach_no_output_raw(
    installed: Command, bare_python: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a\x1b[2J[red]\nb"
    (folder / "megatron" / "core").mkdir(parents=True)
    (folder / "megatron" / "core" / "__init__.py").write_text("__version__ = '\x1b[31m'\n")
    env = {
        **os.environb,
        b"PYTHONPATH": os.fsencode(folder),
        b"HCCL_SOCKET_IFNAME": b"\x1b]0;owned\x07\xff[bold]",
        b"ASCEND_RT_VISIBLE_DEVICES": b"0,\n::error::1",
    }
    for shape in ("text", "json", "jsonl", "github", "junit", "markdown"):
        done = installed(
            *("check", "-l", "0", "--python", str(bare_python), "--format", shape, "-v"), env=env
        )
        assert done.returncode in {0, 1, 3}, done.stderr
        assert not {"\x1b", "\x07"} & set(done.stdout + done.stderr)
        assert "\n::error::1" not in done.stdout
