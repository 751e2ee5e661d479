"""Pseudonyms of addresses: equal stays equal, and what shares a subnet still shares it."""

import ipaddress
from _blake2 import blake2b  # hashlib loads OpenSSL

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def pseudonym(address: Address, key: bytes) -> str:
    """An address inside 10.0.0.0/8 or fd00::/8 that shares prefixes where ``address`` does.

    Loopback, masks, 0.0.0.0 and a link-local address's prefix stay: they are equal everywhere.
    """
    if address.is_loopback or address.is_unspecified or address.is_multicast or _is_mask(address):
        return str(address)
    if isinstance(address, ipaddress.IPv4Address):
        if address.is_link_local:
            return str(address)
        # 10.0.0.0/8 and fd00::/8 are private: a pseudonym is never a public address.
        return str(ipaddress.IPv4Address(_flip(int(address), 32, 8, key) | 10 << 24))
    if address.is_link_local:
        return str(ipaddress.IPv6Address(_flip(int(address), 128, 64, key) | 0xFE80 << 112))
    return str(ipaddress.IPv6Address(_flip(int(address), 128, 8, key) | 0xFD << 120))


def _flip(number: int, size: int, leading: int, key: bytes) -> int:
    """Flip each bit after the ``leading`` ones by those before it and the key."""
    bits = f"{number:0{size}b}"
    flipped = 0
    for index in range(leading, size):
        flip = blake2b(bits[:index].encode(), key=key, digest_size=1).digest()[0] & 1
        flipped = flipped << 1 | (int(bits[index]) ^ flip)
    return flipped


def _is_mask(address: Address) -> bool:
    bits = f"{int(address):032b}"
    return address.version == 4 and bits.startswith("11111111") and "01" not in bits  # noqa: PLR2004
