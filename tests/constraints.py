"""Writes constraints/*.txt: every package of CI and of the release, by version and hashes.

usage: python -m tests.constraints

It needs uv (`pip install uv`). `run.txt` has the dependencies, `test.txt` what tests and CI add,
and `rehearsal.txt` what a rehearsal examines (Python 3.10 to 3.13). No package is in two files;
several are installed together: `pip install --require-hashes -r run.txt -r test.txt`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "constraints"
OLDEST = "3.10"
EXTRAS = {"run": (), "test": ("test", "mcp", "ray"), "rehearsal": ("rehearsal",)}
_CONTINUED = re.compile(r" \\\n\s*")


def compile_rows(extras: Sequence[str], tools: bool, agreeing: Path | None) -> dict[str, str]:
    """Requirement lines by package and marker, with all their hashes."""
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
    command += ["--no-annotate", "--no-header", "--python-version", OLDEST]
    command += [word for extra in extras for word in ("--extra", extra)]
    command += ["pyproject.toml", *(["constraints/tools.in"] if tools else [])]
    command += ["--constraint", str(agreeing)] if agreeing else []
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    rows = _CONTINUED.sub(" ", done.stdout).splitlines()
    return {row.partition(" --hash")[0]: row for row in rows}


def write() -> None:
    everything = [extra for extras in EXTRAS.values() for extra in extras]
    with tempfile.TemporaryDirectory() as folder:
        versions = Path(folder) / "versions.txt"
        rows = compile_rows(everything, tools=True, agreeing=None)
        versions.write_text("".join(f"{row}\n" for row in rows), "utf-8")
        before: set[str] = set()
        extras: tuple[str, ...] = ()
        for name, more in EXTRAS.items():
            extras += more
            rows = compile_rows(extras, tools=name != "run", agreeing=versions)
            fresh = [row for pin, row in rows.items() if pin.partition(" ")[0] not in before]
            before |= {pin.partition(" ")[0] for pin in rows}
            text = "# Written by `python -m tests.constraints`.\n" + "".join(
                f"{row}\n" for row in fresh
            )
            (FOLDER / f"{name}.txt").write_text(text, "utf-8")


if __name__ == "__main__":
    write()
