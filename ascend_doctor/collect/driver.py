"""The driver: its version files, device files, libraries, kernel modules and PCI functions."""

from typing import Any

import msgspec

from ascend_doctor.collect.device_nodes import device_nodes
from ascend_doctor.collect.loader import find, places
from ascend_doctor.collect.pci import pci_functions
from ascend_doctor.collect.vendor_text import Pairs, first, parse_assignments
from ascend_doctor.facts import DockerRuntime, Driver, InstallInfo, Library
from ascend_doctor.machine.live import Machine, exists, is_directory, read_or_none
from ascend_doctor.patterns import patterns_of

_ROOT = "/usr/local/Ascend"
_INSTALL_INFO = "/etc/ascend_install.info"
_LIBRARIES = ("libascend_hal.so", "libdcmi.so", "libdrvdsmi_host.so", "libc_sec.so")
_MODULE, _STATE = patterns_of(__file__)


def driver(machine: Machine) -> Driver:
    """All but npu-smi's facts. A missing file leaves its field None."""
    info = _install_info(machine)
    root = (info.driver_path if info else None) or _ROOT
    path = f"{root}/driver"
    version = _assignments(machine, f"{path}/version.info")
    firmware = _assignments(machine, f"{root}/firmware/version.info")
    return Driver(
        source=f"{path}/version.info" if version else "",
        path=path if exists(machine, path) else None,
        version=first(version, "Version"),
        package_version=first(version, "package_version"),
        parts={key.removesuffix("_version"): value for key, value in version},
        compatible_firmware=first(version, "compatible_version_fw"),
        firmware_version=first(firmware, "Version"),
        compatible_drivers=first(firmware, "compatible_version_drv"),
        install_info=info,
        nodes=device_nodes(machine),
        libraries=_libraries(machine),
        modules=parse_modules(read_or_none(machine, "/proc/modules")),
        pci=pci_functions(machine),
        docker=_docker(machine),
    )


def _assignments(machine: Machine, path: str) -> Pairs:
    return tuple(parse_assignments(read_or_none(machine, path) or "").items())


def _install_info(machine: Machine) -> InstallInfo | None:
    if is_directory(machine, _INSTALL_INFO):
        return InstallInfo(is_directory=True)
    try:
        return parse_install_info(machine.read(_INSTALL_INFO))
    except PermissionError:
        return InstallInfo(closed=True)
    except OSError:
        return None


def parse_install_info(text: str) -> InstallInfo:
    """``/etc/ascend_install.info`` as the driver's installer writes it."""
    values = parse_assignments(text)
    return InstallInfo(
        driver_path=values.get("Driver_Install_Path_Param") or None,
        driver_status=values.get("Driver_Install_Status") or None,
        group=values.get("UserGroup") or None,
        for_all=values.get("Driver_Install_For_All") == "yes",
    )


def parse_modules(text: str | None) -> tuple[str, ...] | None:
    """Names of the driver's modules in ``/proc/modules``, sorted, with a state that is not Live."""
    if text is None:
        return None
    names = {_STATE.sub(r" \2", line).strip() for line in text.splitlines()}
    return tuple(sorted(name for name in names if _MODULE.match(name)))


def _libraries(machine: Machine) -> tuple[Library, ...]:
    searched = places(machine)
    libraries = ((name, find(machine, name, searched)) for name in _LIBRARIES)
    return tuple(
        Library(name=name, path=path[0], by=path[1]) if path else Library(name=name)
        for name, path in libraries
    )


def _docker(machine: Machine) -> DockerRuntime | None:
    daemon = read_or_none(machine, "/etc/docker/daemon.json")
    mounts = read_or_none(machine, "/etc/ascend-docker-runtime.d/base.list")
    if daemon is None and mounts is None:
        return None
    runtime = parse_docker_daemon(daemon or "")
    return msgspec.structs.replace(
        runtime,
        mounts=parse_mounts(mounts or ""),
        is_there=exists(machine, runtime.path) if runtime.path else None,
    )


def parse_docker_daemon(text: str) -> DockerRuntime:
    """The runtime ``ascend`` of ``daemon.json``; empty if the file is not a JSON object."""
    try:
        loaded: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return DockerRuntime()
    table = loaded if isinstance(loaded, dict) else {}
    runtimes = table.get("runtimes")
    ascend = runtimes.get("ascend") if isinstance(runtimes, dict) else None
    path = ascend.get("path") if isinstance(ascend, dict) else None
    return DockerRuntime(
        path=path if isinstance(path, str) else None,
        default=table.get("default-runtime") == "ascend",
    )


def parse_mounts(text: str) -> tuple[str, ...]:
    """The absolute paths of a mount list, one per line."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line.startswith("/"))
