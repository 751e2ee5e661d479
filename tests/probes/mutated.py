"""Copies of the installed megatron-core in which one line is wrong."""

import shutil
from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """Replacements in a file of megatron.core."""

    file: str
    lines: tuple[tuple[str, str], ...]


def mutate(core: Path, folder: Path, mutation: Mutation) -> Path:
    copy = folder / "megatron" / "core"
    shutil.copytree(core, copy)
    path = copy / mutation.file
    text = path.read_text("utf-8")
    for line, other in mutation.lines:
        assert line in text, f"{mutation.file} has no {line!r}"
        text = text.replace(line, other)
    path.write_text(text, "utf-8")
    return folder
