"""Files that a script sources: which of them matter here, and what they say."""

import os
import re
from collections.abc import Callable

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.facts import UNTOLD
from ascend_doctor.judging.spelling import slip_of
from ascend_doctor.machine.files import is_there, read_bytes, walk_folders

MOST_BYTES = 1 << 20
# Above a script.
_MOST_FOLDERS = 10
# They set paths, the prompt and user settings, nothing that a launch is judged by. set_env.sh
# is CANN's and NNAL's (facts of both layouts: paths and library folders only).
_NO_EFFECT = re.compile(
    r"(?:(?:ascend|cann|toolkit|nnal|nnae|atb|driver)[^\s]*/(?:set_env|setenv)\.(?:sh|bash))"
    r"|(?:^|/)(?:activate|\.bashrc|\.bash_profile|\.profile|profile|conda\.sh|bashrc)$"
    r"|<\(\s*ascend-doctor env\b",
    re.IGNORECASE,
)
_SCRIPT = r"\"?\$\{?(?:0|BASH_SOURCE(?:\[0\])?)\}?\"?"
_REAL = rf"\"?\$\((?:realpath|readlink -f)\s+{_SCRIPT}\)\"?"
_DIRNAME = rf"\$\(\s*dirname\s+(?:--\s+)?(?:{_SCRIPT}|{_REAL})\s*\)"
_QUIET = r"(?:>\s*/dev/null\s*)?(?:2>&1\s*)?"
_FOLDER = re.compile(
    rf"{_DIRNAME}"
    rf"|\$\(\s*cd\s+(?:--\s+)?\"?{_DIRNAME}\"?\s*{_QUIET}&&\s*pwd(?:\s+-P)?\s*\)"
    r"|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}"
)


class SourcedFile(msgspec.Struct, frozen=True):
    """A file of shell commands; ``name`` is empty for the script itself."""

    name: str
    content: bytes


def changes_nothing(target: str) -> bool:
    """Whether sourcing this file changes nothing that a launch is judged by."""
    return _NO_EFFECT.search(target) is not None


def folder_of_script(expression: str) -> bool:
    """Whether an expression is the folder of its script."""
    return _FOLDER.fullmatch(expression.strip()) is not None


def follower(script: str) -> Callable[[str], SourcedFile | None]:
    """Reads files that ``script`` sources: by a relative path, beside it or here."""
    beside = os.path.dirname(script)

    def follow(target: str) -> SourcedFile | None:
        if os.path.isabs(target):
            return None
        paths = dict.fromkeys((os.path.join(beside, target), target))
        read = (read_source(os.path.normpath(path)) for path in paths)
        return next((source for source in read if source is not None), None)

    return follow


def read_source(name: str) -> SourcedFile | None:
    """The file of this name; None if unreadable or too long."""
    try:
        content = read_bytes(name, MOST_BYTES)
    except DataError:
        return None
    return SourcedFile(name, content.replace(b"\r\n", b"\n"))


def find_above(script: str, target: str) -> str:
    """A relative path's file in a folder above a script, or the current one; else ""."""
    if os.path.isabs(target) or not target:
        return ""
    here = os.getcwd()
    folder = os.path.dirname(os.path.abspath(script))
    for _ in range(_MOST_FOLDERS):
        name = os.path.normpath(os.path.join(folder, target))
        if os.path.isfile(name):
            return name if os.path.isabs(script) else os.path.relpath(name, here)
        folder = os.path.dirname(folder)
    return os.path.normpath(target) if os.path.isfile(target) else ""


def is_missing(script: str, folder: str, name: str) -> bool:
    """Whether a file that a script names is not there; ``folder`` is that of a ShellCommand."""
    path = os.path.join(folder, name)
    if UNTOLD in path or not is_there(script):
        return False
    beside = os.path.dirname(script)
    if os.path.isabs(name) or folder[:1] in {".", "/"}:
        path = os.path.join(beside, path)
        return is_there(os.path.dirname(path)) and not is_there(path)
    if find_above(script, path):
        return False
    _, names = next(walk_folders(beside or "."), ("", []))
    parent = os.path.dirname(path)
    there = bool(parent) and any(is_there(os.path.join(base, parent)) for base in (beside, ""))
    return there or bool(slip_of(path, names))
