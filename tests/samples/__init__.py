"""Texts of the tools and files that the doctor reads, by the names in README.md."""

from pathlib import Path

from .npu_info import texts

FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    files = (str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.txt"))
    return tuple(sorted((*files, *(f"npu-smi/{name}" for name in texts()))))


def read(name: str) -> str:
    folder, _, file = name.partition("/")
    if folder == "npu-smi" and file in texts():
        return texts()[file]
    return (FOLDER / name).read_text("utf-8")
