"""A batch script for Slurm that checks every node of its allocation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ascend_doctor.errors import DataError

# Words that sbatch reads the same with and without quotes; these first ones part the options of a
# heterogeneous job.
_PLAIN = re.compile(r"(?!:|hetjob|packjob)[A-Za-z0-9_@%+=:,./\[\]-]+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def directive(*words: str) -> str:
    """Options of sbatch in one line behind ``#SBATCH``.

    sbatch reads these lines itself and not as a shell: in quotes a backslash takes the next
    character as it is, outside of them older ones still end a word at a space behind it
    (SchedMD/slurm@284c3b95: src/sbatch/opt.c, get_argument; 22.05 as tried). Raises DataError for
    a line break or another control character, which no line can have.
    """
    return " ".join(("#SBATCH", *map(_quote, words)))


def _quote(word: str) -> str:
    if not word or _CONTROL.search(word):
        raise DataError(f"{word!r} cannot stand in a batch script as an option")
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def script(
    options: Sequence[Sequence[str]], doctor: Sequence[str], check: Sequence[str], *, folder: str
) -> str:
    """The script. ``options`` of sbatch are lines of words, ``check`` is for ``fleet check``.

    What comes out lies in ``folder``/ascend-doctor-JOB: the report, the lists of nodes, and the
    nodes' own reports below. The job's exit code is that of the check.
    """
    rows = "\n".join(directive(*option) for option in options)
    file = f"{shlex.quote(folder)}/ascend-doctor-$SLURM_JOB_ID"
    call = shlex.join((*doctor, "fleet", "check", "--slurm", *check))
    return f"""#!/bin/sh
{rows}
# Every node checks itself, and the reports become one. Exit code: 0 nothing found, 1 findings,
# 2 bad usage, 3 "could not tell".
folder={file}
mkdir -p "$folder/nodes" || exit 2
exec {call} \\
  --reports "$folder/nodes" --lists "$folder" \\
  --format json -o "$folder/report.json" --format text
"""
