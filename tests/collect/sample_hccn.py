"""What parsers get of the answers of hccn_tool and of /etc/hccn.conf."""

from collections.abc import Callable

from ascend_doctor.collect.hccn_answers import (
    parse_address,
    parse_gateway,
    parse_link,
    parse_link_stat,
    parse_net_detect,
    parse_net_health,
    parse_optical,
    parse_ports,
    parse_tls,
)
from ascend_doctor.collect.vendor_text import parse_assignments, parse_columns, parse_frames

from .sample_facts import Facts, Readers, pairs, read_error, value


def ports(text: str) -> Facts:
    return {"ports": [(port.udie, port.port, port.link) for port in parse_ports(text)]}


def dev_info(text: str) -> Facts:
    tables = parse_frames(text)
    return {
        **ports(text),
        "tables": [table[0][0] for table in tables],
        "addresses": [row[:2] for row in tables[1][1:]] if len(tables) > 1 else [],
        "eids": [row[:2] for row in tables[2][1:]] if len(tables) > 2 else [],
    }


def link_stat(text: str) -> Facts:
    return {"value": parse_link_stat(text), "first": (parse_frames(text) or [[(), ()]])[0][1]}


def frames(text: str) -> Facts:
    (header, *rows), *more = parse_frames(text)
    return {"header": header, "rows": rows, "more": more}


def not_preset(parse: Callable[[str], object]) -> Callable[[str], Facts]:
    return lambda text: {**read_error(text), "value": parse(text), **pairs(text)}


READERS: Readers = (
    ("hccn_tool/dev_info-*", dev_info),
    ("hccn_tool/ip-* hccn_tool/vnic-*", not_preset(parse_address)),
    ("hccn_tool/link-stat-*", link_stat),
    ("hccn_tool/link-*", value(parse_link)),
    ("hccn_tool/ub_connect-*", lambda text: {"link": parse_link(text), **pairs(text)}),
    ("hccn_tool/net_health-*", value(parse_net_health)),
    ("hccn_tool/netdetect-*", value(parse_net_detect)),
    ("hccn_tool/gateway-*", value(parse_gateway)),
    ("hccn_tool/tls-*", value(parse_tls)),
    ("hccn_tool/route-*", lambda text: {"default": parse_columns(text)[2][:3]}),
    ("hccn_tool/optical-*", parse_optical),
    ("hccn_tool/err-*", read_error),
    ("hccn_tool/hccn.conf-*", lambda text: {"address_3": None, **parse_assignments(text)}),
    ("hccn_tool/speed-*", frames),
    ("hccn_tool/*", pairs),
)
