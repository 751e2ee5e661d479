"""Mistakes that MindSpeed-RL and MindSpeed-MM refuse, in files that they ship."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.acceptance import clones
from tests.acceptance.linting.test_configured import Mistake, ask_all

SOURCES = {
    "rl": (("Ascend/MindSpeed", "ac9f0e74"), ("Ascend/MindSpeed-LLM", "a2c0733b")),
    "mm": (("Ascend/MindSpeed", "v26.0.0_core_r0.12.1"),),
}
MEGATRON = ("NVIDIA/Megatron-LM", "core_v0.12.1", "megatron")
FOLDERS = {"rl": ("cli", "configs", "mindspeed_rl"), "mm": ("examples", "mindspeed_mm")}
SCRIPTS = ("pretrain_omni.py", "pretrain_sora.py", "pretrain_transformers.py", "pretrain_vlm.py")


class Row(msgspec.Struct, frozen=True):
    launch: str
    path: str = ""
    line: int = 0
    kind: str = ""
    old: str = ""
    new: str = ""
    refusal: str = ""


class Labels(msgspec.Struct, frozen=True):
    repository: str
    commit: str
    files: tuple[Row, ...]
    healthy: tuple[str, ...]


def unpack(folder: Path, labels: Labels, name: str) -> list[Path]:
    below = (*FOLDERS[name], *(SCRIPTS if name == "mm" else ()))
    own = clones.unpack(folder / "own", labels.repository, labels.commit, *below)
    others = (*SOURCES[name], MEGATRON)
    return [own, *(clones.unpack(folder / each[0], *each) for each in others)]


def place(folder: Path, labels: Labels, own: Path) -> Iterator[Mistake]:
    """Each row's launch in a folder of its own, whose other files are links."""
    for number, row in enumerate((*labels.files, *map(Row, labels.healthy))):
        below = folder / str(number)
        below.mkdir()
        for each in own.iterdir():
            (below / each.name).symlink_to(each)
        script = below / row.launch
        if script.suffix != ".sh":
            script = below / "train.sh"
            entry = f"cli/train_{row.launch.partition('_')[0]}.py"
            script.write_text(f"python {entry} --config-name {row.launch}\n")
        file = below / row.path if row.path else script
        if row.path not in {"", "train.sh"}:
            top = below / Path(row.path).parts[0]
            top.unlink()
            for each in sorted((own / top.name).rglob("*")):
                copy = top / each.relative_to(own / top.name)
                if each.is_file() and each.suffix in {".sh", ".yaml", ".json"}:
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(each.read_bytes())
        lines = file.read_text().split("\n")
        if row.line:
            assert row.old in lines[row.line - 1]
            lines[row.line - 1] = lines[row.line - 1].replace(row.old, row.new)
            file.write_text("\n".join(lines))
        end = row.line + row.new.count("\n") + 1
        yield Mistake(script, str(file), range(row.line, end), row.refusal)


def judge(folder: Path, name: str) -> tuple[int, int]:
    content = Path(__file__).with_name("mindspeed.yaml").read_bytes()
    labels = msgspec.yaml.decode(content, type=dict[str, Labels])[name]
    sources = unpack(folder / "sources", labels, name)
    return ask_all(folder, place(folder, labels, sources[0]), sources)


def test_mindspeed_rl_refuses_at_the_line(tmp_path: Path) -> None:
    hits, false = judge(tmp_path, "rl")
    assert hits >= 14
    assert not false


def test_mindspeed_mm_refuses_at_the_line(tmp_path: Path) -> None:
    hits, false = judge(tmp_path, "mm")
    assert hits >= 14
    assert not false
