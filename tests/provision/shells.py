"""Real shells that run texts, and the environments that they have after each."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.programs import run_bytes

SHELLS = ("bash", "zsh", "fish")
_PLAIN = {"bash": ("--noprofile", "--norc"), "zsh": ("-f",), "fish": ("--no-config",), "sh": ()}
# Shells own these.
_OWN = {"_", "SHLVL", "PWD", "OLDPWD"}


def require(shell: str) -> str:
    which = shutil.which(shell)
    if which is None:
        pytest.skip(f"{shell} is not installed")
    return which


def run(
    shell: str, script: bytes, folder: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    file = folder.parent / f"{folder.name}.script"
    file.write_bytes(script)
    return run_bytes(
        [require(shell), *_PLAIN[shell], str(file)], check=False, cwd=folder, env=dict(env)
    )


def environments(
    shell: str, scripts: Sequence[str], folder: Path, env: Mapping[str, str]
) -> list[dict[str, str]]:
    """The environment after each script, all in one shell, which leaves ``folder`` empty."""
    folder.mkdir(exist_ok=True)
    out = folder.parent / f"{folder.name}.out"
    out.unlink(missing_ok=True)
    mark = f"/usr/bin/env -0 >>'{out}'; /usr/bin/printf '\\1\\0' >>'{out}'\n"
    whole = mark.join(["", *scripts]) + mark if scripts else ""
    done = run(shell, os.fsencode(whole), folder, env)
    assert done.stderr == b"", done.stderr.decode(errors="replace")
    assert done.returncode == 0
    assert list(folder.iterdir()) == [], "something ran"
    environments: list[dict[str, str]] = [{}]
    for row in out.read_bytes().split(b"\0")[:-1]:
        if row == b"\1":
            environments.append({})
            continue
        name, _, value = os.fsdecode(row).partition("=")
        if name not in _OWN:
            environments[-1][name] = value
    return environments[1:-1] if scripts else []


def compare_environments(
    got: Sequence[Mapping[str, str]], expected: Sequence[Mapping[str, str]]
) -> None:
    for env, other in zip(got, expected, strict=True):
        names = {*env, *other}
        wrong = {name: (env.get(name), other.get(name)) for name in names}
        assert {name: two for name, two in wrong.items() if two[0] != two[1]} == {}
