"""The host's interfaces and addresses, as HCCL, gloo and tensorpipe choose them."""

import ipaddress

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Environment, Interface, require_known
from ascend_doctor.judging import Case, Finding, Findings, Remedy, Texts, error, warning
from ascend_doctor.judging.chip import ascend
from ascend_doctor.judging.env_values import settings, show_values, unset
from ascend_doctor.judging.value_bounds import clean

TEXTS = Texts("sockets")

_HCCL = TEXTS.names["hccl"]
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
        if not matches:
            yield (warning if name == names[2] else error)(
                f"{name} matches no interface of this machine",
                observed=f"{show_values(values, name)}; "
                f"there: {_list_interfaces(interfaces) or 'none'}",
                required="the interface that carries this node's address",
                because="HCCL stops with EI0001." if name == names[0] else "It cannot connect.",
                remedy=_choose(name),
                refs=(f"{_HCCL}/HCCL_SOCKET_IFNAME.md", _EI0001),
            )
        elif (
            name == names[0]
            and value[0] == "^"
            and all(is_unreachable(interface.name) for interface in matches)
        ):
            yield _leaves_none(f"{show_values(values, name)}; {_list_interfaces(tuple(matches))}")
        elif not any(interface.addresses and interface.up is not False for interface in matches):
            yield warning(
                f"{name} chooses an interface that is down or has no address",
                observed=f"{show_values(values, name)}; {_list_interfaces(tuple(matches))}",
                required="an interface that is up and has an address",
                because="Ranks cannot reach this node.",
                remedy=_choose(name),
                refs=(f"{_HCCL}/HCCL_SOCKET_IFNAME.md",),
            )
    hccl, gloo = (chosen.get(name) for name in names[:2])
    if hccl and gloo and not hccl & gloo and "HCCL_IF_IP" not in values:
        yield warning(
            "HCCL and gloo are pointed at different interfaces",
            observed=show_values(values, *names[:2]),
            required="the same interface",
            because="One of them may have no way to the other nodes.",
            remedy=_choose(names[1]),
            refs=(f"{_HCCL}/HCCL_SOCKET_IFNAME.md",),
        )


def _leaves_none(observed: str) -> Finding:
    return warning(
        "HCCL_SOCKET_IFNAME leaves only interfaces that other nodes cannot reach",
        observed=observed,
        required="an interface that reaches the other nodes",
        because="HCCL takes the loopback, and ranks of other nodes cannot connect.",
        remedy=_choose("HCCL_SOCKET_IFNAME"),
        refs=(f"{_HCCL}/HCCL_SOCKET_IFNAME.md",),
    )


def _choose(name: str) -> Remedy:
    return Remedy(
        summary="Choose the interface that reaches the other nodes, or unset it on a single node",
        commands=("ip -br addr", f"unset {name}"),
    )


@TEXTS.check("socket-address")
def _socket_address(case: Case) -> Findings:
    values = settings(case)
    value = values.get("HCCL_IF_IP")
    if value is None:
        raise NotApplicable("HCCL_IF_IP is not set")
    interfaces = _interfaces(case)
    bind_address = address(clean(value))
    if bind_address is None:
        return
    own = {
        address(text): interface.name for interface in interfaces for text in interface.addresses
    }
    if bind_address not in own:
        yield error(
            "HCCL_IF_IP is no address of this host",
            observed=f"{show_values(values, 'HCCL_IF_IP')}; "
            f"there: {_list_interfaces(interfaces) or 'none'}",
            required="an address of this host, different on every node",
            because="HCCL cannot listen there.",
            remedy=unset("HCCL_IF_IP"),
            refs=(f"{_HCCL}/HCCL_IF_IP.md",),
        )
    elif is_unreachable(own[bind_address]):
        yield warning(
            f"HCCL_IF_IP is the address of {own[bind_address]}, which other nodes cannot reach",
            observed=show_values(values, "HCCL_IF_IP"),
            required="an address that the other nodes reach",
            because="Jobs of several nodes cannot connect.",
            remedy=unset("HCCL_IF_IP"),
            refs=(f"{_HCCL}/HCCL_IF_IP.md",),
        )


def is_unreachable(name: str) -> bool:
    """Bridges of docker and libvirt have the same address on every host."""
    return name == "lo" or name.startswith(("docker", "virbr"))


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        # The interface of a link-local IPv6 address follows %.
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


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
        if interface.addresses
        and interface.up is not False
        and not interface.name.startswith("docker")
        and interface.name != "lo"
    ]
    if not any(_is_routable(text) for interface in usable for text in interface.addresses):
        yield TEXTS.finding("unusable", observed=_list_interfaces(_interfaces(case)) or "none")
    if len(usable) > 1:
        listed = _list_interfaces(tuple(usable))
        yield TEXTS.finding("first", name=usable[0].name, count=len(usable), listed=listed)
