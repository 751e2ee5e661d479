"""Device files: the shared ones there, of the right kind, and open to this user."""

import shlex

from ascend_doctor.facts import DeviceNode, Driver, Host, InstallInfo
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts, error, first_of
from ascend_doctor.judging.chip import ascend, container
from ascend_doctor.judging.container_fix import managers

TEXTS = Texts("devices")

SOURCE = "hicann/driver@ef377e95"


def with_devices(case: Case) -> Driver:
    """Raises Unknown, and NotApplicable if /dev shows no NPU."""
    ascend(case)
    driver = case.need(Driver)
    if not driver.nodes:
        raise NotApplicable("there are no device files of NPUs")
    return driver


@TEXTS.check("device-managers")
def _device_managers(case: Case) -> Findings:
    driver = with_devices(case)
    if container(case) is not None:
        raise NotApplicable("container-devices looks at them in a container")
    present = {node.path for node in driver.nodes}
    lacking = [path for path in managers(case) if path not in present]
    if lacking and driver.devices:
        yield TEXTS.finding(
            "no-managers",
            lacking=", ".join(lacking),
            present=", ".join(sorted(present)),
            managers=", ".join(managers(case)),
        )


@TEXTS.check("device-access")
def _device_access(case: Case) -> Findings:
    driver = with_devices(case)
    if case.facts.storage and "nodev" in case.facts.storage.options("/dev"):
        yield TEXTS.finding("no-devices", first=driver.nodes[0].path)
    info = driver.install_info
    if info is not None and container(case) is None:
        yield from _otherwise_installed(driver, info)
    strange = [node.path for node in driver.nodes if not node.is_device]
    if strange:
        yield error(
            f"{', '.join(strange)}: not a device file",
            observed="a file or folder of that name",
            required="the character device of the host",
            because="It was created by hand or by a mount of something that was not there.",
            remedy="Hand the devices in with --device, not with -v"
            if container(case)
            else "Remove it and restart the host",
            refs=(SOURCE,),
        )
    needed = {*managers(case), *(node.path for node in driver.nodes if node.kind != "manager")}
    closed = [
        node
        for node in driver.nodes
        if node.path in needed and node.is_device and False in {node.readable, node.writable}
    ]
    if not closed:
        return
    first = closed[0]
    host = case.need(Host)
    owner = f"{first.owner or first.uid}:{first.group or first.gid}"
    yield TEXTS.finding(
        "closed",
        observed=f"{first.path} belongs to {owner}, mode {first.mode or 'not known'}; this "
        f"is uid {host.uid} in groups {', '.join(map(str, host.gids)) or 'not known'}",
        remedy=_access(case, host, first),
        devices=tuple(node.number for node in closed if node.number is not None),
        paths=first_of([node.path for node in closed], 3),
    )


def _otherwise_installed(driver: Driver, info: InstallInfo) -> Findings:
    for node in driver.nodes:
        if info.group and node.group not in {None, info.group}:
            yield TEXTS.finding("other-group", node=node, info=info)
            return
        if info.for_all and node.mode[-1:] not in {"", "6", "7"}:
            yield TEXTS.finding("not-for-all", node=node)
            return


def _access(case: Case, host: Host, node: DeviceNode) -> Remedy:
    inside = container(case)
    member = node.gid in host.gids
    group_may = node.mode[-2:-1] in {"6", "7"}
    if host.uid == 0:
        return Remedy(
            summary="Root is refused by what the container or sandbox takes away: start it with "
            "the devices (--device) and, if capabilities were dropped, with --cap-add=DAC_OVERRIDE"
        )
    if member and group_may:
        return Remedy(
            summary="The group is right, so a sandbox, a device rule of the container or a "
            "session from before refuses it: log in again, or start the container with --device",
            commands=("id", f"ls -l {shlex.quote(node.path)}"),
        )
    if not group_may:
        return Remedy(
            summary="Not even the group may open it; have the administrator install the driver "
            "with --install-for-all",
            commands=(f"ls -l {shlex.quote(node.path)}",),
        )
    if inside is not None and inside.kind == "kubernetes":
        return Remedy(
            summary="Add the group by number to the pod",
            commands=(f"cat <<'EOF'\nsecurityContext: {{supplementalGroups: [{node.gid}]}}\nEOF",),
        )
    if inside is not None:
        return Remedy(
            summary=f"Start the container again with --group-add {node.gid}; names of the host's "
            "groups may be missing inside"
        )
    group = shlex.quote(node.group or str(node.gid))
    return Remedy(
        summary="Join the group, then log in anew (running sessions keep their groups)",
        commands=(f'sudo usermod -aG {group} "$USER"',),
    )
