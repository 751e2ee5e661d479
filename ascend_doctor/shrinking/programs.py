"""Programs before the real ones in PATH, which start these with a small launch.

The shell has then resolved all that a script computes, and no file of the user's is changed.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.findings import spans
from ascend_doctor.machine.hooks import prepend_path
from ascend_doctor.probing.keeper import command_of_main
from ascend_doctor.render.plain import one_line
from ascend_doctor.shrinking import accelerate, hugging_face, llama_factory
from ascend_doctor.shrinking.hydra import count_ranks, is_hydra, parallel_sizes, shrink_overrides
from ascend_doctor.shrinking.inputs import place_inputs
from ascend_doctor.shrinking.megatron import describe, is_pretraining, shrink_options
from ascend_doctor.shrinking.ms_swift import end_early
from ascend_doctor.shrinking.sizes import PARALLEL, SmallLayout, shrink_layout
from ascend_doctor.shrinking.stand_ins import (
    DATA_SET,
    copy_small_model,
    write_conversations,
    write_instructions,
    write_questions,
)
from ascend_doctor.shrinking.true_size import TrueSize, choose_ranks, place_stand_ins
from ascend_doctor.shrinking.words import LaunchWords, Option, replace_options, split_launch
from ascend_doctor.simulator.layout import HOLES_LIBRARY

_LLAMA_FACTORY = "llamafactory-cli"
PROGRAMS = (
    *("python", "python3", "torchrun", "accelerate", "accelerate-launch"),
    *("megatron", "swift", _LLAMA_FACTORY),
)
_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_SETTINGS = "ASCEND_DOCTOR_SHRINK"
_MODELS = {"model", "model-name-or-path", "ref-model"}
_MODEL_KEYS = ("model.path", "model.partial_pretrain")
_DATA_KEYS = ("data.train_files", "data.val_files")
TRUE_SIZE = "at true size"


class ProgramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """For the programs: the NPUs there are, where copies go, and the job's interpreter.

    ``size``: launches keep their sizes.
    """

    npus: int
    python: str
    folder: str = ""
    size: TrueSize | None = None


def write_programs(folder: Path, path: str, settings: ProgramSettings) -> dict[str, str]:
    """Write the programs into a new folder of ``folder``; gives the variables to run them.

    ``path`` is the search path after them.
    """
    programs = folder / "programs"
    programs.mkdir()
    command = shlex.join(command_of_main(__name__))
    for name in PROGRAMS:
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {command} {name} "$@"\n', "utf-8")
        program.chmod(0o755)
    settings = msgspec.structs.replace(settings, folder=str(programs))
    return {_SETTINGS: msgspec.json.encode(settings).decode(), "PATH": f"{programs}:{path}"}


def shrink(
    program: str, words: Sequence[str], settings: ProgramSettings, nproc: int | None = None
) -> tuple[list[str], int] | None:
    """The words of a small launch, and its ranks; None for a command that is not a training.

    ``nproc`` are the environment's ranks. Raises DataError and DoctorError.
    """
    launch = split_launch(program, words)
    if launch.accelerate:
        return _shrink_accelerate(launch, settings) if launch.program else None
    if is_hydra(launch.options):
        return _shrink_hydra(launch, settings)
    if llama_factory.find_configuration(launch.options):
        # Its launcher starts a rank for each NPU by default.
        ranks = nproc or (settings.npus if program == _LLAMA_FACTORY else None)
        return _shrink_llama_factory(launch, settings, ranks)
    sizes = {option.name: option.number for option in launch.options if option.name in PARALLEL}
    known = {name: size for name, size in sizes.items() if size}
    names = {option.name for option in launch.options}
    if not (is_pretraining(launch.options) or {"model", "dataset"} <= names):
        return None
    layout = shrink_layout(known, launch.ranks or nproc, settings.npus)
    options = shrink_options(launch.options, layout, _writer(launch, settings))
    options = [_stand_in(option, layout, settings) for option in options]
    options = end_early(options, program, Path(settings.folder))
    _say(describe(launch.options, options))
    small = msgspec.structs.replace(launch.on_one_node(layout.ranks), options=tuple(options))
    return small.words(), layout.ranks


def _shrink_accelerate(launch: LaunchWords, settings: ProgramSettings) -> tuple[list[str], int]:
    before = accelerate.add_configuration(launch)
    ranks = before.ranks or settings.npus
    if llama_factory.find_configuration(launch.options):
        return _shrink_llama_factory(before, settings, ranks)
    typed = {option.name: option.number for option in launch.options if option.name in PARALLEL}
    sizes = {name: size for name, size in typed.items() if size}
    sizes |= accelerate.parallel_sizes(before.places)
    layout = shrink_layout(sizes, ranks, settings.npus)
    layout = accelerate.divide_replicas(before.places, layout, settings.npus)
    small = accelerate.shrink_places(before, layout.ranks)
    options = shrink_options(launch.options, layout, _writer(launch, settings))
    options = hugging_face.shrink_script(options, launch.program[-1], Path(settings.folder))
    names_model = hugging_face.names_model
    options = [_stand_in(option, layout, settings, names_model) for option in options]
    _say(describe(before.places, small.places))
    _say(describe(launch.options, options))
    if not any(map(names_model, options)):
        _say(["no option names a model: one that the script names itself stays as large as it is"])
    return msgspec.structs.replace(small, options=tuple(options)).words(), layout.ranks


def _writer(launch: LaunchWords, settings: ProgramSettings) -> Callable[[int, int], str]:
    return partial(write_instructions, Path(settings.folder), settings.python, launch.program)


def _stand_in(
    option: Option,
    layout: SmallLayout,
    settings: ProgramSettings,
    names_model: Callable[[Option], bool] = lambda each: each.name in _MODELS,
) -> Option:
    folder = Path(settings.folder)
    if option.arguments and names_model(option):
        copy = copy_small_model(option.arguments[0], folder, layout.layers, settings.python)
        return Option(option.typed, (copy,))
    if option.name in {"dataset", "val-dataset"}:
        return Option(option.typed, (write_conversations(folder),))
    return option


def _shrink_hydra(launch: LaunchWords, settings: ProgramSettings) -> tuple[list[str], int]:
    sizes = parallel_sizes(launch.options)
    layout = shrink_layout(sizes, count_ranks(launch.options) or launch.ranks, settings.npus)
    before = [word for option in launch.options for word in option.words()]
    after = shrink_overrides(before, layout.ranks)
    folder = Path(settings.folder)
    for at, word in enumerate(after):
        key, _, value = word.partition("=")
        if key.endswith(_MODEL_KEYS):
            copy = copy_small_model(value, folder, layout.layers, settings.python)
            after[at] = f"{key}={copy}"
        elif key.endswith(_DATA_KEYS):
            after[at] = f"{key}={write_questions(folder, settings.python)}"
    changed = zip(before, after, strict=False)
    _say(f"{old} to {new.partition('=')[2]}" for old, new in changed if old != new)
    _say(f"{word} is added" for word in after[len(before) :])
    rest = (Option("", tuple(after)),)
    return msgspec.structs.replace(
        launch.on_one_node(layout.ranks), options=rest
    ).words(), layout.ranks


def _shrink_llama_factory(
    launch: LaunchWords, settings: ProgramSettings, ranks: int | None
) -> tuple[list[str], int]:
    file, *others = launch.options[0].arguments
    sizes = llama_factory.parallel_sizes(llama_factory.read_settings(file))
    layout = shrink_layout(sizes, launch.ranks or ranks, settings.npus)
    folder = Path(settings.folder)

    def copy_model(model: str) -> str:
        return copy_small_model(model, folder, layout.layers, settings.python)

    words = llama_factory.shrink_words(file, others, folder, copy_model)
    _say(f"{word} is added" for word in words[len(others) :])
    options = (Option("", (file, *words)), *launch.options[1:])
    small = msgspec.structs.replace(launch.on_one_node(layout.ranks), options=options)
    return small.words(), layout.ranks


def start_ranks(
    program: str, words: Sequence[str], settings: ProgramSettings, nproc: int | None = None
) -> list[str] | None:
    """The command for a launch's ranks at its true size, or None. Raises DataError."""
    launch = split_launch(program, words)
    size = settings.size
    if size is None or not launch.starts_ranks or launch.accelerate:
        return None
    before = launch.options
    laid_out = replace_options(before, size.words, size.without)
    launch = msgspec.structs.replace(launch, options=laid_out)
    world = size.world or launch.ranks or nproc or 1
    each = next((o.number for o in launch.places if o.name == "nproc-per-node"), None)
    real = size.real or tuple(choose_ranks(launch, world, size.each))
    if real[-1] >= world:
        raise DataError(f"--real {spans(real)}: the launch has {world} ranks, from 0")
    if is_pretraining(launch.options):
        options = place_stand_ins(launch.options, _writer(launch, settings), size.steps)
    else:
        folder = Path(settings.folder)

        def copy_model(model: str) -> str:
            _say([f"{model} has no weights here; those of its copy are holes"], TRUE_SIZE)
            return copy_small_model(model, folder, None, settings.python)

        options = place_inputs(launch, folder, size.steps, copy_model)
    _say(describe(before, options), TRUE_SIZE)
    if len(real) < world:
        _say([f"{len(real)} of {world} ranks have a process: {spans(real)}"], TRUE_SIZE)
    placed = [word for option in options for word in option.words()]
    ranks = ",".join(map(str, real))
    start = [settings.python, "-m", "ascend_simulator.ranks", str(world)]
    return [*start, str(min(each or settings.npus, world)), ranks, *launch.program, *placed]


def _say(changes: Iterable[str], how: str = "shrunk") -> None:
    for change in changes:
        sys.stderr.write(f"ascend-doctor: simulated: {how}: {one_line(change)}\n")
    sys.stderr.flush()


def _count_ranks(env: Mapping[str, str]) -> int | None:
    each, nodes = env.get("NPROC_PER_NODE", ""), env.get("NNODES", "1")
    return int(each) * int(nodes) if each.isdigit() and nodes.isdigit() else None


def main() -> None:
    """Start the real program, with a small launch for a training."""
    program, *words = sys.argv[1:]
    settings = msgspec.json.decode(os.environ[_SETTINGS], type=ProgramSettings)
    folders = os.environ["PATH"].split(":")
    path = ":".join(folder for folder in folders if folder != settings.folder)
    env = dict(os.environ)
    if settings.size:
        holes = f"{env.get('ASCEND_HOME_PATH')}/lib64/{HOLES_LIBRARY}"
        os.environ["LD_PRELOAD"] = prepend_path(holes, env.get("LD_PRELOAD"))
    try:
        if start := start_ranks(program, words, settings, _count_ranks(env)):
            os.execve(settings.python, start, {**os.environ, "PATH": path})  # noqa: S606
        real = shutil.which(program, path=path)
        if real is None:
            raise DataError(f"{program}: no such program")
        small = None if settings.size else shrink(program, words, settings, _count_ranks(env))
    except DoctorError as error:
        aim = f"start {TRUE_SIZE}" if settings.size else "shrink"
        sys.stderr.write(f"ascend-doctor: simulated: cannot {aim}: {one_line(str(error))}\n")
        sys.exit(2)
    if small is not None:
        words, ranks = small
        env |= {"PATH": path, "NNODES": "1", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
        if (cached := Path(settings.folder, DATA_SET)).is_dir():
            env["HF_DATASETS_CACHE"] = f"{cached}-read"
        if program in {"megatron", "swift", _LLAMA_FACTORY}:
            env["NPROC_PER_NODE"] = str(ranks)
            # ms-swift divides a model among NPUs without a rank.
            visible = [*filter(None, env.get(_VISIBLE, "").split(","))]
            env[_VISIBLE] = ",".join((visible or [*map(str, range(settings.npus))])[:ranks])
    os.execve(real, [real, *words], env)  # noqa: S606 - what the user's own script starts
