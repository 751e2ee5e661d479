"""Reads a repository with git, which gets a folder of ours: refs and objects, no configuration."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ascend_doctor.machine.isolated_git import read_environment
from ascend_doctor.provision.repository import BRANCHES, TAGS, Commit, Entry, GitFiles, ReadError
from ascend_doctor.provision.running import CommandError, Runner

_DEADLINE = 600.0
_REGULAR_FILES = ("100644", "100755")


@contextlib.contextmanager
def open_reader(files: GitFiles, runner: Runner) -> "Iterator[GitReader]":
    with read_environment(files.git, files.common, files.formats) as env:
        yield GitReader(runner, files.git, env)


class GitReader(msgspec.Struct, frozen=True):
    runner: Runner
    repository: str
    env: Mapping[str, str]

    def refs(self) -> dict[str, str]:
        names = self._run("for-each-ref", "--format=%(refname)", BRANCHES, TAGS).split()
        peeled = self._run(
            "cat-file", "--batch-check", data=b"".join(b"%s^{}\n" % name for name in names)
        )
        return {
            os.fsdecode(name): answer.split()[0].decode()
            for name, answer in zip(names, peeled.splitlines(), strict=True)
            if not answer.endswith(b" missing")  # GitPython's reader leaves these out, too
        }

    def commit(self, name: str) -> Commit:
        if name.startswith("-"):
            raise ReadError(self.repository, f"there is no commit {name}")
        text = self._run(
            "log", "-1", "--date=short", "--format=%H %T %cd", f"{name}^{{commit}}", "--"
        )
        commit, tree, day = text.decode().split()
        return Commit(id=commit, tree=tree, day=day)

    def entries(self, commit: Commit, path: str) -> list[Entry]:
        rows = self._run("ls-tree", "-r", "-z", "--full-tree", commit.id, "--", path).split(b"\0")
        entries = []
        for row in filter(None, rows):
            facts, _, name = row.partition(b"\t")
            mode, _, blob = facts.decode().split()
            if mode in _REGULAR_FILES:
                entries.append(Entry(os.fsdecode(name), blob))
        return entries

    def contents(self, entries: Sequence[Entry], limit: int) -> Iterator[bytes | None]:
        ids = "".join(f"{entry.id}\n" for entry in entries).encode()
        sizes = [
            int(row.split()[2])
            for row in self._run("cat-file", "--batch-check", data=ids).splitlines()
        ]
        rows = zip(entries, sizes, strict=True)
        small = "".join(f"{entry.id}\n" for entry, size in rows if size <= limit).encode()
        output, start = self._run("cat-file", "--batch", data=small), 0
        for size in sizes:
            if size > limit:
                yield None
                continue
            start = output.index(b"\n", start) + 1  # behind the line with hash, type and size
            yield output[start : start + size]
            start += size + 1

    def _run(self, *arguments: str, data: bytes | None = None) -> bytes:
        if data == b"":
            return b""
        try:
            return self.runner.output(
                ["git", *arguments],
                title=f"git {arguments[0]}",
                deadline=_DEADLINE,
                env=self.env,
                data=data or b"",
            )
        except CommandError as error:
            raise ReadError(self.repository, error.output) from error
