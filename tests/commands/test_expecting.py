"""--expect of check, judge and run, presets, and the site's file, by the command line."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.cli import run
from tests.machines.compose import build

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Say:
    """A command in an empty folder: its exit code, its output and its errors."""
    monkeypatch.chdir(tmp_path)

    def run_doctor(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return run_doctor


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("machines")
    names = ("healthy-a2", "laptop", "four-cards-lost", "one-card-lost", "npus-gone")
    return {name: str(build(name, folder / name)) for name in names}


def only(machine: str, *more: str) -> tuple[str, ...]:
    """A small check: the expectation decides."""
    return ("check", "-l", "0", "--only", "shared-memory", "--replay", machine, "-q", *more)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["prolog", "ci", "init"])
def test_no_preset_ends_with_0_where_there_is_no_npu(
    preset: str, say: Say, machines: dict[str, str]
) -> None:
    gate = ("check", "--preset", preset, "-l", "0", "--replay")
    for name in ("laptop", "npus-gone"):
        code, out, _ = say(*gate, machines[name])
        assert (code, "✗ Expected npus>=1, found no NPU" in out) == (1, True)
    assert say(*gate, machines["laptop"], "--expect", "npus=0")[0] == 0
    assert say(*gate, machines["healthy-a2"], "--only", "shared-memory") == (0, "", "")


@pytest.mark.slow
def test_the_first_line_says_that_there_is_no_npu(say: Say, machines: dict[str, str]) -> None:
    code, out, _ = say("check", "-l", "0", "--replay", machines["laptop"], "-q")
    assert "No NPU, no driver and no CANN here" in out.splitlines()[0]
    assert "✓" not in out
    assert code == 0  # nobody expected one
    _, out, _ = say(*only(machines["npus-gone"]))
    assert "No NPU and no driver here" in out.splitlines()[0]
    _, out, _ = say(*only(machines["healthy-a2"]))
    assert "No NPU" not in out
    for name in ("json", "markdown", "junit", "sarif", "github", "html"):
        _, out, _ = say(*only(machines["laptop"]), "--format", name)
        assert "No NPU, no driver and no CANN here" in out, name


@pytest.mark.slow
def test_the_first_line_says_that_another_python_was_examined(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3").resolve())
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    options = ("check", "-l", "0", "--only", "examined-python", "-q", "--no-redact")
    code, out, _ = say(*options)
    note = f"No environment is active, so {folder}/python3 was examined"
    assert "".join(note.split()) in "".join(out.split("\nRan")[0].split())
    if importlib.util.find_spec("torch_npu") is not None:
        assert code == 1
        assert f" ascend-doctor check --python {sys.executable}\n" in out
    code, out, _ = say(*options, "--python", sys.executable)
    assert (code, "No environment is active" in out) == (0, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["npus=8", "soc=910B3", "driver>=25.2", "cann=9.0.X", "links=up"], 0),
        (["npus=8", "megatron=0.15.3", "mindspeed=core_r0.15.3", "torch-npu=2.7.1.post4"], 0),
        (["nnal=9.0.0", "python>=3.10", "ms-swift<5", "transformers!=5.0"], 0),
        (["npus=16"], 1),
        (["npus>=1", "cann>=9.1"], 1),
        (["vllm>=0.1"], 1),
        (["firmware>=7.1"], 0),
    ],
)
def test_a_healthy_server(texts: list[str], code: int, say: Say, machines: dict[str, str]) -> None:
    options = [word for text in texts for word in ("--expect", text)]
    assert say(*only(machines["healthy-a2"]), *options)[0] == code


@pytest.mark.slow
def test_what_cannot_be_told_of_an_expectation_is_3(say: Say, tmp_path: Path) -> None:
    home = str(build("installed-at-home", tmp_path / "at-home"))
    (tmp_path / "ascend-doctor.yaml").write_text(
        'acknowledged: [{id: "*", unknown: needs-root, reason: no root}]\nexpect: [npus=8]\n'
    )
    whole = ("check", "--preset", "prolog", "--replay", home)
    assert say(*whole) == (0, "", "")
    code, out, _ = say(*whole, "--expect", "links=up")
    assert code == 3
    assert "? Could not tell whether links=up " in out
    code, out, _ = say("check", "-l", "0", "--replay", home, "-q", "-v")
    assert code == 0
    assert "not checked, needs root; acknowledged: no root" in out.replace("\n  ", " ")


@pytest.mark.slow
def test_the_command_line_counts_more_than_the_site_and_the_site_more_than_the_preset(
    say: Say, tmp_path: Path, machines: dict[str, str]
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("expect: [npus=16]\n")
    gate = ("check", "--preset", "prolog", "--only", "shared-memory", "--config", str(site))
    healthy = ("--replay", machines["healthy-a2"])
    code, out, _ = say(*gate, *healthy)
    assert (code, "Expected npus=16, found 8 NPUs" in out) == (1, True)
    assert say(*gate, *healthy, "--expect", "npus=8")[0] == 0
    site.write_text("expect: [npus=0]\n")
    assert say(*gate, "--replay", machines["laptop"])[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--expect", "cards=8"), "the keys are npus, soc"),
        (("--expect", "npus"), "quote it"),
        (("--expect", "soc=920"), "families are ascend310b"),
        (("--expect", "npus=8", "--skip", "expected-npus"), "--expect npus=0"),
        (("--expect", "cann>=8", "--skip", "expected-versions"), "change the expectation"),
    ],
)
@pytest.mark.parametrize("command", ["check", "judge", "run"])
def test_a_bad_expectation_is_bad_usage(
    command: str, arguments: tuple[str, ...], words: str, say: Say, machines: dict[str, str]
) -> None:
    machine = ("--replay", machines["laptop"])
    if command == "judge":
        assert say("snapshot", *machine, "-o", "snapshot.json")[0] == 0
        typed: tuple[str, ...] = ("judge", "snapshot.json", *arguments)
    else:
        typed = (command, *machine, *arguments, *(("--", "true") if command == "run" else ()))
    code, out, err = say(*typed)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_snapshot_is_judged_with_expectations(say: Say, machines: dict[str, str]) -> None:
    for name, code in (("healthy-a2", 0), ("laptop", 1)):
        assert say("snapshot", "--replay", machines[name], "-o", "snapshot.json")[0] == 0
        assert say("judge", "snapshot.json", "--expect", "npus=8")[0] == code
    Path("ascend-doctor.yaml").write_text("expect: [soc=910B3]\n")
    code, out, _ = say("judge", "snapshot.json", "--format", "json")
    levels = {finding["check"]: finding["level"] for finding in json.loads(out)["findings"]}
    assert (code, levels["expected-soc"]) == (1, "error")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["torch>=2", "torch-npu>=2", "megatron>=0.15", "mindspeed=core_r0.15.3", "cann>=9"]
)
def test_what_vanished_does_not_pass(text: str, say: Say, machines: dict[str, str]) -> None:
    assert say("snapshot", "--replay", machines["healthy-a2"], "-o", "snapshot.json")[0] == 0
    assert say("judge", "snapshot.json", "--expect", text)[0] == 0
    facts = json.loads(Path("snapshot.json").read_text())
    name = text.rstrip("0123456789.").rstrip(">=").partition("=")[0]
    python, path = facts["python"], facts["import_path"]
    python["distributions"] = [
        distribution for distribution in python["distributions"] if distribution["name"] != name
    ]
    path["names"] = [module for module in path["names"] if module["name"] != name]
    if name == "cann":
        facts["cann"] = {}
    Path("snapshot.json").write_text(json.dumps(facts))
    code, out, _ = say("judge", "snapshot.json", "--expect", text)
    assert code == 1
    assert f"✗ Expected {text}, found" in out


@pytest.mark.slow
def test_a_launch_waits_for_what_is_expected(
    say: Say, tmp_path: Path, machines: dict[str, str]
) -> None:
    home = str(build("installed-at-home", tmp_path / "at-home"))
    launch = ("--", "touch", "started")
    for machine, expect, code in (
        (machines["laptop"], "npus>=1", 1),
        (home, "links=up", 3),
        (machines["healthy-a2"], "npus=8", 0),
    ):
        got, _, err = say("run", "--replay", machine, "--expect", expect, *launch)
        assert got == code
        assert Path("started").exists() == (code == 0)
        assert ("not started" in err) == (code != 0)
    Path("started").unlink()
    assert say("run", "--replay", home, "--expect", "links=up", "--anyway", *launch)[0] == 0
    assert Path("started").exists()


@pytest.mark.slow
def test_lost_cards_are_failing_nodes(say: Say, tmp_path: Path, machines: dict[str, str]) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    for name in ("healthy-a2", "one-card-lost", "four-cards-lost"):
        gate = ("check", "-l", "0", "--replay", machines[name], "-q", "--format", "json")
        say(*gate, "-o", str(reports / f"{name}.json"))
    assert say("merge", str(reports), "--by-file", "--lists", str(tmp_path))[0] == 1
    lists: dict[str, Any] = {
        kind: (tmp_path / f"{kind}_nodes.txt").read_text().split()
        for kind in ("passing", "failing")
    }
    assert lists == {"passing": ["healthy-a2"], "failing": ["four-cards-lost", "one-card-lost"]}


def test_a_node_that_lost_all_its_npus_fails_among_others(
    say: Say, tmp_path: Path, machines: dict[str, str]
) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    for file, name in (("a", "healthy-a2"), ("b", "healthy-a2"), ("c", "npus-gone")):
        gate = only(machines[name], "--format", "json", "-o", str(reports / f"{file}.json"))
        say(*gate)
    code, out, _ = say("merge", str(reports), "--by-file", "--lists", str(tmp_path))
    assert code == 1
    assert "✗ Nodes have fewer NPUs than most " in out
    assert (tmp_path / "failing_nodes.txt").read_text() == "c\n"
    assert (tmp_path / "passing_nodes.txt").read_text() == "a\nb\n"
    (reports / "b.json").unlink()
    assert "fleet-npus" not in say("merge", str(reports), "--by-file")[1]
