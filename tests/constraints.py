"""Writes constraints/*.txt: every package of CI and of the release, by version and hashes.

usage: python -m tests.constraints

It needs uv (`pip install uv`) and Python 3.11. `run.txt` has the dependencies, `test.txt` what
tests and CI add, and `rehearsal.txt` what a rehearsal examines (Python 3.10 to 3.13). No package is
in two files; several are installed together: `pip install --require-hashes -r run.txt -r test.txt`.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.programs import run_program

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "constraints"
OLDEST = "3.10"
EXTRAS = {"run": (), "test": ("test", "ray", "hang", "setup"), "rehearsal": ("rehearsal",)}
# Wheels of Python 3.10 to 3.14 on Linux, x86_64 and aarch64.
_WHEEL = re.compile(
    r"-(?:cp31[0-4]-\w+|[\w.]*py3[\w.]*-none|cp3\d+-abi3)"
    r"-(?:any|[\w.]*(?:many)?linux\w*_(?:x86_64|aarch64))\.whl$"
)


def resolve(extras: Sequence[str], tools: bool, versions: Path | None, output: Path) -> None:
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST]
    command += ["--format", "pylock.toml", "--output-file", str(output), "pyproject.toml"]
    command += [word for extra in extras for word in ("--extra", extra)]
    command += ["constraints/tools.in"] if tools else []
    command += ["--constraint", str(versions)] if versions else []
    run_program(command, cwd=ROOT)


def pins(lock: Path) -> Iterator[tuple[str, str]]:
    """Each pin with its marker, and its line of a requirements file."""
    for package in msgspec.toml.decode(lock.read_bytes())["packages"]:
        files = hashes(package)
        if not files:  # a package for another system
            continue
        marker = f" ; {package['marker']}" if "marker" in package else ""
        pin = f"{package['name']}=={package['version']}{marker}"
        yield pin, " ".join([pin, *(f"--hash=sha256:{digest}" for digest in files)])


def hashes(package: Mapping[str, Any]) -> list[str]:
    files = [wheel for wheel in package.get("wheels", ()) if _WHEEL.search(wheel["url"])]
    files += [package["sdist"]] if "sdist" in package else []
    return sorted(file["hashes"]["sha256"] for file in files)


def write() -> None:
    everything = [extra for extras in EXTRAS.values() for extra in extras]
    with tempfile.TemporaryDirectory() as folder:
        lock, versions = Path(folder) / "pylock.toml", Path(folder) / "versions.txt"
        resolve(everything, tools=True, versions=None, output=lock)
        versions.write_text("".join(f"{pin}\n" for pin, _ in pins(lock)), "utf-8")
        before: set[str] = set()
        extras: tuple[str, ...] = ()
        for name, more in EXTRAS.items():
            extras += more
            resolve(extras, tools=name != "run", versions=versions, output=lock)
            rows = {pin: line for pin, line in pins(lock) if pin.partition(" ")[0] not in before}
            before |= {pin.partition(" ")[0] for pin in rows}
            lines = ["# Written by `python -m tests.constraints`.", *rows.values()]
            (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    write()
