"""Room on the file systems that jobs write to: compiled operators, logs, caches, temporary files.

A mount that does not answer blocks whoever asks it, so this is a section of its own.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from ascend_doctor.facts import FileSystem, Storage
from ascend_doctor.machine.live import Machine, NotRecorded

# A recording has to keep these variables.
NAMED_BY = (
    *("ASCEND_WORK_PATH", "ASCEND_CACHE_PATH", "ASCEND_PROCESS_LOG_PATH"),
    *("TMPDIR", "HF_HOME", "XDG_CACHE_HOME", "MODELSCOPE_CACHE"),
)


def storage(machine: Machine) -> Storage:
    """Folders by use; lists several uses of one folder once."""
    uses: dict[str, list[str]] = {}
    for use, path in folders(machine):
        uses.setdefault(path, []).append(use)
    systems, untold = [], []
    for path, of in uses.items():
        answer = _answer(machine, path)
        if answer is None:
            untold.append(path)
        else:
            systems.append(
                msgspec.convert(
                    {"path": path, **answer, "uses": tuple(dict.fromkeys(of))}, FileSystem
                )
            )
    return Storage(source="statvfs", places=tuple(systems), untold=tuple(untold))


def _answer(machine: Machine, path: str) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = machine.value(f"statvfs:{path}", lambda: room(path))
    except (NotRecorded, OSError):
        return None
    return answer


def folders(machine: Machine) -> Iterator[tuple[str, str]]:
    """(use, folder). Operators compile in the current folder (kernel_meta) and below HOME."""
    env = machine.env
    home = env.get("HOME", "")
    work = env.get("ASCEND_WORK_PATH") or home
    yield "operators", "."
    for use, path in (
        ("operators", env.get("ASCEND_CACHE_PATH") or home),
        ("logs", env.get("ASCEND_PROCESS_LOG_PATH") or work),
        ("temporary", env.get("TMPDIR") or "/tmp"),  # noqa: S108 - the subject
        ("models", env.get("HF_HOME") or env.get("XDG_CACHE_HOME") or home),
        ("models", env.get("MODELSCOPE_CACHE") or home),
    ):
        if path.startswith("/"):
            yield use, path.rstrip("/") or "/"


def room(path: str) -> dict[str, Any]:
    """Room at a folder, or at the nearest existing one above it."""
    existing = path
    while not os.path.exists(existing) and len(existing) > 1:
        existing = os.path.dirname(existing)
    statvfs = os.statvfs(existing)
    return {
        "path": existing,
        "size": statvfs.f_frsize * statvfs.f_blocks,
        "free": statvfs.f_frsize * statvfs.f_bavail,
        "files": statvfs.f_files,
        "files_free": statvfs.f_favail,
        "read_only": bool(statvfs.f_flag & os.ST_RDONLY),
    }
