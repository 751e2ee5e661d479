"""The state of a git checkout, read from its files: git itself refuses those of other users."""

import os
import re
from collections.abc import Iterator

from ascend_doctor.collect.package_copies import is_installed
from ascend_doctor.errors import DoctorError
from ascend_doctor.facts import GitState
from ascend_doctor.machine.isolated_git import GitFolder, converts
from ascend_doctor.machine.live import (
    Machine,
    NotRecorded,
    ProgramMissing,
    exists,
    is_directory,
    read_or_none,
)
from ascend_doctor.patterns import defer, patterns_of

STATUS_DEADLINE = 10.0
_COMMIT, _SHORT = patterns_of(__file__)
# A line with ^ has the commit of the annotated tag above it.
_PACKED = defer(rf"^({_COMMIT.pattern}) (refs/\S+)$|^\^({_COMMIT.pattern})$", re.MULTILINE)
_UNMERGED = defer(r"^(?:.U|U.|AA|DD) (.+)$", re.MULTILINE)  # git-status(1)
_LOOSE_LIMIT = 1000
# git status works only for SHA-1 repositories: the folder made for it has no other format.
_SHA1 = 40


def parse_head(text: str) -> tuple[str | None, str | None]:
    """(ref, commit) of a HEAD or loose ref file; one of them, or none."""
    first = (text.splitlines() or [""])[0].strip()
    if first.startswith("ref: ") and not first.endswith("/.invalid"):  # git-reftable(5) puts it
        return first.removeprefix("ref: ").strip() or None, None
    return None, first if _COMMIT.fullmatch(first) else None


def parse_packed_refs(text: str) -> dict[str, str]:
    """Commit by ref of ``packed-refs``; for an annotated tag, its target commit."""
    packed_refs: dict[str, str] = {}
    ref = ""
    for commit, name, peeled in _PACKED.findall(text):
        if name:
            ref, packed_refs[name] = name, commit
        elif ref:
            packed_refs[ref] = peeled
    return packed_refs


def checkout(machine: Machine, path: str) -> GitState | None:
    """The checkout around a file or folder; None without one, and for what pip installed."""
    root = _root(machine, path)
    if root is None:
        return None
    git = _link_target(machine, f"{root}/.git", "gitdir: ") or f"{root}/.git"
    common = _link_target(machine, f"{git}/commondir", "") or git
    refs = parse_packed_refs(read_or_none(machine, f"{common}/packed-refs") or "")
    refs |= {ref: commit for ref, commit in _loose(machine, common) if commit}
    ref, commit = parse_head(read_or_none(machine, f"{git}/HEAD") or "")
    commit = commit or refs.get(ref or "")
    names = (
        short.group(1)
        for name, target in refs.items()
        if target == commit and (short := _SHORT.fullmatch(name))
    )
    changes = _changes(machine, GitFolder(root=root, git=git, common=common, commit=commit or ""))
    return GitState(
        root=root,
        commit=commit,
        branch=ref.removeprefix("refs/heads/") if ref else None,
        refs=tuple(sorted(set(names) - {"HEAD"})),
        dirty=None if changes is None else bool(changes),
        unmerged=tuple(_UNMERGED.findall(changes or "")),
    )


def _root(machine: Machine, path: str) -> str | None:
    """The nearest folder with ``.git``. An environment inside a checkout does not belong to it."""
    try:
        folder = machine.status(path).target or path
    except OSError:
        return None
    while folder not in ("", "/") and not is_installed(folder):
        if exists(machine, f"{folder}/.git"):
            return folder
        folder = os.path.dirname(folder)
    return None


def _link_target(machine: Machine, file: str, prefix: str) -> str | None:
    text = (read_or_none(machine, file) or "").strip()
    if not text.startswith(prefix) or not text.removeprefix(prefix):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(file), text.removeprefix(prefix)))


def _loose(machine: Machine, git: str) -> Iterator[tuple[str, str | None]]:
    waiting, left = ["refs/tags", "refs/heads", "refs/remotes"], _LOOSE_LIMIT
    while waiting and left:
        folder = waiting.pop(0)
        try:
            names = machine.names(f"{git}/{folder}")
        except OSError:
            continue
        for name in names[:left]:
            left -= 1
            ref = f"{folder}/{name}"
            if is_directory(machine, f"{git}/{ref}"):
                waiting.append(ref)
            else:
                yield ref, parse_head(read_or_none(machine, f"{git}/{ref}") or "")[1]


def _changes(machine: Machine, there: GitFolder) -> str | None:
    """How tracked files differ from the commit. Skips other users' checkouts, as git does."""
    try:
        mine = machine.status(there.root).uid == machine.value("uid", os.geteuid)
    except (OSError, NotRecorded):
        mine = True  # a recorded machine runs nothing
    if not mine or len(there.commit) != _SHA1:
        return None
    env = {name: value for name, value in machine.env.items() if not name.startswith("GIT_")}
    try:
        with there.status() as command:
            done = machine.run(
                command.argv,
                deadline=STATUS_DEADLINE,
                name=f"git status {there.root}",
                env={**env, **command.env},
            )
    except (ProgramMissing, DoctorError):
        return None
    if done.exit_code != 0:
        return None
    files = (f"{there.common}/config", f"{there.root}/.gitattributes")
    changes = done.stdout.strip("\n ")
    converted = changes and any(converts(read_or_none(machine, file) or "") for file in files)
    return None if converted and not _UNMERGED.search(changes) else changes
