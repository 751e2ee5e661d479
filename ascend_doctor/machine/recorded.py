"""Recorded machines: written, replayed, and laid over the live one.

A recorded machine is a folder with ``machine.yaml`` and a tree ``root/`` of the files that were
read.
"""

import contextlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.live import (
    READ_LIMIT,
    Completed,
    FileStatus,
    Machine,
    NotRecorded,
    ProgramMissing,
    kind_of,
)
from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.redact.trees import RedactedTree

_ANSWER = ("exit_code", "stdout", "stderr", "timed_out", "truncated")


class RecordedCommand(Completed, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recorded command. ``stdout_file`` is a file beside it that replaces ``stdout``."""

    name: str
    stdout_file: str | None = None
    missing: bool = False


class Recording(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """``machine.yaml`` of a recorded machine.

    ``origin`` states the true source. ``nodes`` are paths whose status cannot lie in ``root/``
    (devices, owners, modes); ``folders`` listings; ``values`` answers by key; ``links`` targets
    by path. ``python`` is the requested interpreter, "" for the active environment's.
    """

    schema: int = 1
    origin: str
    python: str = ""
    env: dict[str, str] = {}
    commands: list[RecordedCommand] = []
    nodes: dict[str, FileStatus] = {}
    folders: dict[str, list[str]] = {}
    links: dict[str, str] = {}
    values: dict[str, Any] = {}


class ReplayMachine:
    """A recorded machine. Unrecorded things do not exist on it."""

    def __init__(self, folder: Path) -> None:
        path = folder / "machine.yaml"
        if not path.exists():
            raise DataError(f"{folder}: no machine.yaml in it; `check --record` writes one")
        try:
            self.recording = msgspec.convert(read_yaml(path), Recording)
        except (DataError, msgspec.ValidationError) as error:
            why = str(error).removeprefix(f"{path}: ")
            raise DataError(f"{path}: not a recorded machine: {why}") from error
        if self.recording.schema != 1:
            raise DataError(f"{path}: schema {self.recording.schema} is newer than this doctor")
        self.folder = folder
        self.env: Mapping[str, str] = dict(self.recording.env)
        self._commands = {command.name: command for command in self.recording.commands}

    def run(self, argv: list[str], *, name: str = "", **_: Any) -> Completed:
        command = self._commands.get(name or shlex.join(argv))
        if command is None or command.missing:
            raise ProgramMissing(f"{argv[0]}: not on the recorded machine")
        if command.stdout_file is not None:
            stdout = self._inside(command.stdout_file).read_text("utf-8")
            command = msgspec.structs.replace(command, stdout=stdout)
        return msgspec.structs.replace(command, exit_code=None) if command.timed_out else command

    def _resolve(self, path: str) -> str:
        # Links of a foreign recording may form a circle.
        for _ in range(16):
            parts = path.split("/")
            for size in range(len(parts), 1, -1):
                link = self.recording.links.get("/".join(parts[:size]))
                if link is not None:
                    path = "/".join([link, *parts[size:]])
                    break
            else:
                return path
        raise OSError(f"{path}: too many links")

    def _inside(self, path: str) -> Path:
        """A path inside the recording's folder only."""
        resolve = (self.folder / path).resolve()
        if not resolve.is_relative_to(self.folder.resolve()):
            raise DataError(f"{self.folder}: {path!r} leads out of the recording")
        return resolve

    def _file(self, path: str) -> Path:
        return self._inside(f"root/{self._resolve(path).lstrip('/')}")

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        return self._file(path).read_bytes()[:limit].decode("utf-8", "replace")

    def status(self, path: str) -> FileStatus:
        resolved = self._resolve(path)
        node = self.recording.nodes.get(path) or self.recording.nodes.get(resolved)
        if node is not None:
            return node
        if resolved in self.recording.folders:
            return FileStatus(kind="directory", mode="0755", uid=0, gid=0, target=resolved)
        stat = self._file(path).stat()
        kind = kind_of(stat.st_mode)
        mode = "0755" if kind == "directory" else "0644"
        return FileStatus(
            kind=kind, mode=mode, uid=0, gid=0, size=stat.st_size, target=resolved, writable=False
        )

    def names(self, path: str) -> tuple[str, ...]:
        resolved = self._resolve(path).rstrip("/")
        listed = self.recording.folders.get(path) or self.recording.folders.get(resolved)
        if listed is not None:
            return tuple(sorted(listed))
        names = set()
        if (folder := self._file(path)).is_dir():
            names = {entry.name for entry in folder.iterdir()}
        known: Iterable[str] = (*self.recording.nodes, *self.recording.links)
        names |= {path.rpartition("/")[2] for path in known if path.rpartition("/")[0] == resolved}
        if not names:
            raise FileNotFoundError(path)
        return tuple(sorted(names))

    def value(self, key: str, ask: Callable[[], Any]) -> Any:  # noqa: ARG002 - nothing is asked
        if key not in self.recording.values:
            raise NotRecorded(f"{key}: not recorded")
        return self.recording.values[key]


class OverlayMachine:
    """The ``front`` machine if it has an answer, else the one behind it.

    A simulated machine is a recorded one in front of the live one. ``env`` is the examined
    environment.
    """

    def __init__(self, front: ReplayMachine, behind: Machine, env: Mapping[str, str]) -> None:
        self.front = front
        self.behind = behind
        self.env: Mapping[str, str] = dict(env)

    def run(
        self, argv: list[str], *, name: str = "", env: Mapping[str, str] | None = None, **how: Any
    ) -> Completed:
        try:
            return self.front.run(argv, name=name)
        except ProgramMissing:
            variables = self.env if env is None else env
            return self.behind.run(argv, name=name, env=variables, **how)

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        try:
            return self.front.read(path, limit=limit)
        except OSError:
            return self.behind.read(path, limit=limit)

    def status(self, path: str) -> FileStatus:
        try:
            return self.front.status(path)
        except OSError:
            return self.behind.status(path)

    def names(self, path: str) -> tuple[str, ...]:
        names: set[str] = set()
        for machine in (self.front, self.behind):
            with contextlib.suppress(OSError):
                names.update(machine.names(path))
        if not names:
            return self.behind.names(path)
        return tuple(sorted(names))

    def value(self, key: str, ask: Callable[[], Any]) -> Any:
        try:
            return self.front.value(key, ask)
        except NotRecorded:
            return self.behind.value(key, ask)


class RecordingMachine:
    """Forwards every question and keeps question and answer; ``save`` writes them."""

    def __init__(self, inner: Machine) -> None:
        self.inner = inner
        self.env = inner.env
        self._commands: dict[str, RecordedCommand] = {}
        self._nodes: dict[str, FileStatus] = {}
        self._folders: dict[str, list[str]] = {}
        self._files: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def run(self, argv: list[str], *, name: str = "", **how: Any) -> Completed:
        key = name or shlex.join(argv)
        try:
            done = self.inner.run(argv, name=name, **how)
        except ProgramMissing:
            self._commands[key] = RecordedCommand(name=key, missing=True)
            raise
        # The time that it took is of this run alone.
        answer = {name: getattr(done, name) for name in _ANSWER}
        self._commands[key] = RecordedCommand(name=key, **answer)
        return done

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        self._files[path] = text = self.inner.read(path, limit=limit)
        return text

    def status(self, path: str) -> FileStatus:
        self._nodes[path] = status = self.inner.status(path)
        return status

    def names(self, path: str) -> tuple[str, ...]:
        names = self.inner.names(path)
        self._folders[path] = list(names)
        return names

    def value(self, key: str, ask: Callable[[], Any]) -> Any:
        self._values[key] = answer = self.inner.value(key, ask)
        return answer

    def save(
        self,
        folder: Path,
        *,
        origin: str,
        python: str,
        clean: Callable[[str], str],
        env: Mapping[str, str],
    ) -> None:
        """Write the recording. Every text passes ``clean``; ``env`` is what may be kept.

        Raises DataError for a folder that is unwritable or not empty.
        """
        import yaml

        recording = Recording(
            origin=origin,
            python=python,
            env=dict(env),
            commands=list(self._commands.values()),
            nodes=self._nodes,
            folders=self._folders,
            values=self._values,
        )
        plain = RedactedTree(clean).cleaned(msgspec.to_builtins(recording))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise DataError(f"{folder}: not empty; give a new folder for the recording")
            for path, text in self._files.items():
                copy = folder / "root" / clean(path).lstrip("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(clean(text), "utf-8", newline="")
            text = yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
            (folder / "machine.yaml").write_text(text, "utf-8")
        except OSError as error:
            raise DataError(f"{folder}: cannot write the recording: {error.strerror}") from error
