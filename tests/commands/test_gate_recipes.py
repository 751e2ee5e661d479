"""Every code block of docs/gates.md, run against recorded machines: let in, or kept out.

The recipe runs as it is written, in bash, with stand-ins for what a machine of the tests lacks: the
doctor's place, the log folder, set_env.sh, scontrol, torchrun. Only facts can be replayed, so every
gate runs at level 0, whatever the preset says. Three machines run in an ordinary run.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.knobs import draw
from tests.machines.compose import build
from tests.programs import run_program

PAGE = Path(__file__).parents[2] / "docs" / "gates.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
DOCTOR = Path(sys.executable).with_name("ascend-doctor")

# Machines, labelled before any recipe ran. A user without root has the site's file that the page
# shows for that.
IN = ("healthy-a2", "healthy-a3", "installed-at-home")
OUT = ("laptop", "npus-gone", "container-without-devices", "one-card-lost", "four-cards-lost")
QUICK = ("healthy-a2", "npus-gone", "four-cards-lost")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """``mark`` is in its block alone; ``contract``: about servers of eight 910B3."""

    mark: str
    contract: bool = False


RECIPES = {
    "command": Recipe(mark="--preset prolog --expect npus=8", contract=True),
    "site": Recipe(mark="expect: [", contract=True),
    "github": Recipe(mark="# GitHub"),
    "gitlab": Recipe(mark="# GitLab"),
    "jenkins": Recipe(mark="// Jenkins"),
    "prolog": Recipe(mark="# Slurm, Prolog="),
    "health": Recipe(mark="scontrol update"),
    "kubernetes": Recipe(mark="initContainers:"),
    "node-condition": Recipe(mark="# Kubernetes, ascend-problem.sh"),
    "run": Recipe(mark="ascend-doctor run"),
    "without-root": Recipe(mark="unknown: needs-root"),
}
# Read by tests/test_acknowledged.py and here; they open no gate.
OTHERS = ("id: hccn-conf",)


def block(mark: str) -> str:
    (only,) = (text for _, text in BLOCKS if mark in text)
    return str(only)


def test_every_block_of_the_page_is_a_recipe() -> None:
    marks = [*(recipe.mark for recipe in RECIPES.values()), *OTHERS]
    assert len(BLOCKS) == len(marks)
    assert [text for _, text in BLOCKS if sum(mark in text for mark in marks) != 1] == []


def script(name: str) -> str:
    """A recipe's shell lines. A CI step fails with its exit code."""
    text = block(RECIPES[name].mark)
    if name == "github":
        text = yaml.safe_load(text)[0]["run"]
    elif name == "gitlab":
        text = "\n".join(yaml.safe_load(text)["script"])
    elif name == "jenkins":
        (text,) = re.findall(r"^sh '([^']*)'$", text, re.MULTILINE)
    elif name == "kubernetes":
        text = shlex.join(yaml.safe_load(text)["initContainers"][0]["command"])
    elif name in {"site", "without-root"}:
        text = "ascend-doctor check --preset ci"
    elif name == "health":
        text = block(RECIPES["prolog"].mark).replace("[ $? -ne 1 ]\n", text)
    return text


def opens(name: str, machine: str, folder: Path) -> bool:
    programs = folder / "programs"
    programs.mkdir()
    replayed = shlex.quote(str(build(machine, folder / "machine")))
    stand_ins = {
        "ascend-doctor": 'command=$1; shift; level=; [ "$command" = check ] && level="-l 0"\n'
        f'exec {shlex.quote(str(DOCTOR))} "$command" --replay {replayed} $level "$@"',
        "scontrol": f'echo "$@" > {shlex.quote(str(folder / "drained"))}',
        "torchrun": f"touch {shlex.quote(str(folder / 'started'))}",
    }
    for program, text in stand_ins.items():
        (programs / program).write_text(f"#!/bin/sh\n{text}\n")
        (programs / program).chmod(0o755)
    (folder / "set_env.sh").touch()
    text = script(name)
    for there, here in (
        ("/opt/doctor/bin/ascend-doctor", programs / "ascend-doctor"),
        ("/usr/local/Ascend/cann/set_env.sh", folder / "set_env.sh"),
        ("/var/log/ascend-doctor", folder),
        ("|| scontrol", f"|| {programs / 'scontrol'}"),
    ):
        text = text.replace(there, str(here))
    rows = [block(RECIPES["site"].mark)] if name == "site" else []
    if machine == "installed-at-home":
        rows.append(block(RECIPES["without-root"].mark))
    if rows:
        (folder / "ascend-doctor.yaml").write_text("".join(rows))
    done = run_program(
        ["bash", "-c", text],
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "SLURMD_NODENAME": "node-7"},
    )
    assert "Traceback" not in done.stderr
    assert "command not found" not in done.stderr, done.stderr
    if name == "health":
        return not (folder / "drained").exists()
    if name == "node-condition":
        assert len(done.stdout.splitlines()) == (done.returncode == 1), done.stdout
    if name == "run":
        assert (folder / "started").exists() == (done.returncode == 0), done.stderr
    assert done.returncode == 0 or done.stdout or name in {"prolog", "gitlab", "jenkins"}
    return done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("machine", draw((*IN, *OUT), QUICK, 2))
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_lets_in_what_trains_and_nothing_else(
    name: str, machine: str, tmp_path: Path
) -> None:
    of_contract = RECIPES[name].contract and machine == "healthy-a3"
    assert opens(name, machine, tmp_path) == (machine in IN and not of_contract)


@pytest.mark.slow
def test_what_a_user_without_root_is_told_to_type_makes_it_0(tmp_path: Path) -> None:
    replayed = str(build("installed-at-home", tmp_path / "machine"))

    def gate() -> subprocess.CompletedProcess[str]:
        return run_program(
            [DOCTOR, "check", "--preset", "prolog", "--replay", replayed], check=False, cwd=tmp_path
        )

    done = gate()
    assert done.returncode == 3
    assert "? Not checked, needs root" in done.stdout
    (line,) = (row for row in done.stdout.splitlines() if "unknown: needs-root" in row)
    subprocess.run(["bash", "-c", line.strip().removeprefix("$ ")], check=True, cwd=tmp_path)
    assert gate().returncode == 0
