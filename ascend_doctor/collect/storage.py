"""Room on the file systems that jobs write to: compiled operators, logs, caches, temporary files.

A mount that does not answer blocks whoever asks it, so this is a section of its own.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ascend_doctor.facts import FileSystem, Storage
from ascend_doctor.machine.live import Machine, NotRecorded, read_or_none
from ascend_doctor.patterns import defer

# A recording has to keep these variables.
NAMED_BY = (
    *("ASCEND_WORK_PATH", "ASCEND_CACHE_PATH", "ASCEND_PROCESS_LOG_PATH"),
    *("ACL_OP_COMPILER_CACHE_DIR", "TMPDIR", "HF_HOME", "XDG_CACHE_HOME", "MODELSCOPE_CACHE"),
)
# Where jobs write below the folder of a use.
_STACK = ("ASCEND_HOME_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
_MOUNT = defer(r"^\d+ \d+ \S+ \S+ (/\S*) (\S+)", re.MULTILINE)
_BELOW = {"logs": "/ascend/log", "operators": "/kernel_meta"}


def storage(machine: Machine) -> Storage:
    """Folders by use; lists several uses of one folder once."""
    uses: dict[str, list[str]] = {}
    for use, path in folders(machine):
        uses.setdefault(path, []).append(use)
    systems, untold = [], []
    env = machine.env
    paths = (*uses, "/dev/shm", *(env.get(name, "") for name in (*_STACK, "PWD")))  # noqa: S108
    mounts = Storage(
        mounts=parse_mounts(read_or_none(machine, "/proc/self/mountinfo") or "", paths)
    )
    for path, of in uses.items():
        answer = _answer(machine, path, of)
        if answer is None:
            untold.append(path)
        else:
            options = mounts.options(env.get("PWD", "") if path == "." else path)
            flags = {"read_only": "ro" in options, "no_exec": "noexec" in options}
            known = {key: flag or answer.get(key, False) for key, flag in flags.items()}
            facts = {"path": path, **answer, **known, "uses": tuple(dict.fromkeys(of))}
            systems.append(msgspec.convert(facts, FileSystem))
    return msgspec.structs.replace(
        mounts, source="statvfs", places=tuple(systems), untold=tuple(untold)
    )


def parse_mounts(text: str, paths: Sequence[str]) -> dict[str, str]:
    """Options by the place of each mount of these paths; proc_pid_mountinfo(5)."""
    return {
        point: options
        for point, options in _MOUNT.findall(text)
        if any(f"{path}/".startswith(f"{point.rstrip('/')}/") for path in paths)
    }


def _answer(machine: Machine, path: str, uses: list[str]) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = machine.value(f"statvfs:{path}", lambda: room(path, uses))
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
        ("operators", env.get("ACL_OP_COMPILER_CACHE_DIR") or home),
        ("logs", env.get("ASCEND_PROCESS_LOG_PATH") or work),
        ("temporary", env.get("TMPDIR") or "/tmp"),  # noqa: S108 - the subject
        ("models", env.get("HF_HOME") or env.get("XDG_CACHE_HOME") or home),
        ("models", env.get("MODELSCOPE_CACHE") or home),
    ):
        if path.startswith("/"):
            yield use, path.rstrip("/") or "/"


def room(path: str, uses: Iterable[str] = ()) -> dict[str, Any]:
    """Room at a folder, or at the nearest existing one above it."""
    existing = _existing(path)
    written = (_existing(f"{path}{_BELOW.get(use, '')}") for use in uses)
    statvfs = os.statvfs(existing)
    return {
        "path": existing,
        "size": statvfs.f_frsize * statvfs.f_blocks,
        "free": statvfs.f_frsize * statvfs.f_bavail,
        "files": statvfs.f_files,
        "files_free": statvfs.f_favail,
        "read_only": bool(statvfs.f_flag & os.ST_RDONLY),
        "no_exec": bool(statvfs.f_flag & os.ST_NOEXEC),
        "closed": next((folder for folder in written if not os.access(folder, os.W_OK)), ""),
    }


def _existing(path: str) -> str:
    while not os.path.exists(path) and len(path) > 1:
        path = os.path.dirname(path)
    return path
