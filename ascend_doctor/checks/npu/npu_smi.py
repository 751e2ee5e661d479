"""npu-smi: whether it answers, and what its errors mean on this machine."""

import re

import msgspec

from ascend_doctor.checks.npu.npus import NPU_SMI_SOURCE
from ascend_doctor.facts import Npus, ToolError
from ascend_doctor.judging import Case, Finding, Findings, Remedy, Texts, unknown
from ascend_doctor.judging.chip import ascend, container
from ascend_doctor.judging.container_fix import managers, mount_again, start_again

TEXTS = Texts("npu-smi")

_IN_USE = "https://github.com/vllm-project/vllm-ascend/issues/2698"
_ACCESS = "https://github.com/vllm-project/vllm-ascend/issues/9490"
# DCMI codes without their thousands: -8005 and -9005 are 5 (dcmi_interface_api.h).
_CODES = {
    1: "a parameter was refused",
    2: "no permission",
    3: "memory",
    4: "a secure function failed",
    5: "an inner error",
    6: "a time-out",
    7: "no such device id",
    8: "no device",
    9: "a call into the driver failed",
    10: "a message could not be sent",
    11: "no answer was received",
    12: "not ready",
    13: "not possible in a container",
    14: "a file",
    15: "the device is being reset",
    16: "aborted",
    17: "the device is being upgraded",
    20: "the device is occupied",
    22: "a partition",
    23: "no configuration",
    255: "not supported",
}
_HOLDERS = (
    "docker ps -q | xargs docker inspect "
    "-f '{{.Name}} {{range .HostConfig.Devices}}{{.PathOnHost}} {{end}}'"
)
_DMESG = "sudo dmesg | grep -iE 'ascend|davinci|devdrv' | tail -n 40"


class _Cause(msgspec.Struct, frozen=True, kw_only=True):
    because: str
    remedy: Remedy
    refs: tuple[str, ...] = (NPU_SMI_SOURCE,)


def _restart(summary: str) -> Remedy:
    return Remedy(
        summary=summary, commands=("lspci -d 19e5: | grep -i accelerators", _DMESG, "sudo reboot")
    )


_SILENT_CARD = _Cause(
    because="The driver is there, and a card does not answer it: it was lost or is ill.",
    remedy=_restart("Restart the host; a card that stays away is broken"),
)
_NO_CARD = _Cause(
    because="The driver found no card that it can drive.",
    remedy=_restart("See whether the card is on the PCI bus, then restart the host"),
)
_NOT_STARTED = _Cause(
    because="The management interface of the driver did not start.",
    remedy=_restart("Read what the kernel says, then restart the host"),
)
_OCCUPIED = _Cause(
    because="The card is mounted in another container that is not privileged; a card can be in "
    "one such container only. torch then counts 0 devices.",
    remedy=Remedy(
        summary="On the host, find the container that holds the card, and stop it or give this "
        "one other cards",
        commands=(_HOLDERS,),
    ),
    refs=(NPU_SMI_SOURCE, _IN_USE),
)


@TEXTS.check(
    "npu-smi", caused_by=("container-devices", "container-driver", "driver-loaded", "device-access")
)
def _npu_smi(case: Case) -> Findings:
    ascend(case)
    npus = case.need(Npus)
    if not npus.tool:
        yield _missing(case)
        return
    if npus.error is None:
        return
    reason = _describe_error(npus.error)
    if npus.devices:
        yield TEXTS.finding("partial-answer", refs=(NPU_SMI_SOURCE,), reason=reason)
        return
    cause = _cause(case, npus.error)
    if cause is None:
        yield unknown(
            _title(npus.error),
            observed=reason,
            because="A driver that is ill can block or break every call."
            if npus.error.kind in {"timeout", "crashed"}
            else "This answer is not known to the doctor.",
            remedy="Ask it by hand, and read what the kernel says",
            commands=("timeout 60 npu-smi info", _DMESG),
        )
        return
    yield TEXTS.finding(
        "table-npus",
        title=_title(npus.error),
        observed=reason,
        because=cause.because,
        remedy=cause.remedy,
        refs=cause.refs,
    )


def _describe_error(tool_error: ToolError) -> str:
    text, code = tool_error.text.strip(), tool_error.exit_code
    return text if code is None else f"{text} (exit status {code})"


def _title(tool_error: ToolError) -> str:
    match = re.fullmatch(r"(dcmi|board-type|ret)-[0-9]*?([0-9]{1,3})", tool_error.kind)
    if match:
        number = tool_error.kind.rpartition("-")[2]
        words = _CODES.get(int(match[2]), "")
        return f"npu-smi fails with -{number}" + (f": {words}" if words else "")
    return {
        "timeout": "npu-smi does not answer",
        "crashed": "npu-smi crashes",
        "no-card": "npu-smi sees no NPU",
        "libc-sec-missing": "npu-smi cannot load libc_sec.so",
        "library-missing": "npu-smi cannot load a library",
        "invalid-card-id": "npu-smi says that a card does not exist",
    }.get(tool_error.kind, "npu-smi shows no table")


def _missing(case: Case) -> Finding:
    inside = container(case) is not None
    return TEXTS.finding(
        "no-tool",
        remedy=mount_again(case, "Mount npu-smi and /usr/local/dcmi when you start the container")
        if inside
        else Remedy(summary="It is part of the driver; have the driver installed in full"),
        refs=(NPU_SMI_SOURCE,),
    )


def _cause(case: Case, tool_error: ToolError) -> _Cause | None:
    if tool_error.kind == "dcmi-8005":
        return _inner_error(case)
    if tool_error.kind in {"libc-sec-missing", "library-missing"}:
        return _library(case)
    if tool_error.kind.startswith("board-type-"):
        return _SILENT_CARD
    if tool_error.kind.startswith("dcmi-"):
        return _OCCUPIED if tool_error.kind == "dcmi-8020" else _NOT_STARTED
    return {"no-card": _NO_CARD, "invalid-card-id": _SILENT_CARD}.get(tool_error.kind)


def _inner_error(case: Case) -> _Cause:
    """The likeliest cause of -8005, by the other sections."""
    driver, host = case.facts.driver, case.facts.host
    nodes = {node.path: node for node in driver.nodes} if driver else {}
    needed = [*managers(case), *(device.path for device in driver.devices)] if driver else []
    closed = [path for path in needed if path in nodes and nodes[path].readable is False]
    if closed:
        root = host is not None and host.uid == 0
        return _Cause(
            because=f"This user may not open {closed[0]}"
            + ("; even root needs the capability DAC_OVERRIDE." if root else "."),
            remedy=Remedy(
                summary="See device-access for what to do; npu-smi works as root in the meantime"
            ),
            refs=(NPU_SMI_SOURCE, _ACCESS),
        )
    lacking = [path for path in needed if path not in nodes]
    bare = driver is not None and not driver.devices
    if container(case) is not None and (bare or lacking):
        return _Cause(
            because=f"The container lacks {', '.join(lacking) or 'device files'}.",
            remedy=start_again(case, "Start the container again with the devices"),
            refs=(NPU_SMI_SOURCE, _IN_USE),
        )
    if bare:
        return _Cause(
            because="The driver's modules are not loaded: there is no device file.",
            remedy=Remedy(
                summary="See driver-loaded; after an update restart the host",
                commands=("lsmod | grep -E 'drv_|asdrv_|ascend_'", "sudo reboot"),
            ),
        )
    if container(case) is not None:
        return _Cause(
            because="Devices are here and open: another container may hold the card, the driver's "
            "libraries may be of another release, or a sandbox (seccomp) refuses the call.",
            remedy=Remedy(
                summary="On the host, see whether npu-smi works there and which containers run",
                commands=("npu-smi info", "docker ps"),
            ),
            refs=(NPU_SMI_SOURCE, _IN_USE),
        )
    return _Cause(
        because="Devices are here and open: driver or firmware was changed and the host was not "
        "restarted, or a sandbox refuses the call.",
        remedy=Remedy(summary="Restart the host", commands=("sudo reboot",)),
    )


def _library(case: Case) -> _Cause:
    if container(case) is not None:
        remedy = mount_again(case, "Mount the driver's lib64 when you start the container")
    else:
        remedy = Remedy(
            summary="Let the loader know the driver's folders",
            commands=("sudo ldconfig", "source /usr/local/Ascend/driver/bin/setenv.bash"),
        )
    return _Cause(
        because="driver/lib64/common is not where the loader looks. On a host "
        "/etc/ld.so.conf.d/ascend_driver_so.conf names it; containers and shells without a login "
        "often lack it.",
        remedy=remedy,
        refs=("https://github.com/vllm-project/vllm-ascend/issues/1440", NPU_SMI_SOURCE),
    )
