"""The system calls of a level 0 on a prepared machine, against what docs/security.md says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ascend_doctor
from tests.programs import run_program
from tests.surroundings.test_surroundings import MAIN, environment

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
CALLS = (
    "execve,execveat,open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,"
    "renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,truncate,chmod,fchmodat,chown,"
    "fchownat,lchown,utimensat,setxattr,connect,sendto,sendmsg,bind,listen,mount,ptrace"
)
_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (?!-1)")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)")
_BEGUN = re.compile(r"^(\d+) +(\w+\(.*) <unfinished \.\.\.>$")


def programs() -> set[str]:
    section = PAGE.read_text().partition("## What level 0 starts")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE))


def calls(log: Path) -> list[tuple[str, str]]:
    """Names and arguments of successful calls; those cut in two are joined."""
    calls, begun = [], {}
    for line in log.read_text(errors="replace").splitlines():
        if half := _BEGUN.match(line):
            begun[half[1]] = half[2]
            continue
        whole = line
        if rest := _RESUMED.match(line):
            whole = f"{rest[1]} {begun.pop(rest[1], rest[2] + '(')}{rest[3]}"
        if call := _CALL.match(whole):
            calls.append((call[1], call[2]))
    return calls


@pytest.fixture
def prepared(tmp_path: Path) -> dict[str, str]:
    """A machine with vendor tools, a checkout with filters and hooks, an environment of its own."""
    env = environment(tmp_path, "traced")
    for name in ("npu-smi", "hccn_tool"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho nothing\n")
        (tmp_path / "bin" / name).chmod(0o755)
    tree = tmp_path / "Megatron-LM"
    (tree / "megatron" / "core").mkdir(parents=True)
    (tree / "megatron" / "core" / "__init__.py").write_text("")
    git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (
        ("init", "-q"),
        ("add", "."),
        ("commit", "-q", "-m", "one"),
        ("config", "filter.any.clean", f"touch {tmp_path}/ran"),
        ("config", "core.fsmonitor", f"touch {tmp_path}/ran"),
    ):
        subprocess.run([*git, *arguments], check=True, env=env)
    (tree / ".git" / "info" / "attributes").write_text("* filter=any\n")
    os.utime(tree / "megatron" / "core" / "__init__.py", (1, 1))
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=120
    )
    return {**env, "VIRTUAL_ENV": str(tmp_path / "venv"), "PYTHONPATH": str(tree)}


def test_level_0_starts_writes_and_reaches_what_the_page_says(
    prepared: dict[str, str], tmp_path: Path
) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "log"
    argv = [strace, "-f", "-qq", "-s", "4096", "-e", f"trace={CALLS}", "-o", str(log)]
    done = run_program(
        [*argv, sys.executable, "-I", str(MAIN), "check", "-l", "0", "-q", "--format", "json"],
        check=False,
        env=prepared,
        cwd=tmp_path,
    )
    if not log.exists() or "PTRACE" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    assert done.returncode in {0, 1, 3}, done.stderr
    seen = calls(log)
    assert len(seen) > 100
    started = [re.findall(r'"([^"]*)"', rest)[0] for name, rest in seen if name.startswith("exec")]
    interpreters = {sys.executable, str(tmp_path / "venv" / "bin" / "python")}
    assert {
        os.path.basename(program) for program in started if program not in interpreters
    } <= programs()
    listed = json.loads(done.stdout)["snapshot"]["started"]
    assert {os.path.basename(program) for program in started[1:]} == {
        os.path.basename(program) for program in listed
    }
    assert str(tmp_path / "bin" / "npu-smi") in started
    assert any(os.path.basename(program) == "git" for program in started)
    folders = (
        str(tmp_path / "home" / ".cache"),
        str(tmp_path / "tmp"),
        str(Path(ascend_doctor.__file__).parent),
        sys.prefix,
        sys.base_prefix,
    )
    for name, rest in seen:
        if name.startswith("exec"):
            continue
        if name in {"open", "openat", "openat2"}:
            if not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", rest):
                continue
        elif name in {"connect", "sendto", "sendmsg", "bind", "listen", "mount", "ptrace"}:
            # The C library asks nscd for user names, and the kernel for interfaces.
            assert "AF_UNIX" in rest or "AF_NETLINK" in rest, (name, rest)
            continue
        for path in re.findall(r'"([^"]*)"', rest):
            own = path.startswith(folders) and (
                path.startswith(folders[:2]) or "__pycache__" in path or ".pyc" in path
            )
            # An entry of an open folder is removed by name alone.
            inside = name == "unlinkat" and not rest.startswith("AT_FDCWD")
            assert own or inside or path in {"/dev/null", "/dev/tty"}, (name, rest)
    assert not (tmp_path / "ran").exists()
    assert not list((tmp_path / "tmp").iterdir())
