"""What a contributor starts with names what is there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
CONTAINER = ROOT / ".devcontainer" / "devcontainer.json"


def test_the_development_container_starts_with_what_is_there() -> None:
    container = json.loads(CONTAINER.read_text("utf-8"))
    release = re.search(r"python:(\d+)\.(\d+)", container["image"])
    assert release
    classifiers = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f"Programming Language :: Python :: {release[1]}.{release[2]}" in classifiers
    words = shlex.split(container["postCreateCommand"])
    files = [word for word in words if "/" in word]
    assert files == ["tests/run"]
    assert all((ROOT / name).is_file() for name in files)
    option = words[words.index("tests/run") + 1]
    assert f'"{option}"' in _quoted((ROOT / "tests/run").read_text("utf-8"))
    settings = container["customizations"]["vscode"]["settings"]
    assert [(ROOT / name).is_dir() for name in settings["python.testing.pytestArgs"]] == [True]


def _quoted(script: str) -> str:
    return re.sub(r"= (--\w+) \]", r'= "\1" ]', script)


def test_hooks_call_tools_that_the_test_extra_brings() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    programs = {Path(hook["entry"].split()[0]).name for hook in hooks}
    assert programs == {"ruff", "mypy"}
    assert all(re.search(rf'"{program}\b', project) for program in programs)
