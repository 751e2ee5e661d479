"""Processes that hold NPUs: the open files of /proc that lead to /dev/davinciN."""

import os
import pwd
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from ascend_doctor.facts import Holders
from ascend_doctor.machine.live import Machine
from ascend_doctor.patterns import patterns_of

_DEVICE, _CONTAINER = patterns_of(__file__)
# A host may have tens of thousands of processes, each with thousands of open files.
_SECONDS = 10.0


def holders(machine: Machine) -> Holders:
    """Holders by process id. ``complete`` is False if a process or the time limit hid some."""
    answer = machine.value("holders", lambda: scan("/proc"))
    return msgspec.convert({"source": "/proc", **answer}, Holders, strict=False)


def scan(proc: str, seconds: float = _SECONDS) -> dict[str, Any]:
    """``processes`` and ``complete`` as plain values; ``proc`` is a procfs. Takes ``seconds``."""
    end = time.monotonic() + seconds
    holders: list[dict[str, Any]] = []
    names = sorted((name for name in os.listdir(proc) if name.isdecimal()), key=int)
    complete = "1" in names  # without it, hidepid hides the processes of other users, proc(5)
    for name in names:
        if time.monotonic() > end:
            return {"processes": holders, "complete": False}
        try:
            devices = sorted(set(_devices(f"{proc}/{name}/fd")))
        except PermissionError:
            complete = False
        except OSError:
            continue
        else:
            if devices:
                holders.append(_holder(proc, name, devices))
    return {"processes": holders, "complete": complete}


def _devices(folder: str) -> Iterator[int]:
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:  # closed in between
            continue
        if match := _DEVICE.match(target):
            yield int(match.group(1))


def _holder(proc: str, name: str, devices: list[int]) -> dict[str, Any]:
    return {
        "pid": int(name),
        "name": (_text(f"{proc}/{name}/comm") or "").strip(),
        "user": _user(f"{proc}/{name}"),
        "devices": devices,
        "age": _age(_text(f"{proc}/{name}/stat"), _text(f"{proc}/uptime")),
        "container": _in_container(_text(f"{proc}/{name}/cgroup")),
    }


def _text(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(65536).decode("utf-8", "replace")
    except OSError:
        return None


def _user(folder: str) -> str:
    try:
        number = os.stat(folder).st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _age(stat: str | None, uptime: str | None) -> float | None:
    """Seconds since the start. Field 22 of stat counts clock ticks from boot, proc(5)."""
    fields = (stat or "").rpartition(")")[2].split()
    up = (uptime or "").split()
    try:
        return round(float(up[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK"), 1)
    except (IndexError, ValueError):
        return None


def _in_container(cgroup: str | None) -> bool | None:
    """None if the cgroup does not show it, as in a cgroup namespace ("0::/")."""
    if cgroup is None or not cgroup.strip():
        return None
    if _CONTAINER.search(cgroup):
        return True
    paths = {line.split(":", 2)[-1] for line in cgroup.split()}
    return None if paths == {"/"} else False
