"""Mistakes that MindSpeed-RL and MindSpeed-MM refuse."""

from pathlib import Path

import msgspec
import pytest

from tests.acceptance import clones
from tests.acceptance.linting.test_configured import Mistake, ask_all

STACKS = (
    (("Ascend/MindSpeed-LLM", "a2c0733b"), ("Ascend/MindSpeed", "ac9f0e74")),
    (("Ascend/MindSpeed", "v26.0.0_core_r0.12.1"),),
)
MEGATRON = ("NVIDIA/Megatron-LM", "core_v0.12.1", "megatron")


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
