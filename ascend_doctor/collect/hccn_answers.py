"""The answers of hccn_tool. ``None`` means that the text is no answer, "" that nothing is set.

Sources: hicann/driver@ef377e95:src/custom/network/hccn and docs/en/Ascend_950_HCCN_Tool.
"""

from ascend_doctor.collect.vendor_text import first, parse_frames, parse_pairs, whole
from ascend_doctor.facts import HccnPort
from ascend_doctor.patterns import patterns_of

_GATEWAY, _TLS, _CHANGE, _WHEN = patterns_of(__file__)
_UNSET, _HOUR = "0.0.0.0", 3600  # noqa: S104 - an address that the tool prints
_OPTICAL = ("present", "Tx Power", "Rx Power", "TxPower", "RxPower", "Tx Los", "Rx Los")


def parse_address(text: str) -> tuple[str | None, str | None]:
    """(address, netmask) of ``-ip`` or ``-vnic``."""
    if "no ip was preset" in text:
        return "", ""
    pairs = parse_pairs(text)
    return first(pairs, "ipaddr", "vnic ipaddr"), first(pairs, "netmask", "vnic netmask")


def parse_gateway(text: str) -> str | None:
    if "no gateway was preset" in text:
        return ""
    match = _GATEWAY.search(text)
    return match.group(1) if match else None


def parse_link(text: str) -> str | None:
    """UP, DOWN, or PARTIAL LINK on 950."""
    return first(parse_pairs(text), "link status")


def parse_net_health(text: str) -> str | None:
    """Success, Init, Socket fail ... as printed; old tools say "Socket failed"."""
    return first(parse_pairs(text), "net health status")


def parse_net_detect(text: str) -> str | None:
    answer = first(parse_pairs(text), "netdetect address", "netdetect addr")
    return "" if answer == _UNSET else answer


def parse_tls(text: str) -> bool | None:
    match = _TLS.search(text)
    return match.group(1) == "1" if match else None


def parse_link_stat(text: str) -> tuple[int | None, tuple[str, ...]]:
    """(times the link came up, changes: the newest first)."""
    return whole(first(parse_pairs(text), "link up count")), tuple(_CHANGE.findall(text))


def parse_link_drops(text: str) -> int:
    """How often the link went down in the hour before this answer of ``-link_stat``."""
    times = [
        ((month, year), ((int(day) * 24 + int(h)) * 60 + int(m)) * 60 + int(s), change)
        for month, day, h, m, s, year, change in _WHEN.findall(text)
    ]
    return sum(
        "DOWN" in change and when == times[0][0] and times[0][1] - second < _HOUR
        for when, second, change in times
    )


def parse_optical(text: str) -> dict[str, str]:
    """Presence, powers with their limits and loss flags of ``-optical``."""
    return {key: value for key, value in parse_pairs(text) if key.startswith(_OPTICAL)}


def parse_ports(text: str) -> tuple[HccnPort, ...]:
    """The port table of ``-dev_info``, in both spellings of its header."""
    ports = []
    for header, *rows in parse_frames(text):
        names = ["".join(cell.split()).lower() for cell in header]
        if names[:2] != ["udieid", "portid"]:
            continue
        for row in rows:
            cells = dict(zip(names, row, strict=False))
            udie, port = whole(cells["udieid"]), whole(cells.get("portid"))
            if udie is not None and port is not None:
                ports.append(HccnPort(udie=udie, port=port, link=cells.get("linkstatus", "")))
    return tuple(ports)
