"""Where the agents of several nodes meet: one store, which the agent of node 0 holds.

Everything here may fail because of the infrastructure, and raises NoMeeting then: that is no fault
of a node or of its links.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from datetime import timedelta
from typing import Any

from _pair import tcp_sockets
from _probe import Nodes

PREFIX = "ascend-doctor/pair-rounds"
LOOK_SECONDS = 0.2
# A host that went away without a word is noticed after this many seconds.
SILENCE = 15
CONNECT_SECONDS = 10


class NoMeeting(Exception):  # noqa: N818 - a reason why nothing can be told
    """The agents do not meet, or no more; the message says why."""


class Meeting:
    """The store, as one agent uses it. Values are whatever JSON can hold."""

    def __init__(self, nodes: Nodes, *, end: float) -> None:
        """Hold the store or come to it, until ``end`` of time.monotonic."""
        self.nodes = nodes
        self._store = self._held() if nodes.rank == 0 else self._reached(end)

    def _held(self) -> Any:
        store = self._open(is_master=True)
        store.set(f"{PREFIX}/here", b"1")
        return store

    def _reached(self, end: float) -> Any:
        """Another program may hold the port for a while, such as a launch that ends there."""
        why = "nothing listens there"
        while (left := end - time.monotonic()) > 0:
            place = (self.nodes.address, self.nodes.port)
            try:
                socket.create_connection(place, timeout=min(left, CONNECT_SECONDS)).close()
                store = self._open(is_master=False)
                while time.monotonic() < end:
                    if store.check([f"{PREFIX}/here"]):
                        return store
                    why = "what listens there is no agent of node 0"
                    time.sleep(LOOK_SECONDS)
            except (OSError, RuntimeError, NoMeeting) as error:
                why = str(error)
            time.sleep(LOOK_SECONDS)
        raise NoMeeting(f"{self.nodes.address}:{self.nodes.port} was not reached: {why}")

    def _open(self, *, is_master: bool) -> Any:
        import torch.distributed as dist

        try:
            store = dist.TCPStore(
                self.nodes.address,
                self.nodes.port,
                is_master=is_master,
                wait_for_workers=False,
                timeout=timedelta(seconds=CONNECT_SECONDS),
            )
        except (RuntimeError, ValueError) as error:
            raise NoMeeting(str(error).partition("\n")[0]) from error
        watch_silence(self.nodes.port)
        return store

    def tell(self, key: str, value: Any) -> None:
        """Set a value that others look for."""
        with _meeting_lost():
            self._store.set(f"{PREFIX}/{key}", json.dumps(value))

    def told(self, key: str) -> Any:
        """The value, None where it is not there yet."""
        with _meeting_lost():
            if not self._store.check([f"{PREFIX}/{key}"]):
                return None
            return json.loads(self._store.get(f"{PREFIX}/{key}"))

    def wait(self, key: str, *, end: float) -> Any:
        """The value, as soon as it is there. Raises NoMeeting at ``end``."""
        while (value := self.told(key)) is None:
            if time.monotonic() > end:
                raise NoMeeting(f"node 0 did not go on with {key} in time")
            time.sleep(LOOK_SECONDS)
        return value


@contextlib.contextmanager
def _meeting_lost() -> Any:
    try:
        yield
    except (RuntimeError, OSError) as error:
        raise NoMeeting(f"node 0 was lost: {str(error).partition(chr(10))[0]}") from error


def watch_silence(port: int) -> None:
    """Let connections to the store fail once nothing comes back any more: it has no limit itself.

    See man 7 tcp for the options.
    """
    for one in tcp_sockets():
        with one, contextlib.suppress(OSError):
            if one.getpeername()[1] == port:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in (
                    (socket.TCP_KEEPIDLE, SILENCE // 3),
                    (socket.TCP_KEEPINTVL, SILENCE // 3),
                    (socket.TCP_KEEPCNT, 2),
                    (socket.TCP_USER_TIMEOUT, SILENCE * 1000),
                ):
                    one.setsockopt(socket.IPPROTO_TCP, option, value)
