"""Mistakes that MindSpeed-RL and MindSpeed-MM refuse."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from ascend_doctor.commands.rehearsal import prepare
from ascend_doctor.findings import Level
from ascend_doctor.linting.exact import ask, split_launches
from ascend_doctor.linting.inputs import LintInput, subjects
from ascend_doctor.linting.shellcheck import run_shellcheck
from ascend_doctor.simulator import machine as simulated
from tests.acceptance import clones, needs
from tests.linting.judged import CATALOG, judge_inputs, mistakes

STACKS = (
    (("Ascend/MindSpeed-LLM", "a2c0733b"), ("Ascend/MindSpeed", "ac9f0e74")),
    (("Ascend/MindSpeed", "v26.0.0_core_r0.12.1"),),
)
MEGATRON = ("NVIDIA/Megatron-LM", "core_v0.12.1", "megatron")


class Mistake(NamedTuple):
    """``label`` is "" for none."""

    script: Path
    file: str
    lines: range
    label: str


class Row(msgspec.Struct, frozen=True):
    launch: str
    path: str = ""
    line: int = 0
    old: str = ""
    new: str = ""
    refusal: str = ""


class Labels(msgspec.Struct, frozen=True):
    repository: str
    commit: str
    below: tuple[str, ...]
    package: str
    files: tuple[Row, ...]
    healthy: tuple[str, ...]


def ask_all(folder: Path, rows: Iterable[Mistake], sources: Iterable[Path]) -> tuple[int, int]:
    """Mistakes refused at their line, and refusals without one."""
    python = needs.first_path("training-python")
    env = dict(prepare(None, python, simulated("a2-8"), ()).env)
    path = ":".join([*map(str, sources), env["PYTHONPATH"]])
    env |= {"PYTHONPATH": path, "DISABLE_VERSION_CHECK": "1"}
    rows, inputs, sizes = [*rows], list[LintInput](), []
    for row in rows:
        read = [*subjects(str(row.script), row.script.read_bytes(), CATALOG, run_shellcheck)]
        sizes.append(len(read))
        inputs += read
    answers = iter(ask(inputs, split_launches(inputs), python, env, folder, 1800.0))
    hits = false = 0
    for row, size in zip(rows, sizes, strict=True):
        reported = mistakes(judge_inputs([next(answers) for _ in range(size)]))
        refused = [each for each in reported if each.check.startswith("run-framework")]
        errors = [each for each in reported if each.level is Level.ERROR]
        spots = [each.location for each in errors if each.location]
        hit = any(spot.file == row.file and spot.line in row.lines for spot in spots)
        hits += bool(row.label) and hit
        false += 0 if row.label else len(refused)
        print(hit, row.script, row.label, [each.title for each in errors])  # noqa: T201
    print("hits", hits, "of", len(rows), "false", false)  # noqa: T201
    return hits, false


def plant(below: Path, row: Row) -> Mistake:
    script, own = below / row.launch, row.launch
    if script.suffix != ".sh":
        script, own = below / "train.sh", f"configs/{row.launch}.yaml"
        entry = f"cli/train_{row.launch.partition('_')[0]}.py"
        script.write_text(f"python {entry} --config-name {row.launch}\n")
    file = below / (row.path or own)
    if row.line:
        lines = file.read_text().split("\n")
        lines[row.line - 1] = lines[row.line - 1].replace(row.old, row.new)
        file.write_text("\n".join(lines))
    changed = range(row.line, row.line + row.new.count("\n") + 1)
    return Mistake(script, str(file), changed, row.refusal)


@pytest.mark.parametrize(("number", "least"), [(0, 17), (1, 14)])
def test_frameworks_refuse_at_the_line(tmp_path: Path, number: int, least: int) -> None:
    content = Path(__file__).with_name("mindspeed.yaml").read_bytes()
    labels = msgspec.yaml.decode(content, type=dict[str, list[Labels]])["launches"][number]
    own = (labels.repository, labels.commit)
    stack = ((*own, labels.package, *labels.below), *STACKS[number], MEGATRON)
    sources = [clones.unpack(tmp_path / each[0], *each) for each in stack]
    rows = (*labels.files, *map(Row, labels.healthy))
    folders = (clones.unpack(tmp_path / str(n), *own, *labels.below) for n in range(len(rows)))
    hits, false = ask_all(tmp_path, map(plant, folders, rows), sources)
    assert hits >= least
    assert not false
