"""A pytest plugin: simulated NPUs for the tests of other projects, in process and under a launcher.

``pytest -p ascend_doctor.testing --simulated-npus 8``. Needs torch, torch_npu and a C compiler.
"""

import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.commands.rehearsal import launch_environment, prepare
from ascend_doctor.diagnosis.next_step import SIMULATED
from ascend_doctor.errors import DoctorError
from ascend_doctor.machine import scratch
from ascend_doctor.probing.keeper import command_of_keeper
from ascend_doctor.simulator import SimulatedMachine, machine
from ascend_doctor.simulator.ledger import new_ledger

_OPTION = "--simulated-npus"
_COUNT = "ASCEND_SIMULATOR_DEVICES"
_KIND = "a2-8"
_MOST = 16
# The keeper ends the rest of the launch when its life line closes.
_GRACE = 30.0


class SimulatedNpus(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated NPUs that tests run on: ``count`` of chip ``soc``, ``memory`` bytes each."""

    count: int
    soc: str
    memory: int

    def run(
        self,
        *command: str,
        faults: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        timeout: float = 600.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a new machine with as many NPUs; nothing that it starts stays.

        ``faults`` are those of the machine, as ``rank-hangs:rank=1``; ``env`` has additional
        variables, ``timeout`` is in seconds. Raises DataError for a fault or program that does
        not exist, subprocess.TimeoutExpired after everything has been ended.
        """
        server = machine(_KIND, soc=self.soc, npus=self.count, memory=self.memory)
        rehearsal = prepare(None, sys.executable, server, faults, quiet=True)
        life_line, ours = os.pipe()
        try:
            variables = {**launch_environment(rehearsal, command), **(env or {})}
            keeper = command_of_keeper(command, life_line, str(rehearsal.scratch))
            with subprocess.Popen(  # noqa: S603 - the test's own command, no shell
                keeper,
                env=variables,
                cwd=cwd,
                pass_fds=(life_line,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            ) as process:
                try:
                    printed = process.communicate(timeout=timeout)
                finally:
                    os.close(ours)
                    process.wait(_GRACE)
            return subprocess.CompletedProcess(list(command), process.returncode, *printed)
        finally:
            os.close(life_line)
            scratch.remove(rehearsal.scratch)

    def torchrun(
        self,
        *arguments: str,
        ranks: int | None = None,
        faults: Sequence[str] = (),
        cwd: str | Path | None = None,
        timeout: float = 600.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with its arguments on so many ranks, a rank an NPU; otherwise as ``run``."""
        launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
        number = f"--nproc-per-node={ranks or self.count}"
        return self.run(*launcher, number, *arguments, faults=faults, cwd=cwd, timeout=timeout)


@pytest.hookimpl
def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("ascend-doctor").addoption(
        _OPTION,
        type=int,
        metavar="N",
        help=f"Run all tests in a process that has N simulated Ascend NPUs, 1 to {_MOST}.",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Start pytest again on the simulated machine, before output is captured and torch imported.

    The loader reads where CANN's libraries are when a process starts, and not later.
    """
    npus = early_config.known_args_namespace.simulated_npus
    if npus is not None and os.environ.get(SIMULATED) != "1":
        if not 1 <= npus <= _MOST:
            raise pytest.UsageError(f"{_OPTION} {npus}: 1 to {_MOST} are possible")
        env = _environment(machine(_KIND, npus=npus))
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)  # noqa: S606
    return (yield)


def _environment(server: SimulatedMachine) -> dict[str, str]:
    try:
        rehearsal = prepare(None, sys.executable, server, (), quiet=True)
    except DoctorError as error:
        raise pytest.UsageError(f"{_OPTION}: {error}") from error
    scratch.remove(rehearsal.scratch)
    return {**rehearsal.env, SIMULATED: "1", "ASCEND_SIMULATOR_LEDGER": str(new_ledger())}


@pytest.hookimpl
def pytest_report_header() -> str | None:
    npus = _npus()
    if npus is None:
        return None
    return f"ascend-doctor: simulated: {npus.count} {npus.soc}; nothing here is about hardware"


@pytest.fixture(scope="session", name="simulated_npus")
def find_npus() -> SimulatedNpus:
    """The simulated NPUs of this process; a test that asks for them is skipped without any."""
    npus = _npus()
    if npus is None:
        pytest.skip(f"no simulated NPUs: start pytest with -p {__name__} {_OPTION} 8")
    return npus


def _npus() -> SimulatedNpus | None:
    if os.environ.get(SIMULATED) != "1" or _COUNT not in os.environ:
        return None
    return SimulatedNpus(
        count=int(os.environ[_COUNT]),
        soc=os.environ["ASCEND_SIMULATOR_SOC"],
        memory=int(os.environ["ASCEND_SIMULATOR_MEMORY"]),
    )
