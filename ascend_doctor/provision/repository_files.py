"""Reads a repository's files with GitPython, which starts no program here.

GitPython starts git when it is imported and by its default object database, and reads the
repository's configuration. Neither happens here: see ``_NoGit``, ``_Repo`` and ``_Objects``.
"""

import contextlib
import hashlib
import io
import logging
import os
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.provision.repository import BRANCHES, TAGS, Commit, Entry, GitFiles, ReadError

_LOCK = threading.Lock()


@contextlib.contextmanager
def _without_git_variables(**variables: str) -> Iterator[None]:
    """Hide GIT_DIR, GIT_OBJECT_DIRECTORY and others from GitPython."""
    with _LOCK:
        inherited = {name: text for name, text in os.environ.items() if name.startswith("GIT_")}
        for name in inherited:
            del os.environ[name]
        os.environ.update(variables)
        try:
            yield
        finally:
            for name in variables:
                del os.environ[name]
            os.environ.update(inherited)


# Its import runs `git version`; a program that cannot start fails quietly.
with _without_git_variables(GIT_PYTHON_GIT_EXECUTABLE=os.devnull, GIT_PYTHON_REFRESH="quiet"):
    import git
    from git.config import GitConfigParser
    from gitdb.base import OStream
    from gitdb.db import CompoundDB, LooseObjectDB, PackedDB
    from gitdb.exc import BadObject
    from gitdb.util import hex_to_bin

# It logs undecodable data with a traceback.
logging.getLogger("git").addHandler(logging.NullHandler())

_HASH = re.compile(r"[0-9a-f]{40}")
_OBJECT_LIMIT = 64 << 20  # bytes of a tree, a tag or a commit
_ALTERNATES_LIMIT = 1 << 20
_ALTERNATES_DEPTH = 5  # as git's
_REGULAR_FILE = 0o10


class _NoGit(git.Git):
    """Replaces GitPython's means to start git."""

    def execute(self, *_: object, **__: object) -> NoReturn:
        raise OSError("reading starts no git")


class _LooseObjects(LooseObjectDB):  # type: ignore[misc]  # gitdb has no types
    """Only loose objects in regular files; a pipe would never answer."""

    def readable_db_object_path(self, hexsha: bytes) -> str:
        path: str = self.db_path(self.object_path(hexsha))
        if not _is_regular(path):
            raise BadObject(hexsha)
        return path


class _Objects(CompoundDB):  # type: ignore[misc]  # as above
    """Objects of a folder and its alternates: whole, limited in size, hash checked."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self._dbs = [
            store
            for folder in _object_folders(root)
            for store in (_LooseObjects(folder), *_packs(os.path.join(folder, "pack")))
        ]

    def stream(self, sha: bytes) -> OStream:
        stream = super().stream(sha)
        if stream.size > _OBJECT_LIMIT:
            raise ReadError("git object", f"{sha.hex()} is larger than {_OBJECT_LIMIT >> 20} MiB")
        data = stream.read()
        whole = b"%s %d\0%s" % (stream.type, len(data), data)
        if hashlib.sha1(whole, usedforsecurity=False).digest() != sha:
            raise ReadError("git object", f"{sha.hex()} is damaged")
        return OStream(sha, stream.type, len(data), io.BytesIO(data))


class _Repo(git.Repo):
    """Reads neither the repository's configuration nor its includes."""

    GitCommandWrapperType = _NoGit

    def _config_reader(self, *_: object, **__: object) -> GitConfigParser:
        return GitConfigParser([], read_only=True)

    config_reader = _config_reader


@contextlib.contextmanager
def open_reader(files: GitFiles) -> "Iterator[FileReader]":
    _refuse_special_files(files)
    with _without_git_variables():
        repo = _Repo(files.git, odbt=_Objects, expand_vars=False)
    try:
        yield FileReader(repo)
    finally:
        repo.close()


class FileReader:
    """``Reader`` by GitPython."""

    def __init__(self, repo: git.Repo) -> None:
        self._repo = repo
        rows = git.SymbolicReference._iter_packed_refs(repo)  # noqa: SLF001 - else each ref reads it
        self._packed = {name: commit for commit, name in rows}

    def refs(self) -> dict[str, str]:
        refs = {}
        for kind in (git.Head, git.TagReference):
            for ref in kind.iter_items(self._repo):
                # git also leaves out refs with broken names or without an object.
                with contextlib.suppress(ValueError, BadObject):
                    refs[str(ref.path)] = self._peel(self._target(str(ref.path))).hexsha
        return refs

    def commit(self, name: str) -> Commit:
        try:
            commit = self._peel(self._resolve(name))
        except (BadObject, ValueError) as error:
            raise ReadError(str(self._repo.git_dir), f"there is no commit {name}") from error
        if not isinstance(commit, git.Commit):
            raise ReadError(str(self._repo.git_dir), f"{name} is not a commit")
        day = commit.committed_datetime.date().isoformat()
        return Commit(id=commit.hexsha, tree=commit.tree.hexsha, day=day)

    def entries(self, commit: Commit, path: str) -> list[Entry]:
        item: Any = git.Tree(self._repo, hex_to_bin(commit.tree), path="")
        for part in path.split("/"):
            if item.type != "tree":
                return []
            try:
                item = item.join(part)
            except KeyError:
                return []
        items = item.traverse() if item.type == "tree" else [item]
        return [
            Entry(str(blob.path), blob.hexsha)
            for blob in items
            if blob.type == "blob" and blob.mode >> 12 == _REGULAR_FILE
        ]

    def contents(self, entries: Sequence[Entry], limit: int) -> Iterator[bytes | None]:
        for entry in entries:
            sha = hex_to_bin(entry.id)
            small = self._repo.odb.info(sha).size <= limit
            yield self._repo.odb.stream(sha).read() if small else None

    def _resolve(self, name: str) -> str:
        if _HASH.fullmatch(name):
            return name
        names = (
            (name,)
            if name == "HEAD" or name.startswith("refs/")
            else (TAGS + name, BRANCHES + name)
        )
        for ref in names:
            with contextlib.suppress(ValueError):
                return self._target(ref)
        raise ValueError(name)

    def _target(self, ref: str) -> str:
        if ref in self._packed and not os.path.lexists(os.path.join(self._repo.common_dir, ref)):
            git.SymbolicReference._check_ref_name_valid(ref)  # noqa: SLF001 - as it does of others
            return self._packed[ref]
        return git.SymbolicReference.dereference_recursive(self._repo, ref)

    def _peel(self, commit: str) -> git.Object:
        item: Any = git.Object.new_from_sha(self._repo, hex_to_bin(commit))
        while item.type == "tag":
            item = git.Object.new_from_sha(self._repo, item.object.binsha)
        return item  # type: ignore[no-any-return]


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _refuse_special_files(files: GitFiles) -> None:
    """Raises ReadError for a pipe or device that GitPython would open: it may hang."""
    names = [os.path.join(files.git, name) for name in ("HEAD", "gitdir")]
    names.append(os.path.join(files.common, "packed-refs"))
    for folder, _, refs in os.walk(os.path.join(files.common, "refs")):
        names += (os.path.join(folder, ref) for ref in refs)
    for name in names:
        if os.path.exists(name) and not _is_regular(name):
            raise ReadError(name, "not a regular file")


def _packs(folder: str) -> list[PackedDB]:
    """A folder's packs. Raises ReadError for one that is not a file."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith((".pack", ".idx"))]
    except OSError:
        return []
    for name in names:
        if not _is_regular(os.path.join(folder, name)):
            raise ReadError(os.path.join(folder, name), "not a regular file")
    return [PackedDB(folder)] if names else []


def _object_folders(root: str) -> list[str]:
    """An object folder and its alternates (gitrepository-layout(5)), each once."""
    folders: list[str] = []
    level = [root]
    for _ in range(_ALTERNATES_DEPTH + 1):
        level = [folder for folder in dict.fromkeys(level) if folder not in folders]
        folders += level
        level = [alternate for folder in level for alternate in _alternates(folder)]
    return folders


def _alternates(folder: str) -> Iterator[str]:
    file = os.path.join(folder, "info", "alternates")
    if not os.path.lexists(file):
        return
    try:
        text = os.fsdecode(read_bytes(file, _ALTERNATES_LIMIT))
    except DataError as error:
        raise ReadError(folder, str(error)) from error
    for line in text.split("\n"):
        path = os.path.normpath(os.path.join(folder, line))
        if line and not line.startswith("#") and os.path.isdir(path):
            yield path
