import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.cli import run
from ascend_doctor.commands import mcp as module
from tests.later import mcp
from tests.level0.machine import table
from tests.machines.compose import merge, spec
from tests.machines.on_paper import CannotTypeError, Machine, type_command, write

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "explain": ({"subject": "EI0006"}, "EI0006: Communication Error"),
    "diagnose": (
        {"text": "ImportError: libhccl.so: cannot open shared object file: No such file\n"},
        '"id":"cann-libhccl-not-found"',
    ),
    "matrix": ({"question": "solve", "words": ["0.15.3"]}, "megatron"),
    "plan": ({"model": "qwen3-30b-a3b", "npus": 8}, "tensor"),
    "check": ({"level": 0}, '"verdict"'),
    "lint": ({"path": "launch.sh"}, '"findings"'),
}


# Recorded broken machines, by their healthy original.
BROKEN = {
    "cann-not-sourced": "healthy-a2",
    "container-without-devices": "healthy-a2",
    "driver-not-loaded": "healthy-a2",
    "four-cards-lost": "healthy-a2",
    "installed-at-home": "healthy-a2",
    "mixed-cann": "healthy-a2",
    "one-card-lost": "healthy-a2",
    "pypi-placeholder": "healthy-a2",
    "stale-hccn-address": "healthy-a2",
    "torch-mismatch": "healthy-a2",
    "two-megatrons": "healthy-a2",
    "user-without-rights": "healthy-a2",
    "wrong-ops-package": "healthy-a3",
}
# One broken fact of the healthy machine, by id in tests/level0/breakages.yaml.
BREAKAGES = ("cffi-missing", "scipy-missing", "devlib")
# A container cannot know what it was started from.
IMAGE = "IMAGE=registry.example/training:1 "
ROUNDS = 8
# It depends on the model; the healthy machine has it, too.
OF_ANY: set[str] = set()


async def session(folder: Path) -> dict[str, tuple[bool, str]]:
    """Every tool's answer to the reference client."""
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "ascend_doctor", "mcp"], cwd=str(folder)
    )
    answers = {}
    async with mcp.Client(parameters) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {tool.__name__ for tool in module._TOOLS}
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert all(not tool.input_schema["additionalProperties"] for tool in tools)
        calls = {**CASES, "missing": ({"subject": "zzz"}, ""), "option": ({"path": "--fix"}, "")}
        calls["misspelt"] = ({"snapshoot": "other.json"}, "")
        for name, (arguments, _) in calls.items():
            tool = {"missing": "explain", "option": "lint", "misspelt": "check"}.get(name, name)
            answer = await client.call_tool(tool, arguments)
            text = "".join(getattr(part, "text", "") for part in answer.content)
            answers[name] = (bool(answer.is_error), text)
    return answers


@pytest.mark.slow
def test_every_tool_answers_the_reference_client(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text("torchrun --nproc-per-node 8 pretrain_gpt.py\n")
    answers = asyncio.run(asyncio.wait_for(session(tmp_path), 240))
    for name, (_, part) in CASES.items():
        failed, text = answers[name]
        assert not failed, (name, text)
        assert part in text.replace(": ", ":") or part in text, name
    assert answers["missing"][0]
    assert "is called 'zzz'" in answers["missing"][1]
    assert answers["option"][0]  # a path, however it is called
    assert answers["misspelt"][0]
    assert "snapshoot" in answers["misspelt"][1]
    assert (tmp_path / "launch.sh").read_text().startswith("torchrun")


def environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    program = folder / "bin" / "python3"
    program.write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("name", "not the absolute path of a Python interpreter"),
        ("relative", "not the absolute path of a Python interpreter"),
        ("prefix", "not in a virtual or conda environment"),
        ("mode", "can be changed by another user"),
        ("missing", "not the absolute path of a Python interpreter"),
    ],
)
def test_an_assistant_starts_no_other_program(kind: str, message: str, tmp_path: Path) -> None:
    program = environment(tmp_path / "venv")
    if kind == "name":
        program = program.rename(program.with_name("train.sh"))
    elif kind == "prefix":
        (tmp_path / "venv" / "pyvenv.cfg").unlink()
    elif kind == "mode":
        program.chmod(0o757)
    elif kind == "missing":
        program.unlink()
    named = "venv/bin/python3" if kind == "relative" else str(program)
    pytest.importorskip("mcp")
    with pytest.raises(Exception, match=message):
        module.check(python=named)
    assert not (tmp_path / "venv" / "ran").exists()


def test_an_assistant_names_an_environment(tmp_path: Path) -> None:
    program = environment(tmp_path / "venv")
    assert module._interpreter(str(program)) == str(program)
    program.rename(program.with_name("python"))
    assert module._interpreter(str(tmp_path / "venv")) == str(program.with_name("python"))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(Exception, match=r"pip install 'ascend-doctor\[mcp\]'"):
        module.command.main([], standalone_mode=False)


def test_a_report_is_cut_to_what_has_to_be_known() -> None:
    rows = [{"level": level} for level in ("error", "ok", "skipped", "unknown")]
    report = module._report(json.dumps({"findings": rows, "verdict": {}, "snapshot": {}}))
    assert [row["level"] for row in report["findings"]] == ["error", "unknown"]
    assert "snapshot" not in report


async def repair(client: mcp.Client, machine: Machine, base: Machine, folder: Path) -> list[str]:
    """Type the worst finding's commands and check again, until nothing is wrong."""
    typed: list[str] = []
    for number in range(ROUNDS):
        recording = write(machine, folder / str(number))
        snapshot = str(folder / f"{number}.json")
        assert run(["snapshot", "--replay", str(recording), "--no-redact", "-o", snapshot]) == 0
        answer = await client.call_tool("check", {"snapshot": snapshot, "redact": False})
        report = json.loads("".join(getattr(part, "text", "") for part in answer.content))
        open_ = [row for row in report["findings"] if row["check"] not in OF_ANY]
        if not open_ and report["verdict"]["exit_code"] == 0:
            return typed
        ranks = ("error", "unknown", "warning")
        roots = [row for row in open_ if not row["because_of"]]
        first = min(roots, key=lambda row: ranks.index(row["level"]))
        commands = (first["remedy"] or {}).get("commands", [])
        if not commands:
            raise CannotTypeError(f"nothing to type for {first['check']}: {first['title']}")
        if set(commands) <= set(typed):
            raise CannotTypeError(f"typed before, in vain: {commands}")
        for command in commands:
            line = IMAGE + command if "${IMAGE:?" in command else command
            machine = type_command(machine, base, line)
            typed.append(command)
    raise CannotTypeError(f"not well after {ROUNDS} rounds")


async def hindrance(client: mcp.Client, machine: Machine, base: Machine, folder: Path) -> str:
    """Why a machine does not come to green, or ""."""
    try:
        return "" if await repair(client, machine, base, folder) else "nothing was wrong"
    except CannotTypeError as error:
        return str(error)


def machines() -> dict[str, tuple[Machine, Machine]]:
    changes = {row["id"]: row["change"] for row in table("breakages")}
    return {
        **{name: (spec(name), spec(base)) for name, base in BROKEN.items()},
        **{
            name: (merge(spec("healthy-a2"), changes[name]), spec("healthy-a2"))
            for name in BREAKAGES
        },
    }


async def repairs(named: dict[str, tuple[Machine, Machine]], folder: Path) -> dict[str, str]:
    """What hinders the client on each machine, or ""."""
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "ascend_doctor", "mcp"], cwd=str(folder)
    )
    outcome = {}
    async with mcp.Client(parameters) as client:
        for name, (machine, base) in named.items():
            outcome[name] = await hindrance(client, machine, base, folder / name)
    return outcome


@pytest.mark.slow
def test_broken_machines_come_to_green_on_paper(tmp_path: Path) -> None:
    outcome = asyncio.run(asyncio.wait_for(repairs(machines(), tmp_path), 900))
    assert len(outcome) > 15
    assert outcome == dict.fromkeys(outcome, "")


@pytest.mark.parametrize("command", ["rm -rf /", "source /nowhere/set_env.sh", "kill 1"])
def test_what_a_machine_does_not_have_cannot_be_typed(command: str) -> None:
    with pytest.raises(CannotTypeError):
        type_command(spec("busy-devices"), spec("healthy-a2"), command)
