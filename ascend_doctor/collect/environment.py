"""Environment variables of the examined environment and the host's network."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ascend_doctor.collect.interfaces import interfaces, listening_ports
from ascend_doctor.collect.loader import find_library
from ascend_doctor.collect.program_folders import read_left_out
from ascend_doctor.facts import Environment, Interface, Library
from ascend_doctor.machine.live import Machine, NotRecorded, exists, names_or_none, read_or_none
from ascend_doctor.matrix.schema import Variable
from ascend_doctor.patterns import patterns_of

_RELATED, _LOGIN = patterns_of(__file__)
_LISTEN = "0A"
_PATHS = {"path", "folder", "made_path", "search_path"}
# Groups whose names are no hint that another was meant.
_OTHERS = {"python", "host", "scheduler"}
# Letters that a name shares with the one it is a slip of.
_HEAD = 5


def parse_listening(text: str) -> tuple[int, ...]:
    """Ports in state LISTEN of ``/proc/net/tcp`` or ``tcp6``."""
    sockets = re.findall(
        r"^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} (\w\w) ", text, re.MULTILINE
    )
    return tuple(sorted({int(port, 16) for port, state in sockets if state == _LISTEN}))


def parse_port_range(text: str) -> tuple[int, int] | None:
    """``/proc/sys/net/ipv4/ip_local_port_range``."""
    match = re.fullmatch(r"\s*(\d{1,5})\s+(\d{1,5})\s*", text)
    return (int(match.group(1)), int(match.group(2))) if match else None


def environment(machine: Machine, rows: Sequence[Variable]) -> Environment:
    """Variables by the allow-list ``rows``; of related others only the names."""
    env = machine.env
    reserved = read_or_none(machine, "/proc/sys/net/ipv4/ip_local_reserved_ports")
    shown = {row.name: row for row in rows if row.show}
    heads = {row.name[:_HEAD] for row in rows if row.show and row.group not in _OTHERS}
    return Environment(
        source="environment of this process, /proc/net, /proc/sys/net",
        variables={
            name: _LOGIN.sub(r"\1", env[name]) if shown[name].type == "url" else env[name]
            for name in sorted(shown)
            if name in env
        },
        withheld=tuple(
            sorted(
                name
                for name in env
                if name not in shown and (_RELATED.match(name) or name[:_HEAD] in heads)
            )
        ),
        odd_paths={
            row.name: odd
            for row in rows
            if row.type in _PATHS and env.get(row.name)
            for path in env[row.name].split(":")
            if (odd := _odd(machine, row.type, path))
        },
        locales=_locales(machine),
        interfaces=tuple(
            Interface(
                name=interface["name"], addresses=tuple(interface["addresses"]), up=interface["up"]
            )
            for interface in machine.value("interfaces", interfaces)
        ),
        listening=_listening(machine),
        local_port_range=parse_port_range(
            read_or_none(machine, "/proc/sys/net/ipv4/ip_local_port_range") or ""
        ),
        reserved_ports=None if reserved is None else reserved.strip(),
        preloaded=tuple(_preloads(machine)),
        path_left_out=read_left_out(machine),
    )


def _odd(machine: Machine, kind: str, path: str) -> str:
    """What is wrong with a path; what may not be seen is not."""
    if not path.startswith("/") or kind == "search_path":
        return "is not absolute" if path and path[0] != "/" else ""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        is_file = machine.status(path).kind != "directory"
        return "is not a folder" if is_file and kind != "path" else ""
    if kind == "made_path":
        above = path.rpartition("/")[0]
        return _odd(machine, kind, above) if above else ""
    return "" if exists(machine, path) else "does not exist"


def _locales(machine: Machine) -> tuple[str, ...] | None:
    """Folders of locales, None where an archive has others."""
    names = names_or_none(machine, "/usr/lib/locale")
    return None if names is None or "locale-archive" in names else names


def _preloads(machine: Machine) -> Iterator[Library]:
    """Entries of LD_PRELOAD, separated by blanks or colons, ld.so(8)."""
    for name in re.split(r"[\s:]+", machine.env.get("LD_PRELOAD", "").strip()):
        if "/" in name:
            yield Library(name=name, path=name if exists(machine, name) else None)
        elif name:
            yield Library(name=name, path=find_library(machine, name))


def _listening(machine: Machine) -> tuple[int, ...] | None:
    try:
        return tuple(machine.value("listening ports", listening_ports))
    except (NotRecorded, OSError):  # an older recording, or a kernel without sock_diag
        texts = [read_or_none(machine, f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    if "local_address" not in (texts[0] or ""):  # the kernel's header is there in any case
        return None
    return tuple(sorted({port for text in texts if text for port in parse_listening(text)}))
