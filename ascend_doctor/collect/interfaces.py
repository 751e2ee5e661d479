"""Network interfaces and listening ports, by netlink(7): rtnetlink(7) and sock_diag(7).

psutil reports the same, but its import takes longer than most of level 0, so only tests use it. The
enums of ``socket`` take longer to build than all of this to run, the kernel longer to write
``/proc/net/tcp``.
"""

import _socket as socket
import contextlib
import os
import struct
from collections.abc import Iterator
from typing import Any

_ROUTE, _SOCKETS = 0, 4  # NETLINK_ROUTE, NETLINK_SOCK_DIAG
_GET_LINKS, _GET_ADDRESSES, _GET_SOCKETS = 18, 22, 20  # RTM_GETLINK, RTM_GETADDR
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_RUNNING = 0x40  # IFF_RUNNING
_NAME, _ADDRESS, _LOCAL = 3, 1, 2  # IFLA_IFNAME, IFA_ADDRESS, IFA_LOCAL
_TCP, _LISTEN = 6, 10


def interfaces() -> list[dict[str, Any]]:
    """``name``, ``addresses`` (IPv4, then IPv6) and ``up``, by name. Raises OSError."""
    rows: dict[int, dict[str, Any]] = {}
    for message in _dump(_ROUTE, _GET_LINKS, bytes(16)):
        index, flags = struct.unpack_from("=iI", message, 4)
        name = _attributes(message[16:])[_NAME].rstrip(b"\0").decode("utf-8", "replace")
        rows[index] = {"name": name, "addresses": [], "up": bool(flags & _RUNNING)}
    for message in _dump(_ROUTE, _GET_ADDRESSES, bytes(8)):
        family, index = struct.unpack_from("=B3xi", message)
        if index in rows and family in (socket.AF_INET, socket.AF_INET6):
            attributes = _attributes(message[8:])
            # IFA_ADDRESS of a point-to-point link is that of the other end.
            address = attributes[_LOCAL] if _LOCAL in attributes else attributes[_ADDRESS]
            rows[index]["addresses"].append(socket.inet_ntop(family, address))
    return sorted(rows.values(), key=lambda row: row["name"])


def listening_ports() -> list[int]:
    """TCP ports in state LISTEN, of IPv4 and IPv6. Raises OSError."""
    return sorted(
        {
            struct.unpack_from(">H", message, 4)[0]
            for family in (socket.AF_INET, socket.AF_INET6)
            for message in _dump(
                _SOCKETS, _GET_SOCKETS, struct.pack("=BBxxI48x", family, _TCP, 1 << _LISTEN)
            )
        }
    )


def _dump(protocol: int, kind: int, request: bytes) -> Iterator[bytes]:
    """Payload of each message that the kernel answers."""
    with contextlib.closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)) as asked:
        header = struct.pack("=IHHII", 16 + len(request), kind, _DUMP, 0, 0)
        asked.sendto(header + request, (0, 0))
        while True:
            answer = asked.recv(1 << 17)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", answer, 16)[0]
                    raise OSError(code, os.strerror(code))
                yield answer[16:length]
                answer = answer[(length + 3) & ~3 :]


def _attributes(data: bytes) -> dict[int, bytes]:
    """Each attribute of type ``struct rtattr``."""
    attributes = {}
    while data:
        length, kind = struct.unpack_from("=HH", data)
        attributes[kind] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return attributes
