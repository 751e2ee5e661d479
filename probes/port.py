"""Binds the port at which ranks meet, as rank 0 would, and finds free ones.

It is MASTER_PORT, or torchrun's 29500. Recorded: ``error`` of the bind, "" where it succeeds;
``here``, whether MASTER_ADDR is this machine; and ``free``, three ports that were free: for the
ranks, and for two stores of side groups.
"""

from __future__ import annotations

import os
import socket

import _probe
from _probe import Probe

MANIFEST = {
    "order": 30,
    "level": 1,
    "seconds": 30,
    "seconds_cpu": 30,
    # It imports nothing, so it says what it sees where torch does not import, too.
    "needs": [],
    "does": "binds the port of rank 0 and finds free ones",
    "on_cpu": "the same",
}

TORCHRUN = 29500
FREE = 3


def body(probe: Probe) -> None:
    """Whether rank 0 could listen where the other ranks look for it."""
    text = os.environ.get("MASTER_PORT", str(TORCHRUN))
    probe.measure("port", text)
    with probe.stage("bind"):
        probe.measure("error", explain_refusal(int(text)) if text.isdecimal() else "no number")
        probe.measure("here", ours(os.environ.get("MASTER_ADDR", "")))
    with probe.stage("free"):
        probe.measure("free", free())


def explain_refusal(port: int) -> str:
    """Why this port cannot be bound, as torch's store binds it: on all addresses of both kinds."""
    both = socket.has_dualstack_ipv6()
    kind = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=kind, dualstack_ipv6=both).close()
    except (OSError, OverflowError) as reason:
        return str(reason)
    return ""


def ours(address: str) -> bool:
    """Whether a socket can be bound to this address; rank 0 may be on another node."""
    try:
        addresses = socket.getaddrinfo(address or None, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(can_bind(kind, address) for kind, *_, address in addresses)


def can_bind(kind: int, address: object) -> bool:
    try:
        with socket.socket(kind, socket.SOCK_STREAM) as tried:
            tried.bind(address)
    except OSError:
        return False
    return True


def free() -> list[int]:
    """Ports that the kernel gives; held all at once, so that they differ."""
    held = [socket.socket() for _ in range(FREE)]
    for listener in held:
        listener.bind(("", 0))
    ports = [int(listener.getsockname()[1]) for listener in held]
    for listener in held:
        listener.close()
    return ports


if __name__ == "__main__":
    _probe.main(body, name="port")
