"""The network ports inside the NPUs: /etc/hccn.conf and hccn_tool.

hccn_tool is for root and answers "busy" to calls side by side, so devices are asked in turn.
"""

import msgspec

from ascend_doctor.collect.file_grammar import CONF
from ascend_doctor.collect.hccn_answers import (
    parse_address,
    parse_gateway,
    parse_link,
    parse_link_drops,
    parse_link_stat,
    parse_net_detect,
    parse_net_health,
    parse_optical,
    parse_ports,
    parse_tls,
)
from ascend_doctor.collect.vendor_text import parse_assignments
from ascend_doctor.collect.vendor_tool import Tool, tool_path
from ascend_doctor.facts import Driver, Hccn, HccnDevice, ToolError
from ascend_doctor.machine.live import Machine, read_or_none

_CONF = "/etc/hccn.conf"
_CALL_DEADLINE = 10.0
_SECONDS = 25.0
# Ascend 950's PCI device id; its hccn_tool has other questions.
_ASCEND950 = "0xd806"
_UB_FOLDERS = ("/dev/uburma/", "/dev/ummu/")
# Not faults: a setting that was never made, a question that this product does not know.
_NOTHING_SET = frozenset({"not-preset"})
_UNSUPPORTED = frozenset({"unsupported", "unsupported-vm"})
_NO_SUCH_THING = _UNSUPPORTED | {"optical-not-present", "not-recorded"}
# After these the next device would answer the same, or hang as well.
_FINAL = frozenset({"permission", "not-found", "timeout", "not-asked"})


def hccn(machine: Machine, driver: Driver) -> Hccn:
    """Settings and links of the devices of ``driver``, until the tool refuses or hangs."""
    text = read_or_none(machine, _CONF)
    lines = filter(CONF.fullmatch, (text or "").split("\n"))
    conf = None if text is None else parse_assignments("\n".join(lines))
    numbers = [node.number for node in driver.devices if node.number is not None]
    root = driver.path or "/usr/local/Ascend/driver"
    path = tool_path(machine, "hccn_tool", (f"{root}/tools",))
    tool = Tool(machine=machine, path=path, name="hccn_tool", left=_SECONDS, call=_CALL_DEADLINE)
    of_950 = any(function.device == _ASCEND950 for function in driver.pci or ()) or any(
        node.path.startswith(_UB_FOLDERS) for node in driver.nodes
    )
    devices: list[HccnDevice] = []
    ended: ToolError | None = None
    for position, number in enumerate(numbers):
        asked = _Questions(tool=tool, device=position if of_950 else number, of_950=of_950)
        devices.append(_ports(asked) if of_950 else _port(asked))
        if asked.is_refused:
            ended = asked.failed
            break
    if not devices or (ended is not None and ended.kind == "not-found"):
        return Hccn(source=_CONF if conf else "", conf=conf, tool=path if "/" in path else "")
    return Hccn(source="hccn_tool", conf=conf, tool=path, devices=tuple(devices), error=ended)


class _Questions(msgspec.Struct, kw_only=True):
    """``failed``: the first fault. ``unsupported``: questions that the tool does not know."""

    tool: Tool
    device: int
    of_950: bool
    failed: ToolError | None = None
    unsupported: list[str] = msgspec.field(default_factory=list)

    @property
    def is_refused(self) -> bool:
        return self.failed is not None and self.failed.kind in _FINAL

    def ask(self, question: str) -> str:
        """The answer, "" if none. The option order differs on 950."""
        if self.is_refused:
            return ""
        number = ("-i", str(self.device))
        form = ("-g", question, *number) if self.of_950 else (*number, question, "-g")
        text, error = self.tool.ask(*form)
        if error is None or error.kind in _NOTHING_SET:
            return error.text if error else text
        if error.kind in _UNSUPPORTED:
            self.unsupported.append(question)
        if self.failed is None and error.kind not in _NO_SUCH_THING:
            self.failed = error
        return ""


def _port(asked: _Questions) -> HccnDevice:
    address, netmask = parse_address(asked.ask("-ip"))
    link = parse_link(asked.ask("-link"))
    health = parse_net_health(asked.ask("-net_health"))
    detect = parse_net_detect(asked.ask("-netdetect"))
    gateway = parse_gateway(asked.ask("-gateway"))
    tls = parse_tls(asked.ask("-tls"))
    history = asked.ask("-link_stat")
    ups, changes = parse_link_stat(history)
    # Only if it may explain something: each question takes time.
    optical = parse_optical(asked.ask("-optical")) if link not in {None, "UP"} else {}
    return HccnDevice(
        device=asked.device,
        address=address,
        netmask=netmask,
        gateway=gateway,
        link=link,
        health=health,
        detect=detect,
        tls=tls,
        link_ups=ups,
        link_changes=changes,
        link_drops=parse_link_drops(history),
        optical=optical,
        unsupported=tuple(asked.unsupported),
        error=asked.failed,
    )


def _ports(asked: _Questions) -> HccnDevice:
    ports = parse_ports(asked.ask("-dev_info"))
    tls = parse_tls(asked.ask("-tls"))
    return HccnDevice(
        device=asked.device,
        ports=ports,
        tls=tls,
        unsupported=tuple(asked.unsupported),
        error=asked.failed,
    )
