import socket

import psutil
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.interfaces import interfaces, parse_inet6


def test_they_are_what_psutil_sees() -> None:
    families = {socket.AF_INET, socket.AF_INET6}
    expected = {
        name: {
            address.address.partition("%")[0] for address in addresses if address.family in families
        }
        for name, addresses in psutil.net_if_addrs().items()
    }
    rows = interfaces()
    assert {row["name"]: set(row["addresses"]) for row in rows} == expected
    states = psutil.net_if_stats()
    assert {row["name"]: row["up"] for row in rows} == {
        name: states[name].isup for name in expected
    }


def test_an_address_of_the_kernel_is_read() -> None:
    text = (
        "00000000000000000000000000000001 01 80 10 80       lo\n"
        "fe8000000000000000fc00fffe000001 02 40 20 80     eth0\n"
        "20010db8000000000000000000000002 02 40 00 80     eth0\n"
    )
    assert parse_inet6(text) == {"lo": ["::1"], "eth0": ["fe80::fc:ff:fe00:1", "2001:db8::2"]}


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(parse_inet6(text), dict)
