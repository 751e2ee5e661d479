"""Environment variables of the examined environment and the host's network."""

import re
from collections.abc import Iterator, Sequence

from ascend_doctor.collect.interfaces import interfaces, listening_ports
from ascend_doctor.collect.loader import find_library
from ascend_doctor.collect.program_folders import read_left_out
from ascend_doctor.facts import Environment, Interface, Library
from ascend_doctor.machine.live import Machine, NotRecorded, exists, read_or_none

_RELATED = re.compile(
    r"(ASCEND|HCCL|TORCH|NPU|CANN|ATB_|LCCL|MEGATRON|MINDSPEED|TWINKLE|SWIFT|RAY_EXPERIMENTAL|VLLM"
    r"|GLOO|TP_SOCKET|PYTORCH|LD_PRELOAD|CUDA_|NCCL_|OMP_|WORLD_SIZE|RANK|MASTER_)"
)
_LISTEN = "0A"
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


def environment(machine: Machine, shown: Sequence[str], files: Sequence[str] = ()) -> Environment:
    """Variables by the allow-list ``shown``; of related others only the names.

    ``files``: variables whose files have to exist, colons between them.
    """
    env = machine.env
    reserved = read_or_none(machine, "/proc/sys/net/ipv4/ip_local_reserved_ports")
    heads = {name[:_HEAD] for name in shown if "_" in name}
    return Environment(
        source="environment of this process, /proc/net, /proc/sys/net",
        variables={name: env[name] for name in sorted(shown) if name in env},
        withheld=tuple(
            sorted(
                name
                for name in env
                if name not in shown and (_RELATED.match(name) or name[:_HEAD] in heads)
            )
        ),
        absent_files=tuple(
            name
            for name in files
            if any(
                "/" in path and not exists(machine, path) for path in env.get(name, "").split(":")
            )
        ),
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
