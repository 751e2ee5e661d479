"""Runs parts of a probe in processes that a crash, a hang or a poisoned device may take.

One process runs cases as long as they end well. A case that fails after others is repeated as the
first of a fresh process, and only what it does there counts, so that no case is blamed for what
another one did to the device.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import _probe
import _spares
from _probe import Probe

CHILD = "--run-cases"
IMPORT_SECONDS = 120.0 * _probe.PATIENCE
KEPT = 2000

# A case gets torch and its device string, and gives measurements.
Case = Callable[[Any, str], dict[str, Any]]
Outcomes = dict[str, dict[str, Any]]


def run(
    probe: Probe,
    script: str,
    names: Sequence[str],
    *,
    limit: float,
    apart: bool = False,
    cases: Mapping[str, Case] | None = None,
) -> Outcomes:
    """Measurements of every case by name; ``error`` says how one ended that failed.

    ``limit`` are the seconds for one case, ``apart`` gives every case a process of its own. What is
    ended earlier, because the probe has no more time, says so and is no hang. The outcomes so far
    are recorded as ``cases``. With torch and the ``cases`` themselves it forks; it must not touch
    a device then.
    """
    outcomes: Outcomes = {}
    pending = list(names)
    while pending:
        together = pending[:1] if apart else pending
        fork = cases if "torch" in sys.modules else None
        child = Child(script, CHILD, probe.device, *together, fork=fork)
        for position, (name, outcome) in enumerate(_outcomes(probe, child, together, limit)):
            outcomes[name] = outcome
            probe.measure("cases", outcomes)
            if "error" in outcome:
                if outcome["error"].startswith("TimeoutError: no "):
                    probe.measure("late", value=True)
                # Only the first case of a process had the device as it should be.
                pending = pending[position or 1 :]
                break
        else:
            pending = pending[len(together) :]
    return outcomes


def _outcomes(
    probe: Probe, child: Child, names: Sequence[str], limit: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The outcomes of one process, in order, until one has an error."""
    try:
        with probe.stage(f"import for case {names[0]}"):
            seconds = min(IMPORT_SECONDS, probe.left())
            ready = child.next(seconds, of=IMPORT_SECONDS)
        if "error" in ready:
            yield names[0], ready
            return
        for name in names:
            with probe.stage(f"case {name}"):
                # The rest is for the record of a case that does not end.
                whole = limit * _probe.PATIENCE
                outcome = child.next(min(whole, max(probe.left() - 5, 1)), of=whole)
            yield name, outcome
            if "error" in outcome:
                return
    finally:
        child.close()


class Child:
    """A process that answers in JSON lines, and how it ended should there be no more.

    ``script`` is started with ``flag``, the device, the descriptor to answer to, and ``rest``, in a
    spare process where there is one; or this process forks one that runs the cases of ``rest``.
    """

    def __init__(
        self,
        script: str,
        flag: str,
        device: str,
        *rest: str,
        fork: Mapping[str, Case] | None = None,
    ) -> None:
        self._reader, writer = os.pipe()
        spare = _spares.take()
        if fork:
            self._pid, self._stderr = _fork(fork, device, writer, rest)
        elif spare is not None:
            self._stderr, stderr = os.pipe()
            with open(os.devnull, "w") as null:
                command = [script, flag, device, _spares.PASSED, *rest]
                spare.start(command, os.environ, (stderr, null.fileno(), writer))
            os.close(stderr)
            self._pid = spare.pid
        else:
            child = subprocess.Popen(  # noqa: S603 - argument list, no shell
                [sys.executable, script, flag, device, str(writer), *rest],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(writer,),
                start_new_session=True,
            )
            assert child.stderr is not None  # noqa: S101 - it is a pipe
            self._pid, self._stderr = child.pid, os.dup(child.stderr.fileno())
            child.stderr.close()
            child.returncode = 0  # it is waited for by its number
        self._code: int | None = None
        os.close(writer)
        self._lines = b""
        self._printed = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reader, selectors.EVENT_READ, "answer")
        self._selector.register(self._stderr, selectors.EVENT_READ, "print")

    def next(self, seconds: float, *, of: float = 0.0) -> dict[str, Any]:
        """The next answer; an end or a time-out is an answer, too.

        ``of``: the seconds that it would have with time enough.
        """
        wait = _probe.waiting.Deadline(seconds, self._pid)
        while b"\n" not in self._lines:
            left = wait.time_left()
            if left <= 0:
                os.kill(self._pid, signal.SIGUSR1)  # for its stack, where it prints one
                self._read(0.5)
                what = f"no time left, {seconds:.0f} of" if seconds < of else "no end after"
                return self._error(f"TimeoutError: {what} {max(seconds, of):.0f} s")
            if not self._selector.get_map():
                return self._error(f"ChildProcessError: the process {self._ending()}")
            self._read(min(left, 1.0))
        line, self._lines = self._lines.split(b"\n", 1)
        return dict(json.loads(line))

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            data = os.read(key.fd, 65536)
            if not data:
                self._selector.unregister(key.fd)
            elif key.data == "answer":
                self._lines += data
            else:
                self._printed = (self._printed + data)[-KEPT:]

    def _error(self, text: str) -> dict[str, Any]:
        output = self._printed.decode("utf-8", "replace")
        return {"error": text, "output": output}

    def _ending(self) -> str:
        code = self._wait()
        if code >= 0:
            return f"ended with exit code {code}"
        return f"crashed with {signal.Signals(-code).name}"

    def _wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code

    def close(self) -> None:
        """End the child and all that it started; compilers of operators are its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            if self._code is None:  # it may not have a group yet
                os.kill(self._pid, signal.SIGKILL)
        self._wait()
        self._selector.close()
        os.close(self._reader)
        os.close(self._stderr)


def _fork(
    cases: Mapping[str, Case], device: str, writer: int, names: Sequence[str]
) -> tuple[int, int]:
    """A child that runs cases: its number, and what it prints."""
    reader, stderr = os.pipe()
    pid = _probe.fork()
    if not pid:
        # A group of its own, which `close` ends with the compilers that the case starts.
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, number in ((null, 0), (null, 1), (stderr, 2)):
            os.dup2(descriptor, number)
        os.close(reader)
        _answer(cases, device, writer, names, bare=False)
    os.close(stderr)
    return pid, reader


def answer(cases: Mapping[str, Case], *, bare: bool = False) -> None:
    """Run the cases that the arguments name and end, where this process is such a child.

    ``bare``: the cases import torch themselves, in an order that matters, and get None for it.
    """
    if sys.argv[1:2] == [CHILD]:
        _, _, device, writer, *names = sys.argv
        sys.argv[1:] = []
        _probe.leave_folder()
        _answer(cases, device, int(writer), names, bare=bare)


def _answer(
    cases: Mapping[str, Case], device: str, writer: int, names: Sequence[str], *, bare: bool
) -> NoReturn:
    _probe.die_with_parent()
    faulthandler.enable()
    fault = _probe.fault_of(0)
    try:
        torch = None if bare else _probe.import_torch(device)
        device_name = "cpu" if device == "cpu" else f"{device}:0"
        accelerator = None if bare or device == "cpu" else getattr(torch, device)
        if accelerator:
            accelerator.set_device(0)
        say(writer, {})
        for name in names:
            _probe.fail_on_purpose(fault, f"inside {name}")
            start = time.monotonic()
            outcome = cases[name](torch, device_name)
            # Calls only enqueue: what fails on the device shows up here.
            if accelerator:
                accelerator.synchronize()
            say(writer, {**outcome, "seconds": time.monotonic() - start})
    except BaseException as error:  # noqa: BLE001 - SystemExit of a library is a result, too
        say(writer, {"error": _probe.innermost(error)})
    # The exit handlers of a broken accelerator may hang.
    os._exit(0)


def say(writer: int, outcome: dict[str, Any]) -> None:
    """Answer the parent, from a child."""
    os.write(writer, json.dumps(_probe.plain(outcome)).encode() + b"\n")
