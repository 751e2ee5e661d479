"""The operating system and what it grants this process."""

import mmap
import os
import re
import resource
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from ascend_doctor.collect.file_grammar import odd_lines
from ascend_doctor.collect.loader import find_library
from ascend_doctor.facts import Container, Host, Limit
from ascend_doctor.machine.live import Machine, NotRecorded, exists, matches, read_or_none
from ascend_doctor.patterns import patterns_of

_LIMITS = ("NOFILE", "MEMLOCK", "NPROC", "STACK", "FSIZE", "AS", "DATA", "CPU")
_CAP_SYS_MODULE = 16  # linux/include/uapi/linux/capability.h
_GLIBCXX, _NUMBERS, _CPUS = patterns_of(__file__)
# cgroup v1 gives 2**63 less a page for no limit.
_CGROUP_NO_LIMIT = 1 << 60
_CGROUPS = "/sys/fs/cgroup"
# cpu.max is quota and period; "max" stands for none.
_QUOTA_WORDS = 2
_LARGEST = (1 << 63) - 1
# What is in use of a setting.
_USED = {
    "fs.file-max": "fs.file-nr",
    "net.netfilter.nf_conntrack_max": "net.netfilter.nf_conntrack_count",
    "pids.max": "pids.current",
}


def parse_os_release(text: str) -> dict[str, str]:
    """Key and value of ``/etc/os-release``; quotes removed, other lines ignored."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def parse_meminfo(text: str) -> dict[str, int]:
    sizes = re.findall(r"^(\w+):\s+(\d{1,15})\s*kB", text, re.MULTILINE)
    return {name: int(size) * 1024 for name, size in sizes}


def parse_privileged(status: str) -> bool | None:
    """Whether ``/proc/self/status`` has what Docker grants only to privileged containers."""
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]{1,16})\s*$", status, re.MULTILINE)
    return bool(int(match.group(1), 16) >> _CAP_SYS_MODULE & 1) if match else None


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


def host(machine: Machine, settings: Sequence[str] = ()) -> Host:
    """``settings``: names of the kernel's, with dots."""
    release = parse_os_release(read_or_none(machine, "/etc/os-release") or "")
    memory = parse_meminfo(read_or_none(machine, "/proc/meminfo") or "")
    status = read_or_none(machine, "/proc/self/status") or ""
    named: dict[str, Any] = machine.value("uname", _uname)
    user: dict[str, Any] = machine.value(
        "user", lambda: {"uid": os.geteuid(), "gids": sorted({os.getegid(), *os.getgroups()})}
    )
    shm: dict[str, int] = machine.value("statvfs:/dev/shm", _shm)
    cpus: dict[str, int] = machine.value(
        "cpus", lambda: {"online": os.cpu_count() or 1, "usable": len(os.sched_getaffinity(0))}
    )
    quota = _cpu_quota(machine)
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
        cpus_usable=cpus["usable"] if quota is None else min(cpus["usable"], quota),
        numa_nodes=len(matches(machine, "/sys/devices/system/node", "node[0-9]*")) or None,
        memory=memory.get("MemTotal"),
        memory_available=_available(machine, memory),
        memory_held={"huge pages": memory["Hugetlb"]} if memory.get("Hugetlb") else {},
        memory_limit=_memory_limit(machine),
        shm_size=shm.get("size"),
        shm_free=shm.get("free"),
        limits=tuple(
            Limit(name=name, soft=soft, hard=hard)
            for name, (soft, hard) in machine.value("limits", _limits).items()
        )
        + tuple(_kernel(machine, settings)),
        container=_container(machine, status),
        virtual_machine=_hypervisor(machine),
        uid=user["uid"],
        gids=tuple(user["gids"]),
        transparent_hugepages=parse_selected(
            read_or_none(machine, "/sys/kernel/mm/transparent_hugepage/enabled") or ""
        ),
        cpu_governors=_governors(machine),
        page_size=named["page_size"],
        hosts=parse_hosts(
            read_or_none(machine, "/etc/hosts") or "",
            (named["name"], "localhost", machine.env.get("MASTER_ADDR", "")),
        ),
        name_services=parse_services(read_or_none(machine, "/etc/nsswitch.conf") or ""),
        odd_lines=tuple(odd_lines(machine)),
    )


def _available(machine: Machine, memory: dict[str, int]) -> int | None:
    """What may be used; under strict overcommit, committed; proc(5)."""
    free = memory.get("MemAvailable")
    strict = (read_or_none(machine, "/proc/sys/vm/overcommit_memory") or "").strip() == "2"
    if free is None or not strict or "CommitLimit" not in memory:
        return free
    return max(0, min(free, memory["CommitLimit"] - memory.get("Committed_AS", 0)))


def _kernel(machine: Machine, settings: Sequence[str]) -> Iterator[Limit]:
    """The last number of each setting, and how much of it is in use."""

    def numbers(name: str, position: int) -> list[int]:
        texts = (
            _of_groups(machine, "pids", (name,))
            if name.startswith("pids")
            else [read_or_none(machine, f"/proc/sys/{name.replace('.', '/')}") or ""]
        )
        return [int(words[position]) for text in texts if (words := _NUMBERS.findall(text))]

    for name in settings:
        if "." in name and (values := numbers(name, -1)):
            used = numbers(_USED[name], 0) if name in _USED else []
            soft, first = min(*values, _LARGEST), min(used, default=None)
            yield Limit(name=name, soft=soft, hard=-1, used=first)


def parse_services(text: str) -> tuple[str, ...]:
    """The services of ``hosts`` in ``/etc/nsswitch.conf``; nsswitch.conf(5)."""
    match = re.search(r"^\s*hosts:(.*)", text, re.MULTILINE)
    return tuple(re.sub(r"\[.*?\]|#.*", "", match[1]).split()) if match else ()


def parse_hosts(text: str, names: tuple[str, ...]) -> dict[str, str]:
    """The first address of each of these names in ``/etc/hosts``; hosts(5)."""
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    pairs = [(name, words[0]) for words in lines[::-1] for name in words[1:] if name in names]
    return dict(pairs)


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


def _shm() -> dict[str, int]:
    try:
        statvfs = os.statvfs("/dev/shm")  # noqa: S108 - the subject, not a place for files
    except OSError:
        return {}
    return {
        "size": statvfs.f_frsize * statvfs.f_blocks,
        "free": statvfs.f_frsize * statvfs.f_bavail,
    }


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
    texts = _of_groups(machine, "memory", ("memory.max", "memory.high", "memory.limit_in_bytes"))
    limits = [int(text) for text in texts if text.isascii() and text.isdigit()]
    return min((limit for limit in limits if limit < _CGROUP_NO_LIMIT), default=None)


def _cpu_quota(machine: Machine) -> int | None:
    """Whole CPUs that the control groups grant in a period."""
    quotas = [text.split() for text in _of_groups(machine, "cpu", ("cpu.max",))]
    periods = _of_groups(machine, "cpu", ("cpu.cfs_period_us",))
    old = zip(_of_groups(machine, "cpu", ("cpu.cfs_quota_us",)), periods, strict=False)
    counts = [
        int(pair[0]) // int(pair[1])
        for pair in (*quotas, *old)
        if len(pair) == _QUOTA_WORDS and all(word.isascii() and word.isdigit() for word in pair)
        if int(pair[1])
    ]
    sets = _of_groups(machine, "cpuset", ("cpuset.cpus.effective", "cpuset.cpus"))
    counts += [
        sum(int(high or low) - int(low) + 1 for low, high in _CPUS.findall(text))
        for text in sets
        if text
    ]
    return min(counts, default=None)


def _of_groups(machine: Machine, controller: str, files: tuple[str, ...]) -> list[str]:
    """Files of this process's control group and of those around it; cgroups(7)."""
    groups = ["/"]
    for line in (read_or_none(machine, "/proc/self/cgroup") or "").splitlines():
        number, controllers, group = (*line.split(":", 2), "", "")[:3]
        if (number == "0" and not controllers) or controller in controllers.split(","):
            groups += [group, *(str(above) for above in PurePosixPath(group).parents)]
    texts = [
        read_or_none(machine, f"{_CGROUPS}{folder}{group.rstrip('/')}/{file}")
        for folder in ("", f"/{controller}")
        for group in dict.fromkeys(groups)
        for file in files
    ]
    return [text.strip() for text in texts if text]


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
    return Container(
        kind=kind,
        ascend_docker_runtime=machine.env.get("ASCEND_DOCKER_RUNTIME") == "True",
        privileged=parse_privileged(status),
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
