"""The process that forks the ranks of a pair, and ends them at the pair's deadline.

It has torch, and neither device, group, store nor thread, so that each pair begins anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from typing import Any, NoReturn

import _probe
from _pair import Job, measure

LINE = 65536


class Forks:
    """The process that forks the ranks of a pair, as its owner sees it."""

    def __init__(self) -> None:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        child = _probe.fork()
        if not child:
            os.close(self._orders)
            os.close(self._answers)
            _serve(orders, answers)
        os.close(orders)
        os.close(answers)
        self._rest = b""

    def begin(self, job: Job) -> None:
        """Start the ranks of this node. ``answer`` tells how they did."""
        os.write(self._orders, json.dumps(job).encode() + b"\n")

    def end(self) -> None:
        """End the ranks before their deadline."""
        os.write(self._orders, b"null\n")

    def answer(self, seconds: float) -> list[dict[str, Any]] | None:
        """What each rank of the job came to, or None where they are not done yet.

        Raises EOFError where the process is gone.
        """
        poller = selectors.DefaultSelector()
        poller.register(self._answers, selectors.EVENT_READ)
        if poller.select(seconds):
            data = os.read(self._answers, LINE)
            if not data:
                raise EOFError("the process that forks the ranks of pairs is gone")
            self._rest += data
        poller.close()
        if b"\n" not in self._rest:
            return None
        line, self._rest = self._rest.split(b"\n", 1)
        answers: list[dict[str, Any]] = json.loads(line)
        return answers


def _serve(orders: int, answers: int) -> NoReturn:
    """Fork the ranks of one job after the other, until the owner is gone."""
    _probe.die_with_parent()
    rest = b""
    while True:
        data = os.read(orders, LINE)
        if not data:
            os._exit(0)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            job = json.loads(line)
            # The order to end a job that has ended by itself is late.
            if job is not None:
                os.write(answers, json.dumps(_ranks(job, orders)).encode() + b"\n")


def _ranks(job: Job, orders: int) -> list[dict[str, Any]]:
    """Run the ranks of this node to their ends or the deadline; the last they told, by rank."""
    answers: list[dict[str, Any]] = [{"stage": "start"} for _ in range(job["local"])]
    rests = [b""] * job["local"]
    poller = selectors.DefaultSelector()
    poller.register(orders, selectors.EVENT_READ, -1)
    pids = []
    for rank in range(job["local"]):
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            _rank(job, rank, writer)
        os.close(writer)
        pids.append(pid)
        poller.register(reader, selectors.EVENT_READ, rank)
    end = time.monotonic() + job["limit"]
    running = len(pids)
    while running and (left := end - time.monotonic()) > 0:
        for key, _ in poller.select(left):
            data = os.read(key.fd, LINE)
            if key.data < 0:
                # The owner has no other orders while a job runs: it ends, or is gone.
                running = 0
            elif not data:
                poller.unregister(key.fd)
                os.close(key.fd)
                running -= 1
            else:
                *lines, rests[key.data] = (rests[key.data] + data).split(b"\n")
                for line in lines:
                    answers[key.data].update(json.loads(line))
    for descriptor in [key.fd for key in poller.get_map().values() if key.data >= 0]:
        os.close(descriptor)
    poller.close()
    for rank, pid in enumerate(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        answers[rank]["code"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return answers


def _rank(job: Job, local_rank: int, writer: int) -> NoReturn:
    """One rank of a pair: it measures, tells and ends."""
    _probe.die_with_parent()
    signal.alarm(int(job["limit"]) + 5)  # the last resort

    def tell(**fields: Any) -> None:
        os.write(writer, json.dumps(_probe.plain(fields)).encode() + b"\n")

    try:
        measure(job, local_rank, tell)
    except BaseException as error:  # noqa: BLE001 - it is the result
        tell(error=_probe.innermost(error)[:400])
        os._exit(1)
    os._exit(0)
