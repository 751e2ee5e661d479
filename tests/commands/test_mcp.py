from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from ascend_doctor.commands import mcp as module

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


async def session(folder: Path) -> dict[str, tuple[bool, str]]:
    """What every tool answers to the reference client."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "ascend_doctor", "mcp"], cwd=str(folder)
    )
    answers = {}
    async with Client(parameters) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {tool.__name__ for tool in module._TOOLS}
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        calls = {**CASES, "missing": ({"subject": "zzz"}, ""), "option": ({"path": "--fix"}, "")}
        for name, (arguments, _) in calls.items():
            tool = {"missing": "explain", "option": "lint"}.get(name, name)
            answer = await client.call_tool(tool, arguments)
            text = "".join(getattr(part, "text", "") for part in answer.content)
            answers[name] = (bool(answer.is_error), text)
    return answers


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
    assert (tmp_path / "launch.sh").read_text().startswith("torchrun")


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(Exception, match=r"pip install 'ascend-doctor\[mcp\]'"):
        module.command.main([], standalone_mode=False)


def test_a_report_is_cut_to_what_has_to_be_known() -> None:
    rows = [{"level": level} for level in ("error", "ok", "skipped", "unknown")]
    report = module._report(json.dumps({"findings": rows, "verdict": {}, "snapshot": {}}))
    assert [row["level"] for row in report["findings"]] == ["error", "unknown"]
    assert "snapshot" not in report
