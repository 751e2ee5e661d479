"""Runs a launch for somebody who may die first: whatever ends, all that was started ends."""

import contextlib
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import ascend_doctor
from ascend_doctor.probing.processes import Descendants, adopting_orphans

SIGNALLED = 128  # what a shell adds to the number of a signal
_POLL = 0.1
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(ascend_doctor.__file__)))
_GRACE = 5.0


def command_of_main(module: str) -> tuple[str, ...]:
    # Not by -m: PYTHONPATH is the launch's, and the package may not be installed.
    code = f"import sys; sys.path.append({_ROOT!r}); from {module} import main; main()"
    return (sys.executable, "-I", "-c", code)


def command_of_keeper(command: Sequence[str], life_line: int, folder: str) -> list[str]:
    """The command that runs another one until it ends or we die, and then removes ``folder``.

    ``life_line`` is the descriptor that closes when we die; it has to be passed on. The exit code
    is the other command's, or 128 plus the number of a signal.
    """
    return [*command_of_main(__name__), str(life_line), folder, *command]


def keep(command: Sequence[str], life_line: int, folder: str) -> int:
    """Run a command until it ends or the life line closes, then end the rest; gives its code."""
    with adopting_orphans():
        descendants = Descendants()
        with signals_passed_on() as pass_on_to:
            try:
                process = subprocess.Popen(command)  # noqa: S603 - the user's own command, no shell
            except OSError as error:
                sys.stderr.write(f"{command[0]}: {error.strerror}\n")
                # 127 and 126, as shells report a missing program and one that cannot be run.
                return SIGNALLED - 1 if isinstance(error, FileNotFoundError) else SIGNALLED - 2
            pass_on_to(process)
            code = wait_while_alive(process, life_line)
        if code is None:
            end(process)
        descendants.end()
        if code is None:
            shutil.rmtree(folder, ignore_errors=True)
    code = process.poll() if code is None else code
    return SIGNALLED + 9 if code is None else code if code >= 0 else SIGNALLED - code


def wait_while_alive(
    process: subprocess.Popen[bytes], life_line: int, until: float = math.inf
) -> int | None:
    """The code of a process; None if the clock or the life line requires its end."""
    while process.poll() is None:
        if time.monotonic() >= until:
            return None
        ready, _, _ = select.select([life_line], [], [], _POLL)
        # Nothing to read from a ready pipe: all other ends are closed, so their owner died.
        if ready and not os.read(life_line, 4096):
            return None
    return process.returncode


@contextmanager
def signals_passed_on(
    note: Callable[[], None] = lambda: None,
) -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Pass a scheduler's SIGTERM and Ctrl-C to the launch, whose end is ours.

    Yields the function that registers a process of the launch and sends it earlier signals.
    ``note`` is called for each signal.
    """
    processes: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        early.append(number)
        note()
        for process in processes:
            process.send_signal(number)

    def pass_on_to(process: subprocess.Popen[bytes]) -> None:
        for number in early:
            process.send_signal(number)
        processes.append(process)

    before = {
        number: signal.signal(number, pass_on)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield pass_on_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def main() -> None:
    """Without unwinding."""
    life_line, folder, *command = sys.argv[1:]
    os.set_inheritable(int(life_line), False)  # noqa: FBT003 - the interface of os
    os._exit(keep(command, int(life_line), folder))
