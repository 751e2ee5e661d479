"""Every command that a remedy prints: parsed by a shell, and run where a stand-in allows it.

    python -m tests.remedies      writes docs/remedies.md

Commands come from the recorded machines, every breakage of tests/level0, the literal texts of
``commands=`` and the sentences of known failures, X for what is filled in. In an empty folder
stand-ins write down what they were called with, so quoting, globs and loops are seen to work.
"""

import ast
import functools
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from ascend_doctor.checks import all_checks
from ascend_doctor.collect.snapshot import take
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.check_texts import read_texts
from tests.level0.machine import change_machine, machine, table
from tests.machines.compose import names
from tests.programs import run_program

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "remedies.md"
_SOURCES = sorted((ROOT / "ascend_doctor").rglob("*.py"))
_TEXTS = tuple(
    check
    for path in sorted((ROOT / "matrices" / "checks").glob("*.yaml"))
    for check in read_texts(path.stem).checks.values()
)
_SLOT = re.compile(r"\{[^{}]+\}")
_OWN = re.compile(r"^ascend-doctor (?:matrix (?:show|why|list)|explain)\b")
_TYPED = re.compile("`([^`]+)`")
_SHELL = ("export", "unset", "source")
_ANSWER = "X oom switch torch accelerators asdrv_ ascend_ davinci libstdc++"  # what they grep for
_STUBS = """
    X apt-get ascend-doctor cat conda df dmesg docker du find findmnt free fuser getent git
    hccn_tool hf id ip kill kubectl ldconfig ldd ls lsmod lspci mkdir mv npu-smi pip ps python
    python3 ray reboot rm ss sudo sysctl taskset timeout ulimit usermod yum
"""
_PATHS = (
    "/usr/local/Ascend/driver/tools/hccn_tool",
    "/opt/venv/bin/python",
    "/home/ada/venv/bin/python",
)


@functools.cache
def parse(command: str) -> str:
    return run_program(["bash", "-n"], input=command, check=False).stderr


@functools.cache
def list_printed() -> tuple[str, ...]:
    catalog = Catalog()
    checks = [check for check in all_checks() if check.level == 0]
    machines = [machine(name) for name in names()]
    machines += [
        change_machine(row.get("machine", "healthy-a2"), row["change"]) for row in _single()
    ]
    commands = {
        command
        for examined in machines
        for finding in judge(Case(facts=take(examined, catalog), catalog=catalog), checks)
        if finding.remedy
        for command in finding.remedy.commands
    }
    return tuple(sorted(commands))


def _single() -> list[dict[str, Any]]:
    return [row for row in table("breakages") if isinstance(row.get("machine", ""), str)]


def list_written() -> dict[str, str]:
    """The package's literal commands by place; a value is an X."""
    rows = (row for check in _TEXTS for row in check.by_name.values())
    shown = (_SLOT.sub("X", command) for row in rows for command in row.commands)
    return {
        f"{path.relative_to(ROOT)}:{line}": text
        for path in _SOURCES
        for line, text in _literals(ast.parse(path.read_text("utf-8")))
    } | {f"matrices/checks {number}": text for number, text in enumerate(shown)}


@functools.cache
def list_fixes() -> tuple[str, ...]:
    """What known failures say to do, X for a value."""
    rows = Catalog().failures.values()
    texts = {
        text for row in rows for text in (row.fix, *(each[2] for each in row.variants.values()))
    }
    return tuple(sorted(_SLOT.sub("X", text) for text in texts))


def list_typed(texts: Iterable[str]) -> list[str]:
    """The commands in sentences."""
    return [command for text in texts for command in _TYPED.findall(text)]


def _literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.keyword) or node.arg != "commands":
            continue
        for item in ast.walk(node.value):
            if isinstance(item, ast.Tuple):
                for element in item.elts:
                    text = _text(element)
                    if text:
                        yield element.lineno, text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "X"
            for part in node.values
        )
    return ""


def program(command: str) -> str:
    words = re.findall(r"[^\s]+", command)
    first = "sudo " + Path(words[1]).name if words[0] == "sudo" else Path(words[0]).name
    if "pip" in words:
        return f"pip {words[words.index('pip') + 1]}"
    if first == 'sudo "$(command':
        return "sudo ascend-doctor check"
    return f"ascend-doctor {words[1]}" if first == "ascend-doctor" else first


def run(command: str, folder: Path) -> tuple[int, list[str], str]:
    """Exit status, stand-in calls and standard error of a command in an empty folder."""
    stubs = folder / "bin"
    stubs.mkdir(parents=True, exist_ok=True)
    calls = folder / "calls"
    calls.write_text("")
    stub = f'#!/bin/bash\necho "$(basename "$0") $*" >> {calls}\necho "{_ANSWER}"\n'
    for name in _STUBS.split() if not (stubs / "sudo").exists() else ():
        (stubs / name).write_text(stub)
        (stubs / name).chmod(0o755)
    text = command
    for path in _PATHS:
        text = text.replace(path, str(stubs / Path(path).name))
    script = re.sub(r"source (/\S+)", rf"source {folder}/set_env.sh", text)
    (folder / "set_env.sh").write_text("export SOURCED=yes\n")
    done = run_program(
        ["bash", "-c", f"enable -n kill ulimit; {script}"],
        cwd=folder,
        env={"PATH": f"{stubs}:/usr/bin:/bin", "USER": "ada", "IMAGE": "an/image:1"},
        check=False,
    )
    return done.returncode, calls.read_text().splitlines(), done.stderr


@functools.cache
def list_unprinted() -> tuple[str, ...]:
    return tuple(sorted({*list_written().values()} - {*list_printed()}))


@functools.cache
def works(command: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        code, _, errors = run(command, Path(folder))
    return not code and not errors


def how(command: str) -> str:
    if command.startswith("source "):
        return "an empty file"
    if command.split(maxsplit=1)[0] in _SHELL:
        return "the shell"
    return "in earnest" if _OWN.match(command) else "stand-ins"


def page() -> str:
    return "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    yield "# What remedies tell to type\n"
    yield (
        "Commands that `check` printed for the recorded machines of the tests and their single\n"
        "breakages, by program. Bash parses each. `python -m tests.remedies` writes this page. No\n"
        "NPU, driver or package index was behind any: a stand-in shows that a command can be\n"
        "typed, not that the machine is well afterwards.\n\n"
        "Stand-ins get the words that stand there, and the shell has the variables after it. An\n"
        "empty file is read in place of the named one. In earnest: it prints what it says. Tests\n"
        "copy all commands from screens of 40, 80 and 120 columns.\n"
    )
    yield "| program | commands | tried |"
    yield "| --- | --- | --- |"
    groups: dict[tuple[str, str], int] = defaultdict(int)
    for command in list_printed():
        groups[program(command), how(command)] += 1
    for (name, tried), count in sorted(groups.items()):
        yield f"| `{name}` | {count} | {tried} |"
    unprinted = list_unprinted()
    parsed = [text for text in unprinted if not works(text)]
    yield "\n## Of remedies that no recorded machine has\n"
    yield from _counts("literal commands", {*unprinted} - {*parsed})
    typed = {*list_typed(list_fixes())}
    parsed += sorted(text for text in typed if not works(text))
    yield "\n## Of known failures\n"
    yield from _counts("commands", typed - {*parsed})
    yield f"\n## Only parsed: {len(parsed)}\n"
    yield from (f"- `{_cell(text)}`" for text in parsed) if parsed else ("None.",)


def _counts(what: str, commands: Collection[str]) -> Iterator[str]:
    names = Counter(map(program, commands))
    yield f"{names.total()} {what}, run likewise with X for any value:\n"
    yield ", ".join(f"`{name}` {count}" for name, count in sorted(names.items()))


def _cell(text: str) -> str:
    first, *more = text.splitlines()
    return first.replace("`", "'") + (" ..." if more else "")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
