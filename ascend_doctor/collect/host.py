"""The operating system and what it grants this process."""

import mmap
import os
import re
import resource
from typing import Any

from ascend_doctor.collect.loader import find_library
from ascend_doctor.facts import Container, Host, Limit
from ascend_doctor.machine.live import Machine, NotRecorded, exists, matches, read_or_none

_LIMITS = ("NOFILE", "MEMLOCK", "NPROC", "STACK", "CORE")
_CAPABILITIES = {
    # linux/include/uapi/linux/capability.h
    0: "CAP_CHOWN",
    1: "CAP_DAC_OVERRIDE",
    12: "CAP_NET_ADMIN",
    13: "CAP_NET_RAW",
    14: "CAP_IPC_LOCK",
    15: "CAP_IPC_OWNER",
    16: "CAP_SYS_MODULE",
    17: "CAP_SYS_RAWIO",
    19: "CAP_SYS_PTRACE",
    21: "CAP_SYS_ADMIN",
    23: "CAP_SYS_NICE",
    24: "CAP_SYS_RESOURCE",
}
_GLIBCXX = re.compile(r"GLIBCXX_(\d+(?:\.\d+)+)\b")
# cgroup v1 gives 2**63 less a page for no limit.
_CGROUP_NO_LIMIT = 1 << 60


def parse_os_release(text: str) -> dict[str, str]:
    """Key and value of ``/etc/os-release``; quotes removed, other lines ignored."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name of ``/proc/meminfo``."""
    sizes = re.findall(r"^(\w+):\s+(\d{1,15})\s*kB", text, re.MULTILINE)
    return {name: int(size) * 1024 for name, size in sizes}


def parse_capabilities(status: str) -> tuple[str, ...] | None:
    """Names of the relevant effective capabilities, from ``/proc/self/status``."""
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]{1,16})\s*$", status, re.MULTILINE)
    if not match:
        return None
    bits = int(match.group(1), 16)
    return tuple(name for bit, name in _CAPABILITIES.items() if bits >> bit & 1)


def parse_selected(text: str) -> str | None:
    """The word in brackets, as in ``always [madvise] never``."""
    match = re.search(r"\[([\w-]+)\]", text)
    return match.group(1) if match else None


def parse_glibcxx(text: str) -> str | None:
    names = set(_GLIBCXX.findall(text))
    newest = max(names, key=lambda name: tuple(int(part) for part in name.split(".")), default=None)
    return f"GLIBCXX_{newest}" if newest else None


def parse_container_kind(cgroup: str, mounts: str) -> str | None:
    """A container engine's name in ``/proc/1/cgroup`` and ``/proc/1/mountinfo``."""
    for kind, mark in (
        ("kubernetes", "kubepods"),
        ("docker", "/docker"),
        ("podman", "libpod"),
        ("containerd", "containerd"),
        ("lxc", "/lxc"),
    ):
        if mark in cgroup or mark in mounts:
            return kind
    return None


def host(machine: Machine) -> Host:
    release = parse_os_release(read_or_none(machine, "/etc/os-release") or "")
    memory = parse_meminfo(read_or_none(machine, "/proc/meminfo") or "")
    status = read_or_none(machine, "/proc/self/status") or ""
    named: dict[str, Any] = machine.value("uname", _uname)
    user: dict[str, Any] = machine.value("user", _user)
    shm: dict[str, int] = machine.value("statvfs:/dev/shm", _shm)
    cpus: dict[str, int] = machine.value("cpus", _cpus)
    stdcxx = find_library(machine, "libstdc++.so.6")
    return Host(
        source="/proc, /sys, uname",
        name=named["name"],
        os_id=release.get("ID", ""),
        os_version=release.get("VERSION_ID", ""),
        arch=named["arch"],
        kernel=named["kernel"],
        glibc=named["glibc"],
        libstdcxx=stdcxx,
        glibcxx=newest_glibcxx(machine, stdcxx) if stdcxx else None,
        cpus=cpus["online"],
        cpus_usable=cpus["usable"],
        numa_nodes=len(matches(machine, "/sys/devices/system/node", "node[0-9]*")) or None,
        memory=memory.get("MemTotal"),
        memory_available=memory.get("MemAvailable"),
        memory_limit=_memory_limit(machine),
        shm_size=shm.get("size"),
        shm_free=shm.get("free"),
        limits=tuple(
            Limit(name=name, soft=soft, hard=hard)
            for name, (soft, hard) in machine.value("limits", _limits).items()
        ),
        container=_container(machine, status),
        virtual_machine=_hypervisor(machine),
        uid=user["uid"],
        gids=tuple(user["gids"]),
        groups=tuple(user["groups"]),
        transparent_hugepages=parse_selected(
            read_or_none(machine, "/sys/kernel/mm/transparent_hugepage/enabled") or ""
        ),
        cpu_governors=_governors(machine),
        page_size=named["page_size"],
    )


def _uname() -> dict[str, Any]:
    uname = os.uname()
    return {
        "name": uname.nodename,
        "arch": uname.machine,
        "kernel": uname.release,
        "glibc": _glibc(),
        "page_size": os.sysconf("SC_PAGE_SIZE"),
    }


def _glibc() -> str | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return None
    return version if name == "glibc" else None


def _user() -> dict[str, Any]:
    import grp  # noqa: PLC0415 - only on the live machine

    gids = sorted({os.getegid(), *os.getgroups()})
    names = {group.gr_gid: group.gr_name for group in grp.getgrall()}
    return {
        "uid": os.geteuid(),
        "gids": gids,
        "groups": [names[gid] for gid in gids if gid in names],
    }


def _shm() -> dict[str, int]:
    try:
        statvfs = os.statvfs("/dev/shm")  # noqa: S108 - the subject, not a place for files
    except OSError:
        return {}
    return {
        "size": statvfs.f_frsize * statvfs.f_blocks,
        "free": statvfs.f_frsize * statvfs.f_bavail,
    }


def _cpus() -> dict[str, int]:
    return {"online": os.cpu_count() or 1, "usable": len(os.sched_getaffinity(0))}


def _limits() -> dict[str, tuple[int, int]]:
    known = ((name.lower(), getattr(resource, f"RLIMIT_{name}")) for name in _LIMITS)
    return {name: resource.getrlimit(code) for name, code in known}


def newest_glibcxx(machine: Machine, path: str) -> str | None:
    try:
        answer: str | None = machine.value(f"glibcxx:{path}", lambda: _newest_glibcxx(path))
    except NotRecorded:
        return None
    return answer


def _newest_glibcxx(path: str) -> str | None:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # Version names are together in .dynstr; strings(1) finds them likewise.
        start = data.find(b"GLIBCXX_3")
        names = data[start : start + (1 << 18)] if start > 0 else b""
    return parse_glibcxx(names.decode("latin-1")) if names else None


def _memory_limit(machine: Machine) -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = (read_or_none(machine, path) or "").strip()
        if text.isascii() and text.isdigit() and int(text) < _CGROUP_NO_LIMIT:
            return int(text)
    return None


def _container(machine: Machine, status: str) -> Container | None:
    kind = parse_container_kind(
        read_or_none(machine, "/proc/1/cgroup") or "",
        read_or_none(machine, "/proc/1/mountinfo") or "",
    )
    # The kubelet sets it in every container; the cgroup may only name containerd.
    if machine.env.get("KUBERNETES_SERVICE_HOST"):
        kind = "kubernetes"
    if kind is None and exists(machine, "/.dockerenv"):
        kind = "docker"
    if kind is None and exists(machine, "/run/.containerenv"):
        kind = "podman"
    if kind is None:
        return None
    capabilities = parse_capabilities(status)
    return Container(
        kind=kind,
        ascend_docker_runtime=machine.env.get("ASCEND_DOCKER_RUNTIME") == "True",
        # Docker grants it only to privileged containers, unless --cap-add names it.
        privileged=None if capabilities is None else "CAP_SYS_MODULE" in capabilities,
    )


def _hypervisor(machine: Machine) -> str | None:
    flags = read_or_none(machine, "/proc/cpuinfo") or ""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", flags, re.MULTILINE):
        return None
    return (read_or_none(machine, "/sys/class/dmi/id/product_name") or "").strip() or "unnamed"


def _governors(machine: Machine) -> tuple[str, ...]:
    folders = matches(machine, "/sys/devices/system/cpu", "cpu[0-9]*")
    texts = (read_or_none(machine, f"{folder}/cpufreq/scaling_governor") for folder in folders)
    return tuple(sorted({text.strip() for text in texts if text}))
