"""Device files: all there, of the right kind, and open to this user."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ascend_doctor.checks.docker import managers, pci_devices
from ascend_doctor.checks.machine import ascend, container, family_or_none, numbers
from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import DeviceNode, Driver, Host
from ascend_doctor.findings import Finding, Remedy, counted
from ascend_doctor.judge import Case, check, error, warning

_SOURCE = "hicann/driver@ef377e95"
_ACCESS = "https://github.com/vllm-project/vllm-ascend/issues/9490"
_CONTAINER_ACCESS = "https://github.com/Project-HAMi/ascend-device-plugin/issues/139"
# A2 servers have 1, 2, 4, 8 or 16 cards, A3 servers 8 cards of two devices.
_USUAL = {"ascend910b": (1, 2, 4, 8, 16), "ascend910_93": (16,)}


def _with_devices(case: Case) -> Driver:
    ascend(case)
    driver = case.need(Driver)
    if not driver.nodes:
        raise NotApplicable("there are no device files of NPUs")
    return driver


@check("device-files", "Every NPU of this machine has its device file")
def device_files(case: Case) -> Iterator[Finding]:
    """The driver makes /dev/davinciN for every NPU that it can talk to.

    A card that fell off the bus takes its file with it: a number is missing, a line of lspci is
    missing, and npu-smi says "Invalid card id". The check compares device files with the PCI bus,
    with what npu-smi lists, and with the numbers of cards that servers have. On A3 one PCI
    function can stand for two devices.
    """
    driver = _with_devices(case)
    present = sorted(one.number for one in driver.devices if one.number is not None)
    if container(case) is not None:
        yield from _against_table(case, present)
        return
    family, expected = family_or_none(case), pci_devices(case)
    if expected is not None and expected > len(present):
        yield _lost(f"{expected} devices on the PCI bus, {len(present)} device files", present)
        return
    gaps = sorted(set(range(max(present, default=-1) + 1)) - set(present))
    if gaps:
        yield _lost(f"no /dev/davinci{numbers(gaps)}", present)
    elif (
        family and not _virtual(case) and len(present) not in _USUAL.get(family.id, (len(present),))
    ):
        usual = ", ".join(map(str, _USUAL[family.id]))
        yield _lost(
            f"{counted(len(present), 'device')}; servers of this kind have {usual}", present
        )
    yield from _against_table(case, present)


def _virtual(case: Case) -> bool:
    """Whether this is, or may be, a virtual machine, which has the cards that it was given."""
    return case.facts.host is None or case.facts.host.virtual_machine is not None


def _lost(found: str, present: list[int]) -> Finding:
    return warning(
        "A device is missing",
        found=f"{found}; there: {numbers(present) or 'none'}",
        wanted="a /dev/davinciN for every NPU of the server",
        because="A card that the driver lost cannot be used until the host is restarted; if it "
        "stays away, it is broken.",
        remedy=Remedy(
            summary="See which card is gone and why, then restart the host",
            commands=(
                "lspci -d 19e5: | grep -i accelerators",
                "npu-smi info -l",
                "sudo dmesg | grep -iE 'davinci|devdrv|pcie' | tail -n 40",
            ),
        ),
        refs=("Ascend/mind-cluster@22bb3d98:docs/en/faultdiag",),
    )


def _against_table(case: Case, present: list[int]) -> Iterator[Finding]:
    npus = case.facts.npus
    if npus is None or not npus.complete or not npus.devices:
        return
    known = [one.device for one in npus.devices if one.device is not None]
    if len(known) == len(npus.devices) and sorted(known) != present:
        only = sorted(set(known) ^ set(present))
        yield warning(
            "npu-smi and /dev do not show the same devices",
            found=f"npu-smi: {numbers(known)}; /dev: {numbers(present) or 'none'}",
            wanted="the same numbers",
            because="Device "
            + numbers(only)
            + " is in one of them only. npu-smi shows all cards of the container or host.",
            remedy=Remedy(
                summary="Look at both; in a container, hand in every device that you mean to use",
                commands=("npu-smi info", "ls -l /dev/davinci*"),
            ),
            refs=(_SOURCE,),
        )


@check("device-managers", "The shared device files of the driver are there")
def device_managers(case: Case) -> Iterator[Finding]:
    """Every process that uses an NPU also opens the driver's shared files.

    These are /dev/davinci_manager, /dev/hisi_hdc, and /dev/devmm_svm, which the 950 family does
    not have. On a host the driver makes them; in a container they are handed in with the devices
    (see container-devices).
    """
    driver = _with_devices(case)
    if container(case) is not None:
        raise NotApplicable("container-devices looks at them in a container")
    present = {one.path for one in driver.nodes}
    lacking = [path for path in managers(case) if path not in present]
    if lacking and driver.devices:
        yield error(
            f"The driver's files {', '.join(lacking)} are missing",
            found=f"there: {', '.join(sorted(present))}",
            wanted=", ".join(managers(case)),
            because="Every process needs them to open a device.",
            remedy=Remedy(
                summary="The driver is loaded in part only; restart the host, and read what the "
                "kernel says if they stay away",
                commands=("sudo dmesg | grep -iE 'ascend|devmm|hdc' | tail -n 40",),
            ),
            refs=(_SOURCE,),
        )


@check("device-access", "This user may open the device files")
def device_access(case: Case) -> Iterator[Finding]:
    """A process needs read and write access to its devices and to the driver's shared files.

    They belong to HwHiAiUser, mode 660, or 666 where the driver was installed with
    --install-for-all. So the user has to be in their group, by name on a host and by number in a
    container; a new group counts from the next login on. Root without the capability
    DAC_OVERRIDE, and sandboxes, are refused as well. npu-smi then fails with -8005, and torch
    counts no device.
    """
    driver = _with_devices(case)
    strange = [one.path for one in driver.nodes if not one.is_device]
    if strange:
        yield error(
            f"{', '.join(strange)}: not a device file",
            found="a file or folder of that name",
            wanted="the character device of the host",
            because="It was created by hand or by a mount of something that was not there.",
            remedy=Remedy(
                summary="Hand the devices in with --device, not with -v"
                if container(case)
                else "Remove it and restart the host",
            ),
            refs=(_SOURCE,),
        )
    needed = {*managers(case), *(one.path for one in driver.nodes if one.kind != "manager")}
    closed = [
        one
        for one in driver.nodes
        if one.path in needed and one.is_device and False in {one.readable, one.writable}
    ]
    if not closed:
        return
    first = closed[0]
    host = case.need(Host)
    yield error(
        "This user may not open "
        + ", ".join(one.path for one in closed[:3])
        + (f" and {len(closed) - 3} more" if len(closed) > 3 else ""),  # noqa: PLR2004 - as cut
        found=f"{first.path} belongs to {_owner(first)}, mode {first.mode or 'not known'}; this "
        f"is uid {host.uid} in groups {', '.join(map(str, host.gids)) or 'not known'}",
        wanted="read and write access",
        because="Without it npu-smi says -8005 and torch counts no device.",
        remedy=_access(case, host, first),
        refs=(_ACCESS, _CONTAINER_ACCESS),
        devices=tuple(one.number for one in closed if one.number is not None),
    )


def _owner(node: DeviceNode) -> str:
    return f"{node.owner or node.uid}:{node.group or node.gid}"


def _access(case: Case, host: Host, node: DeviceNode) -> Remedy:
    inside = container(case)
    member = node.gid in host.gids
    group_may = node.mode[-2:-1] in {"6", "7"}
    if host.uid == 0:
        return Remedy(
            summary="Root is refused by what the container or sandbox takes away: start it with "
            "the devices (--device) and, if capabilities were dropped, with "
            "--cap-add=DAC_OVERRIDE",
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
