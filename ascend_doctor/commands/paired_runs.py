"""Runs a job twice, on the CPU and on NPUs, and records both."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ascend_doctor.collect.device_nodes import device_nodes
from ascend_doctor.commands.env import environment
from ascend_doctor.commands.kept_launch import diagnose_kept, run_supervised
from ascend_doctor.commands.rehearsal import (
    Rehearsal,
    find_interpreter,
    launch_environment,
    prepare,
    search_path,
)
from ascend_doctor.errors import DataError
from ascend_doctor.language import say
from ascend_doctor.machine import scratch
from ascend_doctor.machine.hooks import prepend_path
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.patience import patience
from ascend_doctor.precision import RECORDER
from ascend_doctor.precision.dumps import read_dump
from ascend_doctor.precision.records import Dump
from ascend_doctor.progress import RUNS, TaskDisplay
from ascend_doctor.provision import lock as locks
from ascend_doctor.render.notices import notice
from ascend_doctor.simulator import machine

DEVICE = "ASCEND_DOCTOR_DEVICE"
_LOG = "ascend-doctor-compare-{}.log"
_CPU, _NPU, _SIMULATED = ("the CPU", "the NPU", "the simulated NPU")


class RecorderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to record of a run of at most ``seconds``."""

    steps: int
    seed: int
    keep_dropout: bool
    seconds: float

    def environment(self, base: Mapping[str, str], dump: str, device: str) -> dict[str, str]:
        """For a job whose modules are recorded into the folder ``dump``."""
        env = {
            **base,
            "PYTHONPATH": prepend_path(RECORDER, base.get("PYTHONPATH")),
            # Set order may decide the order of modules or data.
            "PYTHONHASHSEED": "0",
            "ASCEND_DOCTOR_RECORD": dump,
            "ASCEND_DOCTOR_RECORD_STEPS": str(self.steps),
            "ASCEND_DOCTOR_RECORD_SEED": str(self.seed),
        }
        if self.keep_dropout:
            env["ASCEND_DOCTOR_RECORD_DROPOUT"] = "1"
        return {**env, DEVICE: device} if device else env


class DumpPair(NamedTuple):
    reference: Dump
    other: Dump
    names: tuple[str, str]


class Home(NamedTuple):
    """A job's interpreter, and the variables of its stack or of this shell."""

    interpreter: str
    env: dict[str, str]
    stack: Path | None


class NpuMachine(NamedTuple):
    home: Home
    simulated: Rehearsal | None

    @property
    def name(self) -> str:
        return _SIMULATED if self.simulated else _NPU


def find_home(stack: Path | None, python: str | None) -> Home:
    """Of a stack in a folder, or the active environment. Raises DataError, DoctorError."""
    if stack is None:
        return Home(find_interpreter(python), dict(os.environ), None)
    lock = locks.read(stack)
    interpreter = find_interpreter(python, stack, lock)
    return Home(interpreter, environment(LiveMachine(os.environ), stack, lock), stack)


def choose_npu(device: str, home: Home, *, npus: int, memory: float) -> NpuMachine:
    """NPUs of this machine, or simulated ones with so many GiB each. Raises DataError."""
    real = any(node.kind == "device" for node in device_nodes(LiveMachine()))
    if device == "npu" and not real:
        raise DataError("--device npu: this machine has no NPU; --device simulated needs none")
    if real and device != "simulated":
        return NpuMachine(home, None)
    server = machine("a2-8", npus=npus, memory=int(memory * (1 << 30)))
    return NpuMachine(home, prepare(home.stack, home.interpreter, server, ()))


def record_run(launch: Sequence[str], dump: str, options: RecorderOptions, home: Home) -> int:
    """Run a job as it is and write its dump; gives its exit code. Raises DataError."""
    _new_folder(dump)
    path = search_path(home.interpreter, launch, env=home.env)
    env = options.environment({**home.env, "PATH": path}, os.path.abspath(dump), "")
    seconds = options.seconds * patience().factor
    log = _LOG.format("record")
    code = run_supervised(launch, log, env, folder=scratch.new_folder(), seconds=seconds)
    if code == 0:
        read_dump(dump)
    return code


def run_pair(
    launch: Sequence[str], npu: NpuMachine, options: RecorderOptions, keep: str | None
) -> DumpPair | None:
    """Run on CPU, then NPUs; None if one failed. Raises DataError: no record, or wrong device."""
    if keep:
        _new_folder(keep)
    folder = Path(keep).absolute() if keep else scratch.new_folder()
    home = npu.home
    path = search_path(home.interpreter, launch, env=home.env)
    plain = {**home.env, "PATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    if npu.simulated:
        other = launch_environment(npu.simulated, launch)
    else:
        other = {**home.env, "PATH": path}
    dumps = []
    runs = (("cpu", _CPU, plain), ("npu", npu.name, other))
    titles = {name: say(f"the run on {name}") for _, name, _ in runs}
    display = TaskDisplay(RUNS, [*titles.values()])
    for device, name, base in runs:
        log = _LOG.format(device)
        env = options.environment(base, str(folder / device), device)
        seconds = options.seconds * patience().factor
        unfinished = scratch.new_folder()
        with display, display.run(titles[name]):
            code = run_supervised(launch, log, env, folder=unfinished, shown=False, seconds=seconds)
        if code:
            notice(f"the run on {name} failed; nothing is compared")
            diagnose_kept(log, code, simulated=name != _NPU)
            return None
        dumps.append(_read(folder / device, device, name, log))
    return DumpPair(dumps[0], dumps[1], (_CPU, npu.name))


def _read(folder: Path, device: str, name: str, log: str) -> Dump:
    if not folder.is_dir():
        message = "no module of torch was called in a process that our recorder saw"
        raise DataError(f"nothing was recorded on {name}: {message} ({log})")
    dump = read_dump(str(folder))
    for rank, records in dump.ranks.items():
        if records.device != device:
            raise DataError(
                f"{rank} computed on {records.device} where it should have on {name}: let the job "
                f"take its device from {DEVICE}, which is cpu or npu"
            )
    return dump


def _new_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise DataError(f"{path}: not empty; name a new folder")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
