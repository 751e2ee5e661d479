"""Network interfaces and their addresses, by the calls of netdevice(7).

psutil reports the same, but its import takes longer than most of level 0, so only tests use it. The
enums of ``socket`` take longer to build than all of this to run.
"""

import _socket as socket
import array
import contextlib
import fcntl
import struct
from collections import defaultdict
from typing import Any

_GET_ADDRESSES, _GET_FLAGS = 0x8912, 0x8913  # SIOCGIFCONF, SIOCGIFFLAGS
_RUNNING = 0x40  # IFF_RUNNING
_RECORD = struct.Struct("16s4x4s16x")  # struct ifreq of 64-bit Linux with a sockaddr_in
_MOST = 4096
_INET6_FIELDS = 6


def interfaces() -> list[dict[str, Any]]:
    """``name``, ``addresses`` (IPv4, then IPv6) and ``up`` (None: unknown), by name."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asked:
        inet = _inet(asked)
        for name, addresses in parse_inet6(_read("/proc/net/if_inet6")).items():
            inet[name] += addresses
        return [
            {"name": name, "addresses": inet[name], "up": _running(asked, name)}
            for name in sorted({name for _, name in socket.if_nameindex()} | set(inet))
        ]


def parse_inet6(text: str) -> dict[str, list[str]]:
    """Addresses by interface in ``/proc/net/if_inet6``: 32 digits, four numbers, the name."""
    inet6: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != _INET6_FIELDS:
            continue
        try:
            address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))
        except ValueError:
            continue
        inet6.setdefault(fields[5], []).append(address)
    return inet6


def _inet(asked: socket.socket) -> dict[str, list[str]]:
    room = array.array("B", bytes(_RECORD.size * _MOST))
    buffer_address, size = room.buffer_info()
    answer = fcntl.ioctl(asked, _GET_ADDRESSES, struct.pack("iP", size, buffer_address))
    used = struct.unpack("iP", answer)[0]
    addresses: dict[str, list[str]] = defaultdict(list)
    for label, address in _RECORD.iter_unpack(room.tobytes()[:used]):
        # A second address may have the label eth0:1.
        name = label.partition(b"\0")[0].decode("utf-8", "replace")
        addresses[name.partition(":")[0]].append(socket.inet_ntoa(address))
    return addresses


def _running(asked: socket.socket, name: str) -> bool | None:
    try:
        answer = fcntl.ioctl(asked, _GET_FLAGS, struct.pack("40s", name.encode()))
    except OSError:
        return None
    return bool(struct.unpack_from("H", answer, 16)[0] & _RUNNING)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
