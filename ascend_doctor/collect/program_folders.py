"""Folders of PATH that programs are taken from, and those that are left out."""

import functools
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ascend_doctor.facts import PathEntry
from ascend_doctor.machine.live import Machine, NotRecorded
from ascend_doctor.machine.search_path import judge_entries, judge_program

# The first four decide what the doctor examines.
_PROGRAMS = (
    *("python3", "python", "npu-smi", "hccn_tool"),
    *("git", "srun", "shellcheck"),
)


def read_left_out(machine: Machine) -> tuple[PathEntry, ...] | None:
    """Excluded entries of PATH; None if not recorded."""
    path = machine.env.get("PATH", "")
    if not path:
        return ()
    try:
        rows = machine.value("PATH", lambda: _ask(path))
        return msgspec.convert(rows, tuple[PathEntry, ...])
    except (NotRecorded, msgspec.ValidationError):
        return None


def list_folders(machine: Machine) -> list[str]:
    left_out = _texts(machine)
    words = machine.env.get("PATH", "").split(":")
    return [word for word in words if word.startswith("/") and word not in left_out]


def list_paths(machine: Machine, names: Sequence[str], folders: Sequence[str] = ()) -> list[str]:
    """Possible places of a program, by any of its names: on PATH, then in ``folders``."""
    left_out = _texts(machine)
    searched = (*list_folders(machine), *folders)
    paths = (f"{folder}/{name}" for name in names for folder in searched)
    return [path for path in paths if path not in left_out]


def _texts(machine: Machine) -> set[str]:
    return {entry.text for entry in read_left_out(machine) or ()}


@functools.lru_cache(maxsize=8)
def _ask(path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for entry in judge_entries(path):
        programs = [
            name for name in _PROGRAMS if os.path.isfile(os.path.join(entry.text or ".", name))
        ]
        if entry.reason:
            rows.append({"text": entry.text, "reason": entry.reason, "programs": programs})
            continue
        files = {os.path.join(entry.text, name): name for name in programs}
        reasons = {file: judge_program(file) for file in files}
        rows += [
            {"text": file, "reason": reason, "programs": [files[file]]}
            for file, reason in reasons.items()
            if reason
        ]
    return rows
