"""What a file launches, as facts that checks judge."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from ascend_doctor.collect.environment import misspelt
from ascend_doctor.collect.launch import Said, launch, read_options, takes_value
from ascend_doctor.facts import UNTOLD, Environment, Launch, Script, Spot
from ascend_doctor.findings import Place
from ascend_doctor.linting.bash import ShellCommand, commands, launches, option_lists
from ascend_doctor.linting.documents import containers, hydra, leaves
from ascend_doctor.linting.positioned_text import Piece, Word
from ascend_doctor.linting.python import script
from ascend_doctor.linting.sourcing import SourcedFile, follower
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.matrix.catalog import Catalog

MOST_BYTES = 4 << 20
_YAML = (".yaml", ".yml")
_PYTHON = (".py",)


class LintInput(msgspec.Struct, frozen=True, kw_only=True):
    """One launch, one set of variables, or one Python file."""

    file: str
    launch: Launch | None = None
    environment: Environment | None = None
    script: Script | None = None


def read(path: str) -> bytes:
    """The content of a file. Raises DataError."""
    return read_bytes(path, MOST_BYTES)


def subjects(path: str, content: bytes, catalog: Catalog) -> tuple[LintInput, ...]:
    """What there is to judge in a file, by its ending and its content. Never raises."""
    ending = os.path.splitext(path)[1].lower()
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    if ending in _PYTHON or text.startswith("#!/usr/bin/env python"):
        inputs = script(text, path)
        return (LintInput(file=path, script=inputs),) if inputs is not None else ()
    if ending in _YAML:
        return tuple(_documents(path, text, catalog))
    return tuple(_shell(path, content.replace(b"\r\n", b"\n"), catalog, follow=follower(path)))


def of_command(words: Iterable[str], catalog: Catalog) -> LintInput:
    """A command that was given on the command line, as the shell has split it."""
    column, found = 1, []
    for word in words:
        found.append(Word(word, 1, column))
        column += len(word) + 1
    command = ShellCommand(tuple(found), {}, {}, open=False)
    return _subject("command", command, catalog, lambda line, column: (line, column))


Moved = Callable[[int, int], tuple[int, int]]


def _shell(
    file: str,
    content: bytes,
    catalog: Catalog,
    moved: Moved = lambda line, column: (line, column),
    variables: Mapping[str, Word] | None = None,
    follow: Callable[[str], SourcedFile | None] = lambda _: None,
) -> Iterator[LintInput]:
    """``moved`` gives the places of the script in its file; ``variables`` come from outside."""
    shell_commands = commands(content, follow)
    some = False
    for command in launches(shell_commands):
        some = True
        yield _subject(file, command, catalog, moved, variables)
    if not some and shell_commands:
        # A file that only sets variables is sourced by others.
        last = max(shell_commands, key=lambda command: len(command.exported))
        yield _subject(file, ShellCommand((), last.exported, {}, open=True), catalog, moved)


def _documents(file: str, text: str, catalog: Catalog) -> Iterator[LintInput]:
    for document in leaves(text) or ():
        pods = containers(document)
        for pod in pods:
            if pod.variables or pod.words:
                command = ShellCommand(pod.words, pod.variables, {}, open=not pod.words)
                yield _subject(file, command, catalog, lambda line, column: (line, column))
            for leaf in pod.scripts:
                yield from _shell(
                    file,
                    leaf.text.encode("utf-8", "replace"),
                    catalog,
                    # A block begins on the line after its mark.
                    lambda line, column, leaf=leaf: (  # type: ignore[misc]
                        (leaf.line + line, column) if leaf.block else (leaf.line, leaf.column)
                    ),
                    pod.variables,
                )
        if not pods:
            words = (Word("verl.config", 1, 1), *hydra(document))
            subject = _subject(
                file,
                ShellCommand(words, {}, {}, open=True),
                catalog,
                lambda line, column: (line, column),
            )
            if subject.launch is not None and subject.launch.options:
                yield subject


def _subject(
    file: str,
    command: ShellCommand,
    catalog: Catalog,
    moved: Moved,
    outer: Mapping[str, Word] | None = None,
) -> LintInput:
    texts = [word.text for word in command.words]
    launch_ = launch(texts, partial=command.open) if texts else Launch(given=False)
    if not launch_.program and texts and texts[0] == "verl.config":
        launch_ = msgspec.structs.replace(launch_, program="verl")
    places: dict[str, Place] = {}

    def place(piece: Word | Piece) -> Place:
        if piece.file:
            return Place(file=piece.file, line=piece.line, column=piece.column)
        line, column = moved(piece.line, piece.column)
        return Place(file=file, line=line, column=column)

    options = read_options(texts)
    for name, option in options.items():
        places[name] = place(command.words[option.word])
    for word in command.words:
        if word.text.startswith("--"):
            places[word.text.split("=")[0]] = place(word)
    for name, value in command.exported.items():
        places[name] = place(value)
    exported = {**(outer or {}), **command.exported}
    for name, value in (outer or {}).items():
        places.setdefault(name, Place(file=file, line=value.line, column=value.column))
    path = exported.get("PYTHONPATH")
    lost = {name: word for name, word in command.own.items() if name in _read_by_training(catalog)}
    for name, value in lost.items():
        places.setdefault(name, place(value))
    launch_ = msgspec.structs.replace(
        launch_,
        places=places,
        open_environment=bool(command.sourced),
        unresolved=tuple(_unknown_spots(command, options, place)),
        pythonpath=path.text if path is not None else "",
        unexported=tuple(lost) if launch_.given else (),
    )
    return LintInput(file=file, launch=launch_, environment=_environment(file, exported, catalog))


def _unknown_spots(
    command: ShellCommand, given: Mapping[str, Said], place: Callable[[Piece], Place]
) -> Iterator[Spot]:
    """The expressions in a command that only its shell knows, each with the option it gives."""
    options = {option.word: name for name, option in given.items()}
    lists = option_lists(command.words)
    asked: dict[Piece, str] = {}
    for number, word in enumerate(command.words):
        before = command.words[number - 1].text if number else ""
        name = options.get(number) or (options.get(number - 1, "") if takes_value(before) else "")
        if name or word in lists:
            asked |= {piece: name for piece in word.unresolved if piece not in asked}
    asked |= {piece: "" for piece in command.sourced if piece not in asked}
    for piece, name in asked.items():
        yield Spot(name=piece.source, argument=name, place=place(piece))


def _read_by_training(catalog: Catalog) -> set[str]:
    """The variables that scripts set for nothing but the training."""
    groups = {"hccl", "torch_npu", "cann", "visible_devices", "atb"}
    return {variable.name for variable in catalog.variables.variables if variable.group in groups}


def _environment(file: str, exported: Mapping[str, Word], catalog: Catalog) -> Environment:
    """The variables that the matrix knows; a value that only the shell knows is withheld."""
    table = catalog.variables
    shown = {variable.name for variable in table.variables}
    near = {miss.wrong: miss.right for miss in table.near_misses}
    return Environment(
        source=file,
        variables={
            name: word.text
            for name, word in exported.items()
            if name in shown and UNTOLD not in word.text
        },
        withheld=tuple(name for name, word in exported.items() if UNTOLD in word.text),
        misspelt=misspelt(tuple(exported), near),
    )
