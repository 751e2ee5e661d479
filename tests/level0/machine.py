"""A recorded machine in memory, with a change laid over it."""

import copy
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from ascend_doctor.machine.live import READ_LIMIT, FileStatus
from ascend_doctor.machine.recorded import RecordedCommand, Recording, ReplayMachine
from tests.machines.compose import MACHINES, compose, merge, spec, spread

_CHANGED = ("edit", "gone", "refused")


class ChangedMachine(ReplayMachine):
    """``ReplayMachine`` with nothing on disk."""

    def __init__(self, recording: Recording, files: dict[str, str]) -> None:
        self.recording = recording
        self.env = dict(recording.env)
        self.files = files
        self.refused: set[str] = set()
        self._children: dict[str, set[str]] | None = None
        self._commands = {
            recorded_command.name: recorded_command for recorded_command in recording.commands
        }

    @property
    def commands(self) -> dict[str, RecordedCommand]:
        return self._commands

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        self._permit(path, to_open=True)
        resolved = self._resolve(path)
        if resolved not in self.files:
            raise FileNotFoundError(path)
        return self.files[resolved][:limit]

    def status(self, path: str) -> FileStatus:
        self._permit(path)
        resolved = self._resolve(path).rstrip("/")
        node = self.recording.nodes.get(path) or self.recording.nodes.get(resolved)
        if node is not None:
            return node
        if resolved in self.files:
            size = len(self.files[resolved])
            return FileStatus(
                kind="file", mode="0644", uid=0, gid=0, size=size, target=resolved, writable=False
            )
        if resolved in self.recording.folders or self._below(resolved):
            return FileStatus(kind="directory", mode="0755", uid=0, gid=0, target=resolved)
        raise FileNotFoundError(path)

    def names(self, path: str) -> tuple[str, ...]:
        self._permit(path, to_open=True)
        resolved = self._resolve(path).rstrip("/")
        folders = self.recording.folders
        listed = folders.get(path, folders.get(resolved))
        names = set(self._below(resolved)) if listed is None else set(listed)
        if not names and listed is None:
            raise FileNotFoundError(path)
        return tuple(sorted(names))

    def _below(self, folder: str) -> set[str]:
        if self._children is None:
            self._children = _children(self)
        return self._children.get(folder, set())

    def known(self) -> tuple[str, ...]:
        recording = self.recording
        return (*self.files, *recording.nodes, *recording.links, *recording.folders)

    def _permit(self, path: str, *, to_open: bool = False) -> None:
        """What is refused may not be read or listed, and what lies below not even be seen."""
        for spelling in {path.rstrip("/"), self._resolve(path).rstrip("/")}:
            folders = itertools.accumulate(spelling.split("/"), "{}/{}".format)
            if any(f in self.refused and (to_open or f != spelling) for f in folders):
                raise PermissionError(13, "Permission denied", path)

    def remove(self, path: str) -> None:
        """Remove a path and all below it, also from its folder's listing."""
        self._children = None
        start = f"{path}/"
        for known in (self.files, self.recording.nodes, self.recording.links):
            for inner in [inner for inner in known if inner == path or inner.startswith(start)]:
                del known[inner]
        folders = self.recording.folders
        for inner in [inner for inner in folders if inner == path or inner.startswith(start)]:
            del folders[inner]
        folder, _, name = path.rpartition("/")
        if name in folders.get(folder, ()):
            folders[folder] = [child for child in folders[folder] if child != name]


def _children(of: ChangedMachine) -> dict[str, set[str]]:
    children: dict[str, set[str]] = {}
    for path in of.known():
        folder, _, name = path.rpartition("/")
        while folder and name not in children.get(folder, ()):
            children.setdefault(folder, set()).add(name)
            folder, _, name = folder.rpartition("/")
    return children


@functools.cache
def _plain(name: str) -> dict[str, Any]:
    return spec(name)


@functools.cache
def _healthy(name: str) -> tuple[Recording, dict[str, str]]:
    recording, files = compose(_plain(name))
    return msgspec.convert(recording, Recording), files


def machine(name: str) -> ChangedMachine:
    """An unchanged machine of tests/machines."""
    recording, files = _healthy(name)
    fresh = msgspec.structs.replace(
        recording,
        env=dict(recording.env),
        commands=list(recording.commands),
        nodes=dict(recording.nodes),
        folders=dict(recording.folders),
        links=dict(recording.links),
        values=copy.copy(recording.values),
    )
    return ChangedMachine(fresh, dict(files))


def change_machine(name: str, change: Mapping[str, Any]) -> ChangedMachine:
    """First what is gone, then what is put there, then edits."""
    altered = machine(name)
    for path, _ in spread(dict.fromkeys(change.get("gone", ()))):
        count = len(altered.known())
        altered.remove(path)
        assert len(altered.known()) < count, f"{path} is not there"
    rest = {key: value for key, value in change.items() if key not in _CHANGED}
    if rest:
        altered = _laid_over(name, altered, rest)
    for path, words in spread(change.get("edit", {})):
        _edit(altered, path, words)
    altered.refused = set(change.get("refused", ()))
    return altered


def _laid_over(name: str, below: ChangedMachine, change: Mapping[str, Any]) -> ChangedMachine:
    """Commands and packages merge as machines do; gone files stay gone."""
    whole, files = compose(merge(_plain(name), change))
    recording = msgspec.convert(whole, Recording)
    added = dict(spread(change.get("files") or {}))
    texts = {path: text for path, text in files.items() if path in below.files or path in added}
    known = {
        key: {
            path: content
            for path, content in getattr(recording, key).items()
            if path in getattr(below.recording, key) or path in dict(spread(change.get(key) or {}))
        }
        for key in ("nodes", "links", "folders")
    }
    named = dict(spread(change.get("folders") or {}))
    known["folders"] = {
        path: listing if path in named else below.recording.folders[path]
        for path, listing in known["folders"].items()
    }
    return ChangedMachine(msgspec.structs.replace(recording, **known), texts)


def _edit(machine: ChangedMachine, path: str, words: Mapping[str, str]) -> None:
    """Change words of a file or output; each must occur."""
    text = machine.files[path] if path in machine.files else machine.commands[path].stdout
    for old, new in words.items():
        assert old in text, f"{old!r} is not in {path}"
        text = text.replace(old, new)
    if path in machine.files:
        machine.files[path] = text
    else:
        machine.commands[path] = msgspec.structs.replace(machine.commands[path], stdout=text)


def table(file: str) -> list[dict[str, Any]]:
    path = MACHINES.parent / "level0" / f"{file}.yaml"
    loaded: list[dict[str, Any]] = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
    return loaded
