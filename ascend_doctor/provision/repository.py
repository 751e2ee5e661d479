"""The door for reading local repositories: refs, commits and files. Nothing of them is started.

GitPython reads their files (``repository_files``). The isolated git (``repository_git``) reads what
GitPython does not know: SHA-256, reftable, and names that it refuses.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.provision.running import CommandError, Runner

T = TypeVar("T")
BRANCHES, TAGS = "refs/heads/", "refs/tags/"
_FILE_LIMIT = 1 << 20  # bytes of .git, commondir and config
# Extensions that change how refs and objects are read (git-config(1)).
_FORMAT = re.compile(
    r"^\s*(objectformat|refstorage)\s*=\s*(sha256|reftable)\s*$", re.IGNORECASE | re.MULTILINE
)


class ReadError(CommandError):
    """A repository, name or file cannot be read."""


class GitRef(msgspec.Struct, frozen=True, kw_only=True):
    """A tag or, ``moving``, a branch of a repository."""

    name: str
    commit: str
    moving: bool


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """``day`` is the committer's (ISO 8601)."""

    id: str
    tree: str
    day: str


class Entry(NamedTuple):
    path: str
    id: str


class GitFiles(msgspec.Struct, frozen=True, kw_only=True):
    """``git`` has HEAD, ``common`` refs and objects; they differ in worktrees.

    GitPython does not know the extensions in ``formats``.
    """

    git: str
    common: str
    formats: Mapping[str, str]


class Reader(Protocol):
    """All methods raise ReadError."""

    def refs(self) -> Mapping[str, str]:
        """Commits by the full names of tags and branches."""

    def commit(self, name: str) -> Commit:
        """The commit of HEAD, a tag, a branch, a full ref or a whole hash."""

    def entries(self, commit: Commit, path: str) -> Sequence[Entry]:
        """The regular files at or below a path; none if the commit lacks it."""

    def contents(self, entries: Sequence[Entry], limit: int) -> Iterator[bytes | None]:
        """The content of each file, None above ``limit`` bytes."""


@dataclass(frozen=True, kw_only=True)
class LocalRepository:
    """A clone, a worktree or a bare repository. Every method raises ReadError."""

    folder: Path
    runner: Runner = field(default_factory=Runner)

    def refs(self) -> tuple[GitRef, ...]:
        """Tags and branches by name, annotated tags as their commits."""
        refs = self._ask(lambda reader: reader.refs())
        return tuple(
            GitRef(name=name.removeprefix(kind), commit=commit, moving=kind == BRANCHES)
            for name, commit in sorted(refs.items())
            for kind in (BRANCHES, TAGS)
            if name.startswith(kind)
        )

    def commit(self, name: str) -> Commit:
        return self._ask(lambda reader: reader.commit(name))

    def days(self, commits: Sequence[str]) -> dict[str, str]:
        """The day of each commit, without names of no commit."""

        def ask(reader: Reader) -> dict[str, str]:
            days = {}
            for commit in commits:
                with contextlib.suppress(ReadError):
                    days[commit] = reader.commit(commit).day
            return days

        return self._ask(ask)

    def text(self, name: str, path: str) -> str:
        texts = self.texts(name, (path,))
        if path not in texts:
            raise ReadError(str(self.folder), f"{name} has no file {path}")
        return texts[path]

    def texts(
        self, name: str, paths: Sequence[str], *, ending: str = "", limit: int = _FILE_LIMIT
    ) -> dict[str, str]:
        """Files at or below each path that end with ``ending``, without larger ones."""

        def ask(reader: Reader) -> dict[str, str]:
            commit = reader.commit(name)
            entries: list[Entry] = []
            for path in paths:
                files = reader.entries(commit, path)
                if not files:
                    raise ReadError(str(self.folder), f"{name} has no {path}")
                entries += (entry for entry in files if entry.path.endswith(ending))
            contents = reader.contents(entries, limit)
            return {
                entry.path: content.decode("utf-8", "replace")
                for entry, content in zip(entries, contents, strict=True)
                if content is not None
            }

        return self._ask(ask)

    def _ask(self, question: Callable[[Reader], T]) -> T:
        from ascend_doctor.provision import repository_git

        files = locate(self.folder)
        if not files.formats:
            from ascend_doctor.provision import repository_files

            try:
                with repository_files.open_reader(files) as reader:
                    return question(reader)
            except ReadError:
                raise
            except Exception:  # noqa: BLE001, S110 - git itself reads what GitPython refuses
                pass
        with repository_git.open_reader(files, self.runner) as reader:
            return question(reader)


def locate(folder: Path) -> GitFiles:
    """Raises ReadError for a folder that is not a repository."""
    root = str(folder.absolute())
    git = os.path.join(root, ".git")
    try:
        if os.path.isfile(git):
            git = _link(git, "gitdir: ")
        elif not os.path.isdir(git):
            git = root
        common_file = os.path.join(git, "commondir")
        common = _link(common_file, "") if os.path.lexists(common_file) else git
        parts = (os.path.join(git, "HEAD"), os.path.join(common, "objects"))
        if not os.path.isfile(parts[0]) or not os.path.isdir(parts[1]):
            raise ReadError(root, "not a git repository")
        config = os.path.join(common, "config")
        text = os.fsdecode(read_bytes(config, _FILE_LIMIT)) if os.path.lexists(config) else ""
    except DataError as error:
        raise ReadError(root, str(error)) from error
    formats = {name.lower(): value.lower() for name, value in _FORMAT.findall(text)}
    return GitFiles(git=git, common=common, formats=formats)


def _link(file: str, prefix: str) -> str:
    text = os.fsdecode(read_bytes(file, _FILE_LIMIT)).rstrip("\r\n")
    if not text.startswith(prefix) or text == prefix:
        raise DataError(f"{file}: names no folder")
    return os.path.normpath(os.path.join(os.path.dirname(file), text.removeprefix(prefix)))
