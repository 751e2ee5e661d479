"""A recorded machine in memory, with a change laid over it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from ascend_doctor.machine.live import READ_LIMIT, FileStatus
from ascend_doctor.machine.recorded import RecordedCommand, Recording, ReplayMachine
from tests.machines.compose import MACHINES, composed, merged, spec, spread

_CHANGED = ("edit", "gone", "refused")


class ChangedMachine(ReplayMachine):
    """As ``ReplayMachine``, but nothing lies on disk."""

    def __init__(self, recording: Recording, files: dict[str, str]) -> None:
        self.recording = recording
        self.env = dict(recording.env)
        self.files = files
        self.refused: set[str] = set()
        self._children: dict[str, set[str]] | None = None
        self._commands = {one.name: one for one in recording.commands}

    @property
    def commands(self) -> dict[str, RecordedCommand]:
        return self._commands

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        self._permit(path)
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
        self._permit(path)
        resolved = self._resolve(path).rstrip("/")
        folders = self.recording.folders
        listed = folders.get(path, folders.get(resolved))
        found = set(self._below(resolved)) if listed is None else set(listed)
        if not found and listed is None:
            raise FileNotFoundError(path)
        return tuple(sorted(found))

    def _below(self, folder: str) -> set[str]:
        if self._children is None:
            self._children = _children(self)
        return self._children.get(folder, set())

    def known(self) -> tuple[str, ...]:
        """All paths that the recording has."""
        recording = self.recording
        return (*self.files, *recording.nodes, *recording.links, *recording.folders)

    def _permit(self, path: str) -> None:
        if path in self.refused:
            raise PermissionError(13, "Permission denied", path)

    def remove(self, path: str) -> None:
        """Take a path and all below it away, from the listing of its folder too."""
        self._children = None
        start = f"{path}/"
        for known in (self.files, self.recording.nodes, self.recording.links):
            for one in [one for one in known if one == path or one.startswith(start)]:
                del known[one]
        folders = self.recording.folders
        for one in [one for one in folders if one == path or one.startswith(start)]:
            del folders[one]
        folder, _, name = path.rpartition("/")
        if name in folders.get(folder, ()):
            folders[folder] = [one for one in folders[folder] if one != name]


def _children(of: ChangedMachine) -> dict[str, set[str]]:
    """Names by folder, of all that is known to exist."""
    found: dict[str, set[str]] = {}
    for path in of.known():
        folder, _, name = path.rpartition("/")
        while folder and name not in found.get(folder, ()):
            found.setdefault(folder, set()).add(name)
            folder, _, name = folder.rpartition("/")
    return found


@functools.cache
def _plain(name: str) -> dict[str, Any]:
    return spec(name)


@functools.cache
def _healthy(name: str) -> tuple[Recording, dict[str, str]]:
    recording, files = composed(_plain(name))
    return msgspec.convert(recording, Recording), files


def machine(name: str) -> ChangedMachine:
    """A machine of tests/machines, without any change."""
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


def changed(name: str, change: Mapping[str, Any]) -> ChangedMachine:
    """A machine with a change: what is gone first, then what is put there, then edits."""
    found = machine(name)
    for path, _ in spread(dict.fromkeys(change.get("gone", ()))):
        count = len(found.known())
        found.remove(path)
        assert len(found.known()) < count, f"{path} is not there"
    rest = {key: value for key, value in change.items() if key not in _CHANGED}
    if rest:
        found = _laid_over(name, found, rest)
    for path, words in spread(change.get("edit", {})):
        _edit(found, path, words)
    found.refused = set(change.get("refused", ()))
    return found


def _laid_over(name: str, below: ChangedMachine, change: Mapping[str, Any]) -> ChangedMachine:
    """Commands and packages are merged as machines are; gone files stay gone."""
    whole, files = composed(merged(_plain(name), change))
    recording = msgspec.convert(whole, Recording)
    added = dict(spread(change.get("files") or {}))
    texts = {path: text for path, text in files.items() if path in below.files or path in added}
    known = {
        key: {
            path: one
            for path, one in getattr(recording, key).items()
            if path in getattr(below.recording, key) or path in dict(spread(change.get(key) or {}))
        }
        for key in ("nodes", "links", "folders")
    }
    named = dict(spread(change.get("folders") or {}))
    known["folders"] = {
        path: one if path in named else below.recording.folders[path]
        for path, one in known["folders"].items()
    }
    return ChangedMachine(msgspec.structs.replace(recording, **known), texts)


def _edit(found: ChangedMachine, path: str, words: Mapping[str, str]) -> None:
    """Change words of a file or of what a command prints; each has to be there."""
    text = found.files[path] if path in found.files else found.commands[path].stdout
    for old, new in words.items():
        assert old in text, f"{old!r} is not in {path}"
        text = text.replace(old, new)
    if path in found.files:
        found.files[path] = text
    else:
        found.commands[path] = msgspec.structs.replace(found.commands[path], stdout=text)


def table(file: str) -> list[dict[str, Any]]:
    """A table of this folder."""
    place = MACHINES.parent / "level0" / f"{file}.yaml"
    loaded: list[dict[str, Any]] = yaml.load(place.read_text("utf-8"), Loader=yaml.CSafeLoader)
    return loaded
