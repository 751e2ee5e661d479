"""The network ports inside the NPUs: their addresses, and what /etc/hccn.conf says of them."""

import contextlib
import ipaddress
import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations

from ascend_doctor.checks.network.sockets import address
from ascend_doctor.facts import Driver, Hccn, HccnDevice
from ascend_doctor.judging import Finding, Findings, NotApplicable, Remedy, Texts, Unknown, spans
from ascend_doctor.judging.chip import ascend, container, family_or_none, lacks_root
from ascend_doctor.judging.closed import odd_lines, require_open
from ascend_doctor.judging.judge import Case, error, rerun_as_root, unknown, warning

TEXTS = Texts("network")

_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
HCCN_SOURCE = "hicann/driver@ef377e95:src/custom/network/hccn"
_STALE = "https://github.com/vllm-project/vllm-ascend/pull/16847"
VERIFY = "hicann/hccl@09300b70:docs/zh/user_guide/fault_diagnosis/cluster_info_verify_fail.md"


def answers(case: Case) -> tuple[HccnDevice, ...]:
    """Devices with answers of hccn_tool. Raises NotApplicable without; hccn-tool says why."""
    ascend(case)
    devices = tuple(device for device in case.need(Hccn).devices if device.error is None)
    if not devices:
        raise NotApplicable("hccn_tool told nothing (see hccn-tool)")
    return devices


# Answers of hccn_tool by the field of a device: their name and question.
_ANSWERS = {
    "address": ("the network address", "-ip"),
    "netmask": ("the netmask", "-ip"),
    "gateway": ("the gateway", "-gateway"),
    "detect": ("the probed address", "-netdetect"),
    "health": ("the network health", "-net_health"),
    "state": ("the link", "-link"),
    "tls": ("the TLS switch", "-tls"),
}
_ANSWERS_950 = {"state", "tls"}


def untold(case: Case, *fields: str) -> Findings:
    """Devices without an answer of hccn_tool, which does not prove that all is well.

    Omits a question that this product does not know. Raises Unknown for devices without any answer.
    """
    devices, of_950 = answers(case), is_950(case)
    for field in sorted({*fields} & _ANSWERS_950) if of_950 else fields:
        what, question = _ANSWERS[field]
        silent = [
            device.device
            for device in devices
            if question not in device.unsupported
            and getattr(device, field) is None
            and (field != "gateway" or device.address != "")
        ]
        if silent:
            yield TEXTS.finding(
                "was-told",
                title=f"hccn_tool did not tell {what} of {_of(silent)}",
                observed=f"{len(silent)} of {len(devices)} devices",
                commands=(each(f"{question} -g", tuple(silent)),),
            )
    driver = case.facts.driver
    lost = {device.device for device in case.need(Hccn).devices} - {
        device.device for device in devices
    }
    if driver is not None and not of_950:
        there = {device.number for device in driver.devices if device.number is not None}
        lost |= there - {device.device for device in devices}
    if lost:
        raise Unknown(f"hccn_tool did not answer for {_of(lost)} (see hccn-tool)")


def report_odd(devices: Iterable[HccnDevice], field: str) -> Findings:
    """The one device whose answer differs from that of at least three others, which agree."""
    fields = {device.device: getattr(device, field) for device in devices}
    values = {device: text or "not set" for device, text in fields.items() if text is not None}
    counted = Counter(values.values()).most_common()
    if [count for _, count in counted[1:]] != [1] or counted[0][1] < _PEERS:
        return
    (usual, _), (odd, _) = counted
    of = next(device for device, text in values.items() if text == odd)
    what, question = _ANSWERS[field]
    yield TEXTS.finding(
        "odd",
        commands=(each(f"{question} -g", (of,)),),
        refs=(HCCN_SOURCE,),
        devices=(of,),
        odd=odd,
        of=of,
        usual=usual,
        what=f"T{what[1:]}",
    )


def _of(devices: Iterable[int]) -> str:
    listed = spans(devices)
    return f"device{'' if listed.isdecimal() else 's'} {listed}"


def is_950(case: Case) -> bool:
    """Whether the NPU network is the ports of 950, which have other numbers."""
    family = family_or_none(case)
    return family is not None and family.network == "ports"


def needs_addresses(case: Case) -> bool:
    """Whether jobs on several servers send data over addresses and links of the NPUs."""
    family = family_or_none(case)
    return family is not None and family.network in {"planes", "addresses"}


def each(command: str, devices: tuple[int, ...]) -> str:
    listed = " ".join(map(str, devices))
    return f"for i in {listed}; do sudo {_TOOL} -i $i {command}; done"


_BY_HCCN_TOOL = (
    *("hccn-tool", "hccn-conf", "hccn-addresses", "hccn-gateway", "hccn-link", "hccn-health"),
    "hccn-tls",
)


@TEXTS.check("hccn-tool")
def _hccn_tool(case: Case) -> Findings:
    ascend(case)
    hccn = case.need(Hccn)
    if not hccn.tool:
        driver = case.facts.driver
        if driver is not None and not driver.devices:
            raise NotApplicable("there is no device to ask")
        raise Unknown("hccn_tool is not there" + (", mount it" if container(case) else ""))
    if hccn.error is None and not hccn.devices and case.need(Driver).devices:
        raise Unknown(f"{hccn.tool} could not be started")
    if hccn.error is not None:
        permission = hccn.error.kind == "permission"
        yield unknown(
            "hccn_tool is for root, so the NPUs' network was not examined"
            if permission
            else f"hccn_tool does not answer ({hccn.error.kind})",
            needs="root" if permission and lacks_root(case) else "",
            observed=hccn.error.text,
            because="Addresses and links of the NPUs matter for jobs of several servers.",
            remedy=rerun_as_root(*_BY_HCCN_TOOL)
            if permission
            else Remedy(
                summary="See what it says by hand",
                commands=(each("-ip -g", (0,)), each("-link -g", (0,))),
            ),
        )
    for device in hccn.devices:
        if device.error is not None and device.error != hccn.error:
            yield TEXTS.finding("silent", observed=device.error.text, device=device)


_IPV4, _POINT_TO_POINT, _PEERS = 4, 2, 3
# Keys of /etc/hccn.conf, and the field with the active value.
_ACTIVE = {**{key: key for key in ("address", "netmask", "gateway")}, "netdetect": "detect"}


@TEXTS.check("hccn-conf")
def _hccn_conf(case: Case) -> Findings:
    devices = answers(case)
    hccn = case.need(Hccn)
    if hccn.conf is None and container(case) is not None:
        raise NotApplicable("there is no /etc/hccn.conf (see container-files)")
    if hccn.conf is None:
        require_open(case, "/etc/hccn.conf")
    yield from odd_lines(case, "/etc/hccn.conf")
    yield from _unwritten(hccn.conf, devices)
    if hccn.conf is None:
        return
    fields = []
    for device in devices:
        for key, field in _ACTIVE.items():
            written = hccn.conf.get(f"{key}_{device.device}")
            if not written or _ANSWERS[field][1] in device.unsupported:
                continue
            active = getattr(device, field)
            fields += [field]
            if active is None or _same(written, active):
                continue
            yield TEXTS.finding(
                "differs",
                observed=f"{key}_{device.device}={written}; hccn_tool: {active or 'not set'}",
                because="Rank tables made from the file name an address the device does not have."
                if key == "address"
                else "It changes with the next restart.",
                remedy=_set_again(device, key, written),
                refs=(_STALE, VERIFY),
                devices=(device.device,),
                device=device,
                key=key,
            )
    yield from untold(case, *dict.fromkeys(fields))


def _unwritten(conf: dict[str, str] | None, devices: tuple[HccnDevice, ...]) -> Findings:
    """Addresses missing in the file; boot restores only the file's."""
    lost = [
        device
        for device in devices
        if device.address
        and (
            f"address_{device.device}" not in (conf or {})
            or (device.netmask and f"netmask_{device.device}" not in (conf or {}))
        )
    ]
    if lost:
        yield TEXTS.finding(
            "file-restored",
            title="There is no /etc/hccn.conf, and the devices have addresses"
            if conf is None
            else f"/etc/hccn.conf has no address or mask of {_of(card.device for card in lost)}",
            observed="; ".join(f"device {device.device}: {device.address}" for device in lost[:8]),
            commands=tuple(
                f"sudo {_TOOL} -i {device.device} -ip -s address "
                f"{shlex.quote(device.address or '')} netmask {shlex.quote(device.netmask or '')}"
                for device in lost
                if device.netmask
            ),
            refs=(HCCN_SOURCE,),
            devices=tuple(device.device for device in lost),
        )


def _same(written: str, active: str) -> bool:
    first, other = address(written), address(active)
    return written == active if first is None or other is None else first == other


def _set_again(device: HccnDevice, key: str, written: str) -> Remedy:
    """hccn_tool -s also writes the file: both then agree."""
    value, mask = shlex.quote(written), shlex.quote(device.netmask or "")
    command = {
        "address": f"-ip -s address {value} netmask {mask}",
        "gateway": f"-gateway -s gateway {value}",
        "netdetect": f"-netdetect -s address {value}",
    }.get(key)
    look = f"sudo {_TOOL} -i {device.device} -ip -g"
    if command is None or " " in written or (key == "address" and not device.netmask):
        return Remedy(summary="Look which one is right, and set it", commands=(look,))
    return Remedy(
        summary="If the file is right, set the device to it; else correct the file",
        commands=(look, f"sudo {_TOOL} -i {device.device} {command}"),
    )


@TEXTS.check("hccn-addresses")
def _hccn_addresses(case: Case) -> Findings:
    devices = answers(case)
    family = family_or_none(case)
    lacking = tuple(device.device for device in devices if device.address == "")
    broken = error if needs_addresses(case) else warning
    if lacking and any(device.address for device in devices):
        yield broken(
            f"{_of(lacking).capitalize()} {'has' if len(lacking) == 1 else 'have'} no network "
            "address, and others have",
            observed=f"no address: {spans(lacking)}",
            required="an address on every NPU",
            because="Jobs of several servers cannot use these devices.",
            remedy=_give(lacking),
            refs=(HCCN_SOURCE,),
            devices=lacking,
        )
    elif lacking and family is not None and family.network == "planes":
        yield TEXTS.finding("no-addresses-of-planes", remedy=_give(lacking), refs=(HCCN_SOURCE,))
    elif lacking:
        yield TEXTS.finding("no-addresses", refs=(HCCN_SOURCE,))
    yield from _twice(devices, broken)
    environment = case.facts.environment
    for interface in (environment and environment.interfaces) or ():
        for device in devices:
            if device.address and device.address in interface.addresses:
                yield TEXTS.finding("host-has", device=device, interface=interface)
    yield from _impossible(devices, broken)
    if family is not None and family.network == "planes":
        yield from _planes(devices)
    yield from report_odd(devices, "netmask")
    yield from untold(case, "address", "netmask")


def _give(devices: tuple[int, ...]) -> Remedy:
    return Remedy(
        summary="Have the administrator set them: hccn_tool -i N -ip -s address A netmask M",
        commands=(each("-ip -g", devices),),
    )


def _twice(devices: tuple[HccnDevice, ...], broken: Callable[..., Finding]) -> Findings:
    owners: dict[str, list[int]] = {}
    for device in devices:
        if device.address:
            owners.setdefault(device.address, []).append(device.device)
    for text, of in owners.items():
        if len(of) > 1:
            yield broken(
                f"Devices {spans(of)} have the same network address",
                observed=text,
                required="every address once in the cluster",
                because="Packets for one of them reach the other.",
                remedy=_give(tuple(of)),
                refs=(HCCN_SOURCE,),
                devices=tuple(of),
            )


def _impossible(devices: tuple[HccnDevice, ...], broken: Callable[..., Finding]) -> Findings:
    """Addresses that are impossible for a device in a network (RFC 6890)."""
    for device in devices:
        with contextlib.suppress(ValueError):
            address = ipaddress.ip_address(device.address or "")
            net = _network(device)
            no_mask = bool(device.netmask) and (
                net is None or not net.prefixlen or net.num_addresses == 1
            )
            if (
                no_mask
                or _names_subnet(address, net)
                or address.is_unspecified
                or address.is_loopback
                or address.is_multicast
                or address.is_reserved
            ):
                yield broken(
                    f"Device {device.device} has a netmask that is none"
                    if no_mask
                    else f"Device {device.device} has an address that is not one of a host",
                    observed=f"{address}, netmask {device.netmask}",
                    required="a mask with ones in front and room for others, as 255.255.255.0"
                    if no_mask
                    else "an address of its own in the network of the NPUs",
                    because="Packets to it never leave their sender, or reach many.",
                    remedy=_give((device.device,)),
                    refs=(HCCN_SOURCE,),
                    devices=(device.device,),
                )


def _names_subnet(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
    net: ipaddress.IPv4Network | ipaddress.IPv6Network | None,
) -> bool:
    """The first and the last address of a subnet stand for all of it (RFC 1122, 3.2.1.3)."""
    small = net is None or net.version != _IPV4 or net.num_addresses <= _POINT_TO_POINT
    return not small and net is not None and address in {net[0], net[-1]}


def _planes(devices: tuple[HccnDevice, ...]) -> Findings:
    """Devices N and N+4 of a first-generation server share a subnet, others do not."""
    nets = {device.device: net for device in devices if (net := _network(device)) is not None}
    for (plane, net), (other, far) in combinations(nets.items(), 2):
        # On one server; a host with 16 devices has two groups of planes.
        if plane // 8 == other // 8 and (net == far) != (plane % 4 == other % 4):
            yield TEXTS.finding(
                "planes",
                observed=f"{plane}: {net}; {other}: {far}",
                remedy=_give((plane, other)),
                refs=(HCCN_SOURCE,),
                devices=(plane, other),
                plane=plane,
                other=other,
            )


def _network(device: HccnDevice) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(f"{device.address}/{device.netmask}", strict=False)
    except ValueError:
        return None


@TEXTS.check("hccn-gateway")
def _hccn_gateway(case: Case) -> Findings:
    fitting = []
    for answer in answers(case):
        net, gateway = _network(answer), address(answer.gateway or "")
        own = address(answer.address or "")
        if net is None or net.num_addresses == 1 or gateway is None or own != gateway in net:
            fitting.append(answer)
            continue
        yield TEXTS.finding(
            "gateway-is-own" if own == gateway else "gateway-elsewhere",
            commands=(each("-gateway -g", (answer.device,)),),
            refs=(HCCN_SOURCE,),
            devices=(answer.device,),
            answer=answer,
            net=net,
        )
    nets = Counter(map(_network, fitting)).most_common(1)
    peers = [answer for answer in fitting if _network(answer) == nets[0][0]]
    yield from report_odd(peers, "gateway")
    yield from untold(case, "address", "netmask", "gateway")
