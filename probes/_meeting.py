"""Where the agents of several nodes meet: one store, which the agent of node 0 holds.

Everything here may fail because of the infrastructure, and raises NoMeeting then: that is no fault
of a node or of its links.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from _pair import tcp_sockets
from _probe import Nodes

PREFIX = "ascend-doctor/pair-rounds"
LOOK_SECONDS = 0.2
# An answer of the store takes milliseconds.
ANSWER_SECONDS = 15
CONNECT_SECONDS = 10


class NoMeeting(Exception):  # noqa: N818 - a reason why nothing can be told
    """The agents do not meet, or no more; the message says why."""


class Meeting:
    """The store, as one agent uses it. Values are whatever JSON can hold."""

    def __init__(self, nodes: Nodes, *, end: float) -> None:
        """Hold the store or come to it, until ``end`` of time.monotonic."""
        self.nodes = nodes
        self._guard = Guard(nodes.port)
        self._store = self._open_own() if nodes.rank == 0 else self._reach(end)

    def _open_own(self) -> Any:
        store = self._open(is_master=True)
        store.set(f"{PREFIX}/here", b"1")
        return store

    def _reach(self, end: float) -> Any:
        """Another program may hold the port for a while, such as a launch that ends there."""
        why = "nothing listens there"
        while (left := end - time.monotonic()) > 0:
            address = (self.nodes.address, self.nodes.port)
            try:
                socket.create_connection(address, timeout=min(left, CONNECT_SECONDS)).close()
                store = self._open(is_master=False)
                while time.monotonic() < end:
                    with self._guard.within(ANSWER_SECONDS):
                        # Whatever listens may be the store of another launch, which does not have
                        # the key.
                        if store.check([f"{PREFIX}/here"]):
                            return store
                    why = "what listens there is no agent of node 0"
                    time.sleep(LOOK_SECONDS)
            except (OSError, RuntimeError, NoMeeting) as error:
                why = str(error) or "it ends the connection"
            time.sleep(LOOK_SECONDS)
        raise NoMeeting(f"{self.nodes.address}:{self.nodes.port} was not reached: {why}")

    def _open(self, *, is_master: bool) -> Any:
        import torch.distributed as dist

        with self._guard.within(ANSWER_SECONDS):
            return dist.TCPStore(
                self.nodes.address,
                self.nodes.port,
                is_master=is_master,
                wait_for_workers=False,
                timeout=timedelta(seconds=CONNECT_SECONDS),
            )

    def tell(self, key: str, value: Any) -> None:
        """Set a value that others look for."""
        with self._guard.within(ANSWER_SECONDS):
            self._store.set(f"{PREFIX}/{key}", json.dumps(value))

    def look_up(self, key: str) -> Any:
        """The value, None where it is not there yet."""
        with self._guard.within(ANSWER_SECONDS):
            if not self._store.check([f"{PREFIX}/{key}"]):
                return None
            return json.loads(self._store.get(f"{PREFIX}/{key}"))

    def wait(self, key: str, *, end: float) -> Any:
        """The value, as soon as it is there. Raises NoMeeting at ``end``."""
        while (value := self.look_up(key)) is None:
            if time.monotonic() > end:
                raise NoMeeting(f"node 0 did not go on with {key} in time")
            time.sleep(LOOK_SECONDS)
        return value


class Guard:
    """Ends connections to the store over which nothing comes for too long.

    torch's store waits for an answer without a limit, be it of a host that went away without a
    word or of a program that is no store.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._end = math.inf
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Raises NoMeeting for what fails, in about as many seconds at most."""
        self._end = time.monotonic() + seconds
        try:
            yield
        except (RuntimeError, ValueError, OSError) as error:
            raise NoMeeting(str(error).partition("\n")[0]) from error
        finally:
            self._end = math.inf

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            if time.monotonic() > self._end:
                for tcp_socket in tcp_sockets():
                    with tcp_socket, contextlib.suppress(OSError):
                        if tcp_socket.getpeername()[1] == self._port:
                            tcp_socket.shutdown(socket.SHUT_RDWR)
