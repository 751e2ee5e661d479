"""What Slurm gives a launch: the directives of a script, the steps within, and their mistakes."""

import re
from collections.abc import Collection, Iterator

import msgspec

from ascend_doctor.facts import UNTOLD, Allocation, Launch, ShellMark
from ascend_doctor.findings import Place
from ascend_doctor.judging.spelling import slip_of
from ascend_doctor.linting.bash import syntax_tree
from ascend_doctor.linting.positioned_text import Piece, Value
from ascend_doctor.linting.shell_marks import mark

_DIRECTIVE = re.compile(r"#SBATCH[ \t]+(.*?)(?:[ \t]#.*)?")
_NAME = re.compile(r"(?<!\S)--([a-z][\w-]*)")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
_GIVEN = {
    "nodes": re.compile(r"(?<!\S)(?:--nodes[= ]|-N ?)(\S+)"),
    "ntasks": re.compile(r"(?<!\S)(?:--ntasks[= ]|-n ?)(\S+)"),
    "tasks": re.compile(r"(?<!\S)--ntasks-per-node[= ](\S+)"),
    "devices": re.compile(r"(?<!\S)--(?:gpus-per-node|gres)[= ](?:[\w.-]+:)*(\S+)"),
}
_VARIABLES = {
    **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "nodes"),
    **dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), "devices"),
    "SLURM_NTASKS_PER_NODE": "tasks",
}
# Options that only the shell knows.
_OPEN = re.compile(rf"(?<!\S)(?!-)\S+\s+{UNTOLD}")
_STEP = re.compile(r"(?<!\S)(?:\S*/)?srun\s")
_PROGRAM = re.compile(r"\s(?:\S*/)?(?:torchrun|python[\d.]*|accelerate|(?:ba|z)?sh|env)(?!\S)")


class SlurmJob(msgspec.Struct):
    """The directives of a script: sizes by name, 0 if they are no number, and their places."""

    sizes: dict[str, int]
    places: dict[str, Place]
    marks: tuple[ShellMark, ...]

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
        outer = "srun " if of_ray else outer
        sizes = dict(self.sizes)
        step = _STEP.search(outer)
        text = _PROGRAM.split(outer[step.start() :])[0] if step else ""
        own = _read(text)
        if "ntasks" in own and "tasks" not in own:
            sizes.pop("tasks", None)
        sizes |= own
        nodes = sizes.get("nodes", 0)
        spread = sizes["ntasks"] // nodes if nodes and "ntasks" in sizes else 1
        if step is None or _OPEN.search(text):
            nodes, spread = 0, 1
            sizes.pop("tasks", None)
        return Allocation(
            nodes=nodes,
            tasks=1 if of_ray else sizes.get("tasks", spread),
            devices=sizes.get("devices", 0),
            whole=not of_ray,
            places=self.places,
        )


def _read(text: str) -> dict[str, int]:
    last = {name: pattern.findall(text)[-1:] for name, pattern in _GIVEN.items()}
    return {name: int(n[0][:6]) if n[0].isdecimal() else 0 for name, n in last.items() if n}


def read_job(content: bytes, file: str, known: Collection[str]) -> SlurmJob | None:
    """The directives of a script, for which ``known`` are options; None without any."""
    sizes: dict[str, int] = {}
    places: dict[str, Place] = {}
    marks: list[ShellMark] = []
    begun = False
    if b"#SBATCH" not in content:
        return None
    tree = syntax_tree(content)
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n")):
        directive = _DIRECTIVE.fullmatch(line)
        where = Place(file=file, line=number + 1, column=1)
        if directive is None:
            begun = begun or bool(line.strip() and not line.lstrip().startswith("#"))
        elif not begun:
            text = directive.group(1)
            sizes |= _read(text)
            places |= dict.fromkeys(_read(text), where)
            marks += _find_faults(text, where, known)
        elif tree.descendant_for_point_range((number, 0), (number, 1)).type == "comment":
            marks.append(mark("late-directive", where, line))
            break
    return SlurmJob(sizes, places, tuple(marks)) if sizes or marks else None


def _find_faults(text: str, where: Place, known: Collection[str]) -> Iterator[ShellMark]:
    for name in _NAME.findall(text):
        # getopt_long takes the beginning of a name.
        near = "" if any(each.startswith(name) for each in known) else slip_of(name, known)
        if near:
            yield mark("no-directive", where, f"--{name}", near)
    variable = _VARIABLE.search(text)
    if variable:
        yield mark("unexpanded", where, variable.group())
