"""What Slurm gives a launch: the directives of a script, the steps within, and their mistakes."""

import contextlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ascend_doctor.checks.launch.option_names import describe_kind
from ascend_doctor.facts import UNTOLD, Allocation, Launch, ShellMark
from ascend_doctor.findings import Place
from ascend_doctor.judging.spelling import slip_of
from ascend_doctor.linting.bash import ShellCommand, syntax_tree
from ascend_doctor.linting.positioned_text import Piece, Value, locate
from ascend_doctor.linting.shell_marks import mark
from ascend_doctor.patterns import patterns_of

_DIRECTIVE, _VARIABLE, _FILLED, _STEP, _OF_DEVICES = patterns_of(__file__)
_SIZES = {
    **{name: name for name in ("nodes", "ntasks")},
    **dict.fromkeys(("ntasks-per-node", "tasks-per-node"), "tasks"),
    **dict.fromkeys(("gpus-per-node", "gres"), "devices"),
}
_VARIABLES = {
    **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "nodes"),
    **dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), "devices"),
    "SLURM_NTASKS_PER_NODE": "tasks",
}

Fields = Mapping[str, Mapping[str, str | None]]


class SlurmOption(NamedTuple):
    """``name`` is "" for an unknown option, and for a word without one."""

    name: str
    value: str
    typed: str
    word: int


class SlurmOptions:
    """The options of a command of Slurm, read as getopt_long does."""

    def __init__(self, fields: Fields, command: str) -> None:
        kinds = {**fields["slurm"], **fields[command]}
        pairs = [(key.partition("/"), kind) for key, kind in kinds.items()]
        self.kinds = {name: kind for (name, _, _), kind in pairs}
        self._letters = {letter: name for (name, _, letter), _ in pairs if letter}

    def read(self, words: Sequence[str]) -> Iterator[SlurmOption]:
        """Up to the first word that is no option; plugins have options of their own."""
        number = 0
        while number < len(words):
            at, typed = number, words[number]
            number += 1
            if UNTOLD in typed.partition("=")[0]:
                yield SlurmOption("", "", UNTOLD, at)
                continue
            long, equals, value = typed[:2] == "--", "", typed[2:]
            if long:
                begin, equals, value = value.partition("=")
                near = [each for each in self.kinds if each.startswith(begin)]
                name = begin if begin in near else near[0] if len(near) == 1 else ""
            else:
                name = self._letters.get(typed[1:2], "") if typed[:1] == "-" else ""
            kind = self.kinds.get(name)
            following = words[number] if number < len(words) else ""
            apart = not (equals or value) and kind not in {"flag", ""}
            if apart and (name or (long and following[:1] != "-")):
                value, number = following, number + 1
            yield SlurmOption(name, value, typed, at)
            if not name and not long:
                return

    def find_faults(
        self, words: Sequence[str], places: Sequence[Place], *, whole: bool
    ) -> Iterator[ShellMark]:
        """``whole``: nothing may come behind the options."""
        for name, value, typed, at in self.read(words):
            where = places[at]
            if not name and typed[:2] == "--":
                # Without a near name it may be a plugin's.
                if near := slip_of(typed[2:].partition("=")[0], self.kinds):
                    yield mark("no-directive", where, typed, near)
                continue
            if not name and typed != UNTOLD and (whole or typed[:1] == "-"):
                yield mark("directive-value", where, typed, "an option that begins with -")
            kind = "" if _FILLED.search(value) else self.kinds.get(name) or ""
            if kind != "flag" and (lack := describe_kind(kind, value)):
                yield mark("directive-value", where, f"--{name}={value}", lack)


def _read_sizes(options: Iterable[SlurmOption]) -> dict[str, int]:
    return {
        _SIZES[name]: int(n[:6]) if (n := value.rpartition(":")[2]).isdecimal() else 0
        for name, value, *_ in options
        if name in _SIZES and (name != "gres" or _OF_DEVICES.search(value))
    }


class SlurmJob(msgspec.Struct):
    """The directives of a script: sizes by name, 0 if they are no number, and their places."""

    sizes: dict[str, int]
    places: dict[str, Place]
    marks: tuple[ShellMark, ...]
    step: SlurmOptions

    def variables(self) -> dict[str, Value]:
        """What Slurm sets in the script's shell, with the places of the directives."""
        sizes = msgspec.structs.asdict(self.allot(None))
        return {
            name: (Piece(str(sizes[key]), self.places[key].line, self.places[key].column),)
            for name, key in _VARIABLES.items()
            if key in self.places and sizes[key]
        }

    def allot(self, launch: Launch | None, outer: str = "srun ") -> Allocation:
        """The nodes on which a launch runs, and its tasks; ``outer`` is the text that starts it.

        Ray starts the ranks of verl on all nodes of the job.
        """
        of_ray = launch is not None and launch.program == "verl"
        step = _STEP.search("srun " if of_ray else outer)
        typed = list(self.step.read(outer[step.end() :].split())) if step and not of_ray else []
        own, sizes = _read_sizes(typed), dict(self.sizes)
        if "ntasks" in own and "tasks" not in own:
            sizes.pop("tasks", None)
        sizes |= own
        nodes = sizes.get("nodes", 0)
        spread = sizes["ntasks"] // nodes if nodes and "ntasks" in sizes else 1
        if step is None or any(each.typed == UNTOLD for each in typed):
            nodes, spread = 0, 1
            sizes.pop("tasks", None)
        return Allocation(
            nodes=nodes,
            tasks=1 if of_ray else sizes.get("tasks", spread),
            devices=sizes.get("devices", 0),
            whole=not of_ray,
            places=self.places,
        )


def read_job(content: bytes, file: str, fields: Fields) -> SlurmJob | None:
    """The directives of a script; None without any."""
    sizes: dict[str, int] = {}
    places: dict[str, Place] = {}
    marks: list[ShellMark] = []
    begun = False
    if b"#SBATCH" not in content:
        return None
    tree, options = syntax_tree(content), SlurmOptions(fields, "sbatch")
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n")):
        directive = _DIRECTIVE.fullmatch(line)
        where = Place(file=file, line=number + 1, column=1)
        if directive is None:
            begun = begun or bool(line.strip() and not line.lstrip().startswith("#"))
        elif not begun:
            text = directive.group(1)
            words = _split(text) if "{" not in text else []  # of a template
            read = _read_sizes(options.read(words))
            sizes |= read
            places |= dict.fromkeys(read, where)
            marks += options.find_faults(words, [where] * len(words), whole=True)
            if variable := _VARIABLE.search(text):
                marks.append(mark("unexpanded", where, variable.group()))
        elif tree.descendant_for_point_range((number, 0), (number, 1)).type == "comment":
            marks.append(mark("late-directive", where, line))
            break
    step = SlurmOptions(fields, "srun")
    return SlurmJob(sizes, places, tuple(marks), step) if sizes or marks else None


def _split(text: str) -> list[str]:
    with contextlib.suppress(ValueError):
        return shlex.split(text)
    return text.split()


def find_step_faults(
    commands: Iterable[ShellCommand], file: str, fields: Fields
) -> Iterator[ShellMark]:
    """What srun refuses."""
    options = SlurmOptions(fields, "srun")
    for command in commands:
        for words in (command.outer, command.words):
            if words and words[0].text.rpartition("/")[2] == "srun":
                places = [locate(word, file) for word in words[1:]]
                texts = [word.text for word in words[1:]]
                yield from options.find_faults(texts, places, whole=False)
