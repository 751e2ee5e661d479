"""Programs by name: only from folders of PATH that this user and root alone can change.

A relative or empty entry of PATH means the current folder (execvp(3)). A folder that others can
write lets them choose what root starts. Both are data: reported, and never searched.
"""

import contextlib
import functools
import os
import stat
from collections.abc import Iterator, Mapping

import msgspec

# The kernel's uid for an owner outside this user namespace, user_namespaces(7).
_UNMAPPED = 65534
_WHOLE_MAP = ["0", "0", "4294967295"]


class JudgedEntry(msgspec.Struct, frozen=True):
    """An entry of PATH. ``reason``: why its programs are not started, else ""."""

    text: str
    reason: str = ""


def judge_entries(path: str) -> tuple[JudgedEntry, ...]:
    """Each entry of a PATH once, in order."""
    return tuple(
        JudgedEntry(text, _why_not(text, os.geteuid())) for text in dict.fromkeys(path.split(":"))
    )


@functools.lru_cache(maxsize=64)
def trim_path(path: str) -> str:
    """A PATH without the excluded entries."""
    return ":".join(entry.text for entry in judge_entries(path) if not entry.reason)


def locate(name: str, env: Mapping[str, str]) -> str | None:
    """A program in the trusted folders of ``env``; a name with a slash is already a path."""
    if "/" in name:
        return name
    for folder in trim_path(env.get("PATH", os.defpath)).split(":"):
        path = f"{folder}/{name}"
        if folder and _is_program(path) and not judge_program(path):
            return path
    return None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why_not(folder: str, uid: int) -> str:
    if not folder:
        return "it is empty, which means the current folder"
    if not folder.startswith("/"):
        return "it is relative to the current folder"
    return why_others_write(folder) if uid == 0 else ""


def judge_program(path: str) -> str:
    """Why root does not start a program of a trusted folder: others can change it; else ""."""
    return why_others_write(path) if os.geteuid() == 0 and _is_odd(path) else ""


def _is_odd(path: str) -> bool:
    status = os.lstat(path)
    return stat.S_ISLNK(status.st_mode) or status.st_uid != 0 or bool(status.st_mode & 0o022)


def why_others_write(path: str) -> str:
    """Who else than this user and root can change a path's target; else ""."""
    with contextlib.suppress(OSError):
        leaf = os.path.realpath(path)
        for spot in dict.fromkeys((*_spots(path), *_spots(leaf))):
            if reason := _why_spot(spot, os.lstat(spot), leaf=spot in {path, leaf}):
                return reason
    return ""


def _spots(path: str) -> Iterator[str]:
    parts = os.path.normpath(path).split("/")[1:]
    yield "/"
    yield from ("/" + "/".join(parts[: end + 1]) for end in range(len(parts)) if parts[end])


def _why_spot(spot: str, status: os.stat_result, *, leaf: bool) -> str:
    if status.st_uid not in _owners():
        return f"{spot} belongs to uid {status.st_uid}"
    # In a sticky folder others cannot rename foreign files; a link has no mode.
    sticky = bool(status.st_mode & stat.S_ISVTX) and not leaf
    if stat.S_ISLNK(status.st_mode) or sticky:
        return ""
    if status.st_mode & stat.S_IWOTH:
        return f"everybody can write {spot}"
    if status.st_mode & stat.S_IWGRP and _has_members(status.st_gid):
        return f"group {status.st_gid} can write {spot}"
    return ""


@functools.cache
def _owners() -> frozenset[int]:
    """Uids whose files root trusts. In a user namespace the host's root is an unmapped owner."""
    owners = {0, os.geteuid()}
    with contextlib.suppress(OSError), open("/proc/self/uid_map", encoding="ascii") as file:
        if file.read().split() != _WHOLE_MAP:
            owners.add(_UNMAPPED)
    return frozenset(owners)


@functools.cache
def _has_members(gid: int) -> bool:
    """Whether a group has other members than root, or is not in /etc/group."""
    if gid == 0:
        return False
    try:
        groups = [line.split(":") for line in _lines("/etc/group")]
        users = [line.split(":") for line in _lines("/etc/passwd")]
        members = [row[3] for row in groups if row[2] == str(gid)]
        primary = [row[0] for row in users if row[3] == str(gid) and row[2] != "0"]
    except (OSError, IndexError):
        return True
    names = {name for row in members for name in row.split(",") if name}
    return not members or bool(names - {"root"}) or bool(primary)


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line for line in file.read().splitlines() if line.strip()]
