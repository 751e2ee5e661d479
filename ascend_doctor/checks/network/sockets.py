"""The host's interfaces and addresses, as HCCL, gloo and tensorpipe choose them."""

import ipaddress
import shlex
from collections.abc import Iterator

from ascend_doctor.facts import LOOPBACK, Environment, Host, Interface, require_known
from ascend_doctor.judging import Case, Findings, Level, NotApplicable, Remedy, Texts
from ascend_doctor.judging.chip import ascend
from ascend_doctor.judging.closed import odd_lines
from ascend_doctor.judging.env_values import settings, show_values
from ascend_doctor.judging.value_bounds import clean
from ascend_doctor.patterns import defer

TEXTS = Texts("sockets")

_BRIDGE = defer(r"docker|virbr|br-[0-9a-f]{12}$")
_FAMILY = {"HCCL_SOCKET_FAMILY"}
_VERSIONS = {"AF_INET": {4}, "AF_INET6": {6}}
_EI0001 = "hicann/hccl@09300b70:docs/zh/user_guide/fault_diagnosis/env_config_error_EI0001.md"


def matching(value: str, interfaces: tuple[Interface, ...]) -> list[Interface]:
    """Interfaces that HCCL_SOCKET_IFNAME selects: eth, ^eth, =eth0 or ^=eth0."""
    body = value.removeprefix("^")
    exact = body.startswith("=")
    names = body.removeprefix("=").split(",")

    def name_interfaces(interface: Interface) -> bool:
        return (
            interface.name in names if exact else any(interface.name.startswith(n) for n in names)
        )

    return [
        interface for interface in interfaces if name_interfaces(interface) != value.startswith("^")
    ]


def _interfaces(case: Case) -> tuple[Interface, ...]:
    return require_known(case.need(Environment).interfaces, "which network interfaces there are")


def _list_interfaces(interfaces: tuple[Interface, ...]) -> str:
    return ", ".join(
        f"{interface.name} ({', '.join(interface.addresses) or 'no address'})"
        for interface in interfaces
    )


@TEXTS.check("socket-interface")
def _socket_interface(case: Case) -> Findings:
    values = settings(case)
    names = ("HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    if not any(name in values for name in names):
        raise NotApplicable("no interface is chosen")
    interfaces = _interfaces(case)
    chosen: dict[str, set[str]] = {}
    for name in names:
        value = clean(values.get(name, ""))
        if not value:
            continue
        # gloo and tensorpipe take whole names; only HCCL knows = and ^.
        exact = f"={value}" if name != names[0] else value
        matches = matching(exact, interfaces)
        chosen[name] = {interface.name for interface in matches}
        usable = [
            interface
            for interface in matches
            if _reaches(interface, values)
            and not ((value[0] == "^" or not _is_alone(values)) and is_unreachable(interface.name))
        ]
        if not usable:
            family = show_values(values, *_FAMILY & {*values})
            listed = _list_interfaces(tuple(matches) or interfaces) or "none"
            yield TEXTS.finding(
                "unusable",
                level=None if matches or name == names[2] else Level.ERROR,
                remedy=_choose(name),
                refs=(_EI0001,),
                chosen=show_values(values, name),
                observed=f"{family} {listed}".strip(),
            )
    hccl, gloo = (chosen.get(name) for name in names[:2])
    if hccl and gloo and not hccl & gloo and "HCCL_IF_IP" not in values:
        both = show_values(values, *names[:2])
        yield TEXTS.finding("two-interfaces", remedy=_choose(names[1]), both=both)


def _choose(name: str) -> Remedy:
    return Remedy(
        summary="Choose the interface that reaches the other nodes, or unset it on a single node",
        commands=("ip -br addr", f"unset {name}"),
    )


def _is_alone(values: dict[str, str]) -> bool:
    return clean(values.get("NNODES", "1")) in {"0", "1"}


def _claims(case: Case, values: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Where this node's address is named, and the address."""
    if "HCCL_IF_IP" in values:
        yield "HCCL_IF_IP", clean(values["HCCL_IF_IP"])
    host, master = case.need(Host), values.get("MASTER_ADDR", "")
    alone = _is_alone(values)
    # gloo binds what the host's name resolves to, and torchrun meets there.
    if (
        host.name in host.hosts
        and "GLOO_SOCKET_IFNAME" not in values
        and not (alone and case.need(Environment).interfaces is None)
    ):
        yield f"{host.name} in /etc/hosts", host.hosts[host.name]
    # torchrun's ranks on a node meet there.
    if not (local := host.hosts.get("localhost", "::1")).startswith(("127.", "::1")):
        yield "localhost in /etc/hosts", local
    if alone:
        return
    if values.get("NODE_RANK") == "0" or master in LOOPBACK:
        loopback = "127.0.0.1" if master in LOOPBACK else master
        yield f"MASTER_ADDR={master}", host.hosts.get(master, loopback)


@TEXTS.check("socket-address")
def _socket_address(case: Case) -> Findings:
    values, lines = settings(case), [*odd_lines(case, "/etc/hosts", "/etc/resolv.conf")]
    claims = [*_claims(case, values)]
    yield from lines
    yield from _without_address(case, values)
    if not claims and not lines and _is_alone(values):
        raise NotApplicable("neither HCCL_IF_IP is set nor a job of several nodes")
    interfaces = _interfaces(case)
    own = {
        address(text): interface.name for interface in interfaces for text in interface.addresses
    }
    for claim, text in claims:
        parsed = address(text)
        name = "lo" if parsed and parsed.is_loopback else own.get(parsed, "")
        there = _list_interfaces(interfaces) or "none"
        if _is_alone(values) and claim != "HCCL_IF_IP" and name:
            continue  # a host alone reaches itself
        if parsed is not None and (not name or is_unreachable(name)):
            yield TEXTS.finding(
                "unreachable" if name else "not-here",
                level=Level.ERROR if claim == "HCCL_IF_IP" and not name else None,
                claim=claim,
                text=text,
                name=name,
                there=there,
            )
        elif claim == "HCCL_IF_IP" and parsed:
            fits = [each for each in interfaces if each.name == name and _reaches(each, values)]
            filters = values.get("HCCL_SOCKET_IFNAME")
            versions = _VERSIONS.get(values.get("HCCL_SOCKET_FAMILY", ""), {4, 6})
            if not fits or parsed.version not in versions:
                shown = show_values(values, "HCCL_IF_IP", *_FAMILY)
                yield TEXTS.finding("other-family", shown=shown, name=name)
            elif filters and not matching(clean(filters), tuple(fits)):
                shown = show_values(values, "HCCL_IF_IP", "HCCL_SOCKET_IFNAME")
                yield TEXTS.finding("other-interface", shown=shown, name=name)
    master = values.get("MASTER_ADDR", "")
    at = own.get(address(case.need(Host).hosts.get(master, master)))
    rank = values.get("NODE_RANK", "0")
    if at and rank.isdecimal() and int(rank) and not _is_alone(values):
        yield TEXTS.finding("first-node", shown=show_values(values, "MASTER_ADDR", "NODE_RANK"))


def _without_address(case: Case, values: dict[str, str]) -> Findings:
    """Names of a job of several nodes that no service on this host knows."""
    host, master = case.need(Host), values.get("MASTER_ADDR", "")
    if {*host.name_services} != {"files"} or _is_alone(values):
        return
    own = [] if "GLOO_SOCKET_IFNAME" in values else [host.name]
    for name in (*own, *([master] if master not in LOOPBACK and not address(master) else [])):
        if name and name not in host.hosts:
            yield TEXTS.finding("unnamed", name=name)


def is_unreachable(name: str) -> bool:
    """Bridges of docker, its networks and libvirt have the same address on every host."""
    return name == "lo" or _BRIDGE.match(name) is not None


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        # The interface of a link-local IPv6 address follows %.
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _reaches(interface: Interface, values: dict[str, str]) -> bool:
    """Up, with a fitting address."""
    fitting = _VERSIONS.get(values.get("HCCL_SOCKET_FAMILY", ""), {4, 6})
    versions = {parsed.version for text in interface.addresses if (parsed := address(text))}
    return interface.up is not False and bool(versions & fitting)


def _is_routable(text: str) -> bool:
    parsed = address(text)
    return parsed is not None and not parsed.is_link_local


@TEXTS.check("socket-default")
def _socket_default(case: Case) -> Findings:
    ascend(case)
    values = settings(case)
    if "HCCL_IF_IP" in values or "HCCL_SOCKET_IFNAME" in values:
        raise NotApplicable("an interface is chosen")
    usable = [
        interface
        for interface in sorted(_interfaces(case), key=lambda interface: interface.name)
        if _reaches(interface, values) and interface.name[:6] not in {"docker", "lo"}
    ]
    if not any(_is_routable(text) for interface in usable for text in interface.addresses):
        listed = _list_interfaces(_interfaces(case)) or "none"
        yield TEXTS.finding("unusable", chosen="HCCL", observed=listed)
    if len(usable) > 1:
        listed = _list_interfaces(tuple(usable))
        reach = [each.name for each in usable if not is_unreachable(each.name)]
        name, count, bridge = usable[0].name, len(usable), reach[:1] != [usable[0].name]
        row = "bridge-first" if bridge and reach else "first"
        chosen = shlex.quote(reach[0] if reach else "")
        yield TEXTS.finding(row, name=name, count=count, listed=listed, chosen=chosen)
