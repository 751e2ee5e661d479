"""Rows of hccn_tool and /etc/hccn.conf."""

from __future__ import annotations

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

from .sample_facts import Facts, Rows, pairs, read_error, value


def ports(text: str) -> Facts:
    return {
        "ports": [(port.udie, port.port, port.kind, port.link) for port in parse_ports(text)],
        "speed": sorted({port.speed_gbps for port in parse_ports(text)}, key=str),
    }


def dev_info(text: str) -> Facts:
    tables = parse_frames(text)
    return {
        **ports(text),
        "tables": [table[0][0] for table in tables],
        "addresses": [row[:2] for row in tables[1][1:]] if len(tables) > 1 else [],
        "eids": [row[:2] for row in tables[2][1:]] if len(tables) > 2 else [],
    }


def frames(text: str) -> Facts:
    (header, *rows), *more = parse_frames(text)
    return {"header": header, "rows": rows, "more": more}


ROWS: Rows = {
    "hccn_tool/ip-a2.txt": (value(parse_address), {"value": ("192.0.2.10", "255.255.255.0")}),
    "hccn_tool/ip-not-configured.txt": (
        lambda text: {**read_error(text), "value": parse_address(text)},
        {"value": ("", ""), "kind": "not-preset"},
    ),
    "hccn_tool/link-up-a2.txt": (value(parse_link), {"value": "UP"}),
    "hccn_tool/link-down-a2.txt": (value(parse_link), {"value": "DOWN"}),
    "hccn_tool/link-down-950-doc.txt": (value(parse_link), {"value": "DOWN"}),
    "hccn_tool/ub_connect-950-doc.txt": (
        lambda text: {"link": parse_link(text), **pairs(text)},
        {"link": "PARTIAL LINK", "port 4": "UP", "port 5": "DOWN", "port 6": "PARTIAL UP"},
    ),
    "hccn_tool/net_health-success-a2.txt": (value(parse_net_health), {"value": "Success"}),
    "hccn_tool/net_health-init-a2.txt": (value(parse_net_health), {"value": "Init"}),
    "hccn_tool/net_health-socket-failed-910.txt": (
        value(parse_net_health),
        {"value": "Socket failed"},
    ),
    "hccn_tool/netdetect-a2.txt": (value(parse_net_detect), {"value": "192.0.2.1"}),
    "hccn_tool/netdetect-variant.txt": (value(parse_net_detect), {"value": ""}),
    "hccn_tool/gateway-a2.txt": (value(parse_gateway), {"value": "192.0.2.1"}),
    "hccn_tool/gateway-not-configured.txt": (value(parse_gateway), {"value": ""}),
    "hccn_tool/tls-switch-a2.txt": (value(parse_tls), {"value": False}),
    "hccn_tool/tls-with-certs-a2.txt": (
        value(parse_tls),
        {"value": False},
    ),
    "hccn_tool/tls-950-doc.txt": (
        value(parse_tls),
        {"value": False},
    ),
    "hccn_tool/lldp-a2.txt": (pairs, {"Ifname": "400GE1/1/20:2"}),
    "hccn_tool/status-a2-elided.txt": (pairs, {"Speed": "200000Mb/s"}),
    "hccn_tool/hw_stats-a2.txt": (pairs, {"pd_alloc": "1", "qp_active": "1", "ceqe": "0"}),
    "hccn_tool/route-a2.txt": (
        lambda text: {"default": parse_columns(text)[2][:3]},
        {"default": ("default", "192.0.2.1", "0.0.0.0")},
    ),
    "hccn_tool/stat-a2-elided.txt": (
        pairs,
        {"roce_qp_status_err_num": "0", "nic_rx_all_oct_num": "482237805"},
    ),
    "hccn_tool/stat-950-doc.txt": (pairs, {"port_id": "4", "crc_error_sum": "0"}),
    "hccn_tool/link-stat-a2.txt": (value(parse_link_stat), {"value": (2, ("UP", "DOWN", "UP"))}),
    "hccn_tool/link-stat-910.txt": (value(parse_link_stat), {"value": (2, ("UP", "DOWN", "UP"))}),
    "hccn_tool/link-stat-910-down.txt": (
        value(parse_link_stat),
        {"value": (2, ("DOWN", "UP", "DOWN", "UP"))},
    ),
    "hccn_tool/link-stat-950-doc.txt": (
        lambda text: {"value": parse_link_stat(text), "first": parse_frames(text)[0][1]},
        {
            "value": (2, ("UP", "DOWN", "UP", "DOWN")),
            "first": ("0", "0", "4", "LINK_UP", "Mon Feb 9 21:45:51 2026"),
        },
    ),
    "hccn_tool/optical-910-fault.txt": (
        parse_optical,
        {
            "present": "not present",
            "Rx Los Flag": "0xff",
            "Tx Los Flag": "0x0",
            "Rx Power1": "0.0054 mW",
            "RxPower Low Thres": "0.1445 mW",
        },
    ),
    "hccn_tool/fec-rs-a2.txt": (pairs, {"fec mode": "rs FEC mode"}),
    "hccn_tool/fec-none-910.txt": (pairs, {"fec mode": "no FEC mode"}),
    "hccn_tool/err-device-not-exist.txt": (read_error, {"kind": "device-not-exist"}),
    "hccn_tool/err-permission.txt": (read_error, {"kind": "permission"}),
    "hccn_tool/err-busy.txt": (read_error, {"kind": "busy"}),
    "hccn_tool/err-unsupported-product.txt": (read_error, {"kind": "unsupported"}),
    "hccn_tool/err-vm.txt": (read_error, {"kind": "unsupported-vm"}),
    "hccn_tool/hccn.conf-two-of-eight.txt": (
        lambda text: {**parse_assignments(text), "third": parse_assignments(text).get("address_3")},
        {"address_0": "192.0.2.10", "gateway_7": "192.0.2.1", "third": None},
    ),
    "hccn_tool/dev_info-950-doc.txt": (
        dev_info,
        {
            "ports": [(0, 4, "UB", "UP"), (0, 5, "UB", "UP"), (0, 6, "UB", "UP")],
            "speed": [400],
            "tables": ["UDie ID", "Interface Name", "Name"],
            "addresses": [
                ("end0v0", "192.0.2.199"),
                ("ipourma0", "::10:0:dfdf:51"),
                ("ipourma0", "::10:0:dfdf:30"),
                ("ipourma0", "::10:0:dfdf:28"),
                ("ipourma0", "::10:0:dfdf:20"),
            ],
            "eids": [("udma1", "0"), ("udma1", "1"), ("udma1", "2"), ("udma1", "3")],
        },
    ),
    "hccn_tool/dev_info-950-variant.txt": (
        dev_info,
        {
            "ports": [
                (0, 4, "ETH", "DOWN"),
                (0, 5, "ETH", "UP"),
                (1, 8, "UB", "DOWN"),
                (1, 9, "UB", "UP"),
            ],
            "speed": [200],
        },
    ),
    "hccn_tool/speed-950-doc.txt": (
        frames,
        {"rows": [("0", "0", "4", "400 G", "X4", "X4", "normal")], "more": []},
    ),
    "hccn_tool/vnic-950-doc.txt": (
        lambda text: {"value": parse_address(text), **pairs(text)},
        {"value": ("192.0.2.199", "255.255.255.0"), "vnic link status": "UP"},
    ),
    "hccn_tool/version-950-doc.txt": (
        pairs,
        {"Network Driver Version": "25.7.rc1", "Network Firmware Version": "B0202_1053"},
    ),
    "hccn_tool/bandwidth-950-doc.txt": (
        pairs,
        {"Bandwidth TX": "0.00 MB/sec", "Bandwidth RX": "266.84 MB/sec"},
    ),
}
