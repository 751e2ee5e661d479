"""What a file launches, as facts that checks judge."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from ascend_doctor.checks.launch.variables import COMMON
from ascend_doctor.collect.launch import Said, find_absent, launch, read_options, takes_value
from ascend_doctor.errors import DataError, Unknown
from ascend_doctor.facts import (
    UNTOLD,
    Environment,
    Launch,
    Pods,
    Script,
    ShellMark,
    ShellScript,
    Spot,
)
from ascend_doctor.findings import Place
from ascend_doctor.judging.spelling import variable_meant
from ascend_doctor.linting.allocations import find_step_faults, read_job
from ascend_doctor.linting.bash import ShellCommand, commands, launches, option_lists
from ascend_doctor.linting.config_files import find_config_files, is_configured, names_configuration
from ascend_doctor.linting.documents import Leaf, hydra, is_of_verl, leaves
from ascend_doctor.linting.positioned_text import Piece, Word, spelt
from ascend_doctor.linting.python import script, settings
from ascend_doctor.linting.rl_configuration import (
    HYDRA_FILE,
    add_configuration,
    compose,
    is_of_mindspeed_rl,
)
from ascend_doctor.linting.shell_marks import find_placeholders, own_marks
from ascend_doctor.linting.sourcing import SourcedFile, follower, is_missing
from ascend_doctor.linting.workloads import (
    PodContainer,
    describe_runs,
    describe_services,
    find_faults,
    find_ray_faults,
    read_containers,
)
from ascend_doctor.machine.files import check_folder, is_there, read_bytes, walk_folders
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.models import find_named, sizes_of
from ascend_doctor.patterns import patterns_of

MOST_BYTES = 4 << 20
MOST_FILES = 5000
# No size, number or truth value is longer; more of a value is not kept.
_MOST_VALUE = 60
_PATTERNS = patterns_of(__file__)
_OPTION, _HYDRA, _OVERRIDE, _ENCLOSED, _LIST, _SETS, _FROM_FILE, _NAMED, _OF_VERL = _PATTERNS[:9]
_SWIFT_FILE, _MODEL_FILE = _PATTERNS[9:]
_MODEL_KEYS = ("actor_rollout_ref.model.path", "worker.actor.model.model_path")
# ms-swift starts torchrun itself if one of them is set.
_BY_SWIFT = {"NPROC_PER_NODE", "NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"}
_YAML = (".yaml", ".yml")
# A SkyPilot task has resources, and scripts that set up and run it.
_RESOURCES = "resources"
_TASK_SCRIPTS = {("setup",), ("run",)}
_PYTHON = (".py",)
_SHELL = (".sh", ".bash", ".slurm", ".sbatch")


class PlacedWord(msgspec.Struct, frozen=True):
    """A word of a launch, and the place to change for it."""

    text: str
    location: Place


class LintInput(msgspec.Struct, frozen=True, kw_only=True):
    """A launch, variables, a Python file, a shell script as text, or all pods of a file.

    ``outer`` is the text that starts the launch, up to its own words.
    """

    file: str
    launch: Launch | None = None
    environment: Environment | None = None
    script: Script | None = None
    shell_script: ShellScript | None = None
    pods: Pods | None = None
    words: tuple[PlacedWord, ...] = ()
    outer: str = ""


def read(path: str) -> bytes:
    """The content of a text file. Raises DataError."""
    if path.lower().endswith(".json"):
        raise DataError(f"{path}: JSON is judged with the script that names it; give that script")
    return refuse_binary(path, read_bytes(path, MOST_BYTES))


def refuse_binary(path: str, content: bytes) -> bytes:
    """The content. Raises DataError for a binary: a shell stops at it too."""
    byte = content.find(b"\0")
    if byte >= 0:
        raise DataError(f"{path}: not a text file (NUL at byte {byte}); give a launch script")
    return content


def walk(paths: Iterable[str]) -> Iterator[str]:
    """These files, and those in these folders that may launch something, without links.

    Raises DataError for a folder that is unreadable or has more than 5,000 files.
    """
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield path
            continue
        check_folder(path)
        count = 0
        for folder, files in walk_folders(path, is_entered=lambda name: name[0] not in "._"):
            for name in files:
                file = os.path.join(folder, name)
                if not name.endswith((*_SHELL, *_YAML, *_PYTHON)) or os.path.islink(file):
                    continue
                count += 1
                if count > MOST_FILES:
                    raise DataError(f"{path} has more than {MOST_FILES} files; give a part of it")
                if not name.endswith(_PYTHON) or _is_entry(file):
                    yield file


def _is_entry(file: str) -> bool:
    try:
        content = read(file)
    except DataError:
        return False
    inputs = script(content.decode("utf-8", "replace"), file) if b"__main__" in content else None
    return inputs is not None and inputs.entry


def decode(content: bytes) -> str:
    """Text with Unix line ends."""
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def is_yaml(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in _YAML


def is_shell(path: str, content: bytes) -> bool:
    ending = os.path.splitext(path)[1].lower()
    return ending not in {*_PYTHON, *_YAML} and not content.startswith(b"#!/usr/bin/env python")


Shellcheck = Callable[[bytes, str], tuple[ShellMark, ...]]


def subjects(
    path: str, content: bytes, catalog: Catalog, shellcheck: Shellcheck | None = None
) -> tuple[LintInput, ...]:
    """What to judge in a file; ``shellcheck``, if given, reads scripts. Never raises."""
    text = decode(content)
    if is_yaml(path):
        return tuple(_documents(path, text, catalog))
    if not is_shell(path, content):
        return tuple(_python(path, text, catalog))
    follow = follower(path)
    set_outside = {variable.name for variable in catalog.variables.variables}

    def note_names(target: str) -> SourcedFile | None:
        source = follow(target)
        set_outside.update(
            _SETS.findall(source.content.decode("utf-8", "replace")) if source else ()
        )
        return source

    filled, placeholders = find_placeholders(content, path)
    plain = filled.replace(b"\r\n", b"\n")
    job = read_job(plain, path, catalog.fields.objects)
    values = job.variables() if job else {}
    shell_commands = commands(plain, note_names, values)
    launched = tuple(_shell(path, shell_commands, catalog))
    if job:
        launched = tuple(
            _with(each, allocation=job.allot(each.launch, each.outer)) for each in launched
        )
        placeholders = (*placeholders, *job.marks)
    for spec, marks in describe_runs(shell_commands, path):
        pods = Pods(source=path, containers=(spec,), marks=marks)
        launched = (*launched, LintInput(file=path, pods=pods))
    if shellcheck is None:
        return launched
    steps = find_step_faults(shell_commands, path, catalog.fields.objects)
    marks, unjudged = (*placeholders, *find_ray_faults(shell_commands, path), *steps), ""
    try:
        marks = (*marks, *shellcheck(plain, path))
    except Unknown as reason:
        unjudged = str(reason)
    marks = _choose_marks(path, filled, shell_commands, marks, set_outside)
    # A file without commands is no script.
    if not launched and not marks:
        return ()
    as_text = ShellScript(marks=marks, unjudged=unjudged)
    return (LintInput(file=path, shell_script=as_text), *launched)


def _python(file: str, text: str, catalog: Catalog) -> Iterator[LintInput]:
    inputs = script(text, file)
    if inputs is not None:
        yield LintInput(file=file, script=inputs)
    if variables := settings(text):
        command = ShellCommand((), variables, {}, open=True)
        yield _subject(file, command, catalog, _stay)


def _choose_marks(
    file: str,
    filled: bytes,
    shell_commands: tuple[ShellCommand, ...],
    marks: tuple[ShellMark, ...],
    outside: Collection[str],
) -> tuple[ShellMark, ...]:
    sourced = any(command.sourced for command in shell_commands)
    started = tuple(_launches(shell_commands, file))
    own = own_marks(filled, started, None if sourced else outside, file)
    # Quotes in a value may be meant, unless they arrive at a launch.
    quoted = any(
        word.many and re.search("[\"']", word.text) and not _LIST.match(word.text)
        for each in started
        for word in each.words
    )
    return (*(mark for mark in marks if quoted or mark.rule != "SC2089"), *own)


def of_command(words: Iterable[str], catalog: Catalog) -> tuple[LintInput, ...]:
    """A command from the command line, as the shell split it."""
    column, split = 1, []
    for word in words:
        # Places in the typed command, with one blank between words.
        split.append(Word(word, 1, column))
        column += len(word) + 1
    command = ShellCommand(tuple(split), {}, {}, open=False)
    subject = _read_launch("command", command, catalog, _stay)
    return (_find_script(subject, lambda name: not is_there(name)),)


def _find_script(subject: LintInput, is_missing: Callable[[str], bool]) -> LintInput:
    """The subject, with the script of torchrun if that is missing."""
    absent = find_absent([word.text for word in subject.words], is_missing)
    if subject.launch is None or not absent:
        return subject
    (where, *_) = (word.location for word in subject.words if word.text == absent)
    return _with(subject, absent=absent, places={**subject.launch.places, absent: where})


def _with(subject: LintInput, **changes: object) -> LintInput:
    """The subject with these facts of its launch."""
    launch_ = subject.launch and msgspec.structs.replace(subject.launch, **changes)
    return msgspec.structs.replace(subject, launch=launch_)


Moved = Callable[[int, int], tuple[int, int]]


def _stay(line: int, column: int) -> tuple[int, int]:
    return line, column


def _shell(
    file: str,
    shell_commands: tuple[ShellCommand, ...],
    catalog: Catalog,
    moved: Moved = _stay,
    variables: Mapping[str, Word] | None = None,
) -> Iterator[LintInput]:
    """``moved`` maps places to the file; ``variables`` come from outside."""
    some = False
    for command in _launches(shell_commands, file):
        some = True
        yield _read_launch(file, command, catalog, moved, variables)
    if not some and shell_commands:
        # A file that only sets variables is sourced by others.
        last = max(shell_commands, key=lambda command: len(command.exported))
        yield _subject(file, ShellCommand((), last.exported, {}, open=True), catalog, moved)


def _launches(shell_commands: tuple[ShellCommand, ...], file: str) -> Iterator[ShellCommand]:
    named = {id(command) for command in launches(shell_commands)}
    for command in shell_commands:
        if id(command) in named or is_configured([word.text for word in command.words], file):
            yield command


def _read_launch(
    file: str,
    command: ShellCommand,
    catalog: Catalog,
    moved: Moved,
    outer: Mapping[str, Word] | None = None,
) -> LintInput:
    words = command.words
    command = _configure(command, add_configuration(words, file))
    folder = UNTOLD if is_yaml(file) else command.folder
    subject = _find_script(
        _subject(file, command, catalog, moved, outer), lambda name: is_missing(file, folder, name)
    )
    changed = command.words != words
    return _with(subject, program="mindspeed-rl", keys=()) if changed else subject


def _configure(command: ShellCommand, words: tuple[Word, ...]) -> ShellCommand:
    """The command with these words; what no file of a configuration has is unknown."""
    lost = [word for word in words if word.text.startswith("defaults.")]
    sourced = (*command.sourced, *(piece for word in lost for piece in word.unresolved))
    opened = command.open or bool(lost)
    return msgspec.structs.replace(command, words=words, open=opened, sourced=sourced)


def _documents(file: str, text: str, catalog: Catalog) -> Iterator[LintInput]:
    described = []
    marks: list[ShellMark] = []
    for document in leaves(text) or ():
        marks += find_faults(document, catalog.fields.objects, file)
        pods = tuple(read_containers(document, file))
        for pod in pods:
            described.append(pod.spec)
            for subject in _container_launches(file, pod, catalog):
                yield _with(subject, allocation=pod.allocation)
        for spec, more in describe_services(document, file):
            described.append(spec)
            marks += more
        if not pods and _RESOURCES in {leaf.path[0] for leaf in document if leaf.path}:
            for leaf in document:
                if leaf.block and leaf.path in _TASK_SCRIPTS:
                    yield from _block(file, leaf, catalog)
        if not pods:
            yield from _configurations(file, document, catalog)
    if described or marks:
        pods_ = Pods(source=file, containers=tuple(described), marks=tuple(marks))
        yield LintInput(file=file, pods=pods_)


def _configurations(file: str, document: tuple[Leaf, ...], catalog: Catalog) -> Iterator[LintInput]:
    if is_of_mindspeed_rl(document):
        command = ShellCommand((), {}, {}, open=False)
        command = _configure(command, compose(file, document))
        yield _with(_subject(file, command, catalog, _stay), program="mindspeed-rl", keys=())
    elif is_of_verl(document):
        cause = Piece(UNTOLD, 1, 1, "keys that this file does not give")
        rest = Word(UNTOLD, 1, 1, (cause,), many=True)
        words = (Word("verl.config", 1, 1), *hydra(document), rest)
        command = ShellCommand(words, {}, {}, open=True)
        subject = _subject(file, command, catalog, _stay)
        if subject.launch is not None and subject.launch.keys:
            yield subject


def _container_launches(file: str, pod: PodContainer, catalog: Catalog) -> Iterator[LintInput]:
    # Ascend Docker Runtime reads it when it creates the container.
    pod.variables.pop("ASCEND_VISIBLE_DEVICES", None)
    if pod.variables or pod.words:
        command = ShellCommand(pod.words, pod.variables, {}, open=not pod.words)
        yield _subject(file, command, catalog, _stay)
    for leaf in pod.scripts:
        yield from _block(file, leaf, catalog, pod.variables)


def _block(
    file: str, leaf: Leaf, catalog: Catalog, variables: Mapping[str, Word] | None = None
) -> Iterator[LintInput]:
    yield from _shell(
        file,
        commands(leaf.text.encode("utf-8", "replace")),
        catalog,
        # A block begins on the line after its mark.
        lambda line, column: (leaf.line + line, column) if leaf.block else (leaf.line, leaf.column),
        variables,
    )


def _subject(
    file: str,
    command: ShellCommand,
    catalog: Catalog,
    moved: Moved,
    outer: Mapping[str, Word] | None = None,
) -> LintInput:
    texts = [word.text for word in command.words]
    unread = {number for number in range(len(texts)) if _names_options(texts, number)}
    unread |= {*find_config_files(texts, file)}
    partial = command.open or bool(unread)
    program_at = next((number for number, text in enumerate(texts) if text.endswith(_PYTHON)), 0)
    launcher_seen = not command.open and 0 < program_at <= min(unread, default=-1)
    launch_ = launch(texts, partial=partial) if texts else Launch(present=False)
    if texts and texts[0] == "verl.config":
        # Its rollout may have devices of its own.
        apart = any(text.startswith(("rollout.", "async_training.")) for text in texts)
        module = "" if apart else "verl.trainer.main_ppo"
        launch_ = msgspec.structs.replace(launch_, program="verl", module=module)

    def locate(piece: Word | Piece) -> Place:
        if piece.file:
            return Place(file=piece.file, line=piece.line, column=piece.column)
        line, column = moved(piece.line, piece.column)
        return Place(file=file, line=line, column=column)

    options = read_options(texts)
    unread |= {number for number, text in enumerate(texts) if _MODEL_FILE.match(text)}
    places = _locate_words(command, options, locate)
    exported = {**(outer or {}), **command.exported}
    for name, value in (outer or {}).items():
        places.setdefault(name, Place(file=file, line=value.line, column=value.column))
    swift = _BY_SWIFT if launch_.program.endswith("swift") else set()
    read = _read_by_training(catalog) | swift
    lost = {name: locate(word) for name, word in command.own.items() if name in read}
    launch_ = msgspec.structs.replace(
        launch_,
        places=lost | places,
        keys=tuple(key.group(1) for key in map(_HYDRA.match, texts) if key),
        strays=tuple(_find_strays(command.words, launch_, locate)),
        values=_read_values(texts, launch_.program, catalog),
        launcher_seen=launcher_seen,
        open_environment=bool(command.sourced),
        unresolved=(
            *_unknown_spots(command, options, unread, locate),
            *_unknown_variables(exported, swift, locate),
        ),
        pythonpath=spelt(exported["PYTHONPATH"]) if "PYTHONPATH" in exported else "",
        unexported=tuple(lost) if launch_.present else (),
    )
    return LintInput(
        file=file,
        launch=_with_model(launch_, catalog),
        environment=_environment(file, exported, command, catalog),
        words=tuple(
            PlacedWord(word.text, locate(_where_set(command.words, number)))
            for number, word in enumerate(command.words)
        ),
        outer=" ".join((*(word.text for word in command.outer), *texts)),
    )


def _locate_words(
    command: ShellCommand, options_: Mapping[str, Said], locate: Callable[[Word | Piece], Place]
) -> dict[str, Place]:
    words = command.words
    places = {name: locate(_where_set(words, option.word)) for name, option in options_.items()}
    places |= {
        name: locate(_value_of_key(word)) for word in words if (name := _option_name(word.text))
    }
    keys = ((word, _HYDRA.match(word.text)) for word in words)
    places |= {f"key {key.group(1)}": locate(word) for word, key in keys if key}
    for number, word in enumerate(words):
        value = _where_set(words, number) if word.text.startswith("--") else word
        if value is not word:
            places[f"{word.text}="] = locate(value)
    return places | {name: locate(value) for name, value in command.exported.items()}


def _find_strays(
    words: Sequence[Word], launch_: Launch, locate: Callable[[Word | Piece], Place]
) -> Iterator[Spot]:
    """Words from the first override on that Hydra's grammar refuses."""
    if launch_.program != "verl" or words[0].text == "verl.config":
        return
    before, seen = "", False
    for word in words:
        text, above, before = word.text, before, word.text
        seen = seen or _HYDRA.match(text) is not None
        if not seen or text[:1] == "-" or above[:8] == "--config" or UNTOLD in text:
            continue
        value, enclosed = text.partition("=")[2], 1
        while enclosed:
            value, enclosed = _ENCLOSED.subn("", value)
        if not _OVERRIDE.fullmatch(text) or re.search(r"[=,\[({'\"]", value):
            yield Spot(name=text[:80], argument="", location=locate(word))


def _with_model(launch_: Launch, catalog: Catalog) -> Launch:
    keys = {"model", *_MODEL_KEYS} & {*launch_.options, *launch_.values}
    if launch_.program not in {"megatron-swift", "verl"} or not keys:
        return launch_
    key = min(keys)
    name = {**launch_.values, **launch_.options}[key].strip("\"'")
    where = launch_.places.get(key)
    if not name or UNTOLD in name or where is None:
        return launch_
    try:
        model = find_named(catalog, name)
    except DataError:
        model = None
    unknown = () if model else (Spot(name=name[:80], argument="model", location=where),)
    return msgspec.structs.replace(
        launch_,
        model_name=name,
        model_sizes=sizes_of(model) if model else {},
        unresolved=(*launch_.unresolved, *unknown),
    )


def _value_of_key(word: Word) -> Word | Piece:
    """What to change of key=value: the value, if it comes from another line."""
    last = word.last
    elsewhere = last is not None and (last.line != word.line or last.file != word.file)
    return last if last is not None and elsewhere and _HYDRA.match(word.text) else word


def _where_set(words: Sequence[Word], number: int) -> Word | Piece:
    """The word to change: an option's value, if it comes from another line."""
    option, following = words[number], words[number + 1 : number + 2]
    if _HYDRA.match(option.text):
        return _value_of_key(option)
    if not takes_value(option.text) or not following or following[0].text.startswith("--"):
        return option
    value = following[0]
    beside = value.file == option.file and value.line in {option.line, option.line + 1}
    return option if beside else value


def _option_name(word: str) -> str:
    """The option of a word with its dashes, or Hydra's key; else ""."""
    key = _HYDRA.match(word)
    if key:
        return key.group(1)
    return word.split("=", maxsplit=1)[0] if word.startswith("-") else ""


def _read_values(words: Sequence[str], program: str, catalog: Catalog) -> dict[str, str]:
    """Values of overrides, and of options that take numbers, one of several words, or none.

    For options that end with a digit they show whether it is their value. Of known programs, which
    take no other words, all words up to the next option are the value.
    """
    swift = program.endswith("swift")
    kinds = catalog.swift_kinds if swift else {**catalog.trainer_kinds, **catalog.option_kinds}
    mentioned = catalog.rule_names
    overrides = (word.partition("=") for word in words if _HYDRA.match(word))
    values = {key: value[:_MOST_VALUE] for key, _, value in overrides}
    entry = next((n for n, word in enumerate(words) if program and word.endswith(_PYTHON)), -1)
    for number, word in enumerate(words if program != "verl" else ()):
        name, equals, value = word[2:].partition("=")
        plain = name.replace("-", "_")
        known = (plain if swift else name) in kinds or plain in mentioned or name[-1:].isdecimal()
        if not word.startswith("--") or not known:
            continue
        behind = words[number + 1 : None if 0 <= entry < number or swift else number + 2]
        own = list(takewhile(lambda text: not _OPTION.match(text), behind))
        sure = takewhile(lambda text: UNTOLD not in text, own[1:])
        values[name] = value if equals else " ".join((*own[:1], *sure))
    return values


def _unknown_variables(
    exported: Mapping[str, Word], names: Collection[str], locate: Callable[[Piece], Place]
) -> Iterator[Spot]:
    for name in sorted({*names} & {*exported}):
        for piece in exported[name].unresolved:
            yield Spot(name=piece.source, argument=name, location=locate(piece))


def _unknown_spots(
    command: ShellCommand,
    options_: Mapping[str, Said],
    unread: Collection[int],
    locate: Callable[[Piece], Place],
) -> Iterator[Spot]:
    """Expressions that only the shell knows, each with its option; ``unread``: words of files."""
    options = {option.word: name for name, option in options_.items()}
    lists = option_lists(command.words)
    asked: dict[Piece, str] = {}
    for number, word in enumerate(command.words):
        before = command.words[number - 1].text if number else ""
        name = options.get(number) or (options.get(number - 1, "") if takes_value(before) else "")
        if name or word in lists:
            asked |= {piece: name for piece in word.unresolved if piece not in asked}
    asked |= {piece: "" for piece in command.sourced if piece not in asked}
    for number in sorted(unread):
        word = command.words[number]
        value = command.words[number + 1 : number + 2] if word.text.startswith("-") else ()
        shown = " ".join(map(spelt, (word, *(value if "=" not in word.text else ()))))
        asked[Piece(UNTOLD, word.line, word.column, shown[:80], word.file)] = ""
    for piece, name in asked.items():
        yield Spot(name=piece.source, argument=name, location=locate(piece))


def _names_options(texts: Sequence[str], number: int) -> bool:
    if _FROM_FILE.match(texts[number]):
        return True
    named = names_configuration(texts)
    file = HYDRA_FILE.match(texts[number]) or (named and _NAMED.match(texts[number]))
    if file and (named or any(map(_HYDRA.match, texts))):
        _, equals, name = texts[number].partition("=")
        name = name if equals else " ".join(texts[number + 1 : number + 2])
        return _OF_VERL.fullmatch(name.strip("\"'")) is None
    return (
        number > 1 and _SWIFT_FILE.fullmatch(" ".join(texts[number - 2 : number + 1])) is not None
    )


def _read_by_training(catalog: Catalog) -> set[str]:
    groups = {"hccl", "torch_npu", "cann", "visible_devices", "atb"}
    return {variable.name for variable in catalog.variables.variables if variable.group in groups}


def _environment(
    file: str, exported: Mapping[str, Word], command: ShellCommand, catalog: Catalog
) -> Environment:
    """Variables of the matrix; a value that only the shell knows is withheld."""
    table = catalog.variables
    shown = {variable.name for variable in table.variables} | _BY_SWIFT
    near = {miss.wrong for miss in table.near_misses}
    return Environment(
        source=file,
        variables={
            name: word.text
            for name, word in exported.items()
            if name in shown and UNTOLD not in word.text
        },
        withheld=tuple(
            name
            for name, word in exported.items()
            if UNTOLD in word.text
            or name in near
            or (
                name not in shown
                and name not in command.used
                and name not in table.list_names()
                and variable_meant(name, {*shown, *COMMON, *table.list_names()})
            )
        ),
    )
