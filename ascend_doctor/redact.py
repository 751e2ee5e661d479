"""Takes secrets, names and addresses out of everything that leaves the doctor.

Pseudonyms are consistent within one report: equal stays equal, and addresses keep their subnets,
so that redacted facts are judged as the real ones are.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from ascend_doctor.facts import Snapshot
from ascend_doctor.probe_results import ProbeResult

T = TypeVar("T")

_ADDRESS_VARIABLES = ("HCCL_IF_IP", "MASTER_ADDR", "RAY_ADDRESS")
_SECRETS = re.compile(
    r"""
      (?P<kept>(?:api[_-]?key|access[_-]?key|secret|token|passwd|password)["']?\s*[=:]\s*["']?)
      (?!["'\s])[^\s"',;&]{3,}
    | (?P<bearer>\bBearer\s+)[\w.~+/-]{8,}=*
    | (?P<url>\b[a-z][a-z0-9+.-]*://)[^\s/@:]*:?[^\s/@]*@
    | \b(?:hf_|ghp_|gho_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|ms-)[A-Za-z0-9_-]{16,}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PRIVATE = re.compile(
    r"(?<![\w.])(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}(?![\w.]*\.\d)"
)
# The home folder in facts and recordings. They are judged again, where "~" would be no full path.
_HOME = "/home/user"
_OTHER_HOME = re.compile(r"(?<![\w.-])/home/(?!user(?![\w.-]))(?P<user>[\w.-]+)")
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)


class Redactor:
    """Knows what to hide on one machine. ``key`` makes pseudonyms comparable between machines.

    ``hosts`` are names of other machines.
    ``kept`` are names and addresses that stay, because nodes are called so.
    """

    def __init__(
        self,
        *,
        host: str = "",
        hosts: Iterable[str] = (),
        home: str = "",
        addresses: Iterable[str] = (),
        kept: Iterable[str] = (),
        key: bytes | None = None,
    ) -> None:
        self._key = key or secrets.token_bytes(16)
        self._home = home.rstrip("/")
        self._names: dict[str, str] = {}
        self._stay = {*kept}
        for name in (host, *hosts):
            if len(name) > 1 and name != "localhost":
                self._names[name] = f"host-{self._digest(name)}"
        for address in addresses:
            self._names.setdefault(address, self.address(address))
        self._stay.update(self._names.values())
        known = sorted(self._names, key=len, reverse=True)
        # A colon may stand before and after a name or an IPv4 address (ipaddr:192.0.2.1, a port),
        # but belongs to an IPv6 address.
        shapes = (
            rf"(?<!:){re.escape(one)}(?!:)" if ":" in one else re.escape(one) for one in known
        )
        self._known = re.compile(rf"(?<![\w.-])(?:{'|'.join(shapes) or '(?!)'})(?![\w-])")

    def _digest(self, text: str) -> str:
        return hashlib.blake2b(text.encode(), key=self._key, digest_size=3).hexdigest()

    def address(self, text: str) -> str:
        """A pseudonym inside 10.0.0.0/8 or fd00::/8 that shares prefixes where ``text`` does."""
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return text
        size, kept, top = (32, 8, 10) if found.version == 4 else (128, 8, 0xFD)  # noqa: PLR2004
        if found.is_loopback or found.is_unspecified or found.is_link_local or _is_mask(found):
            return text
        bits = f"{int(found):0{size}b}"
        flipped = "".join(
            str(
                int(bit)
                ^ (
                    hashlib.blake2b(bits[:place].encode(), key=self._key, digest_size=1).digest()[0]
                    & 1
                )
            )
            for place, bit in enumerate(bits)
        )
        value = int(flipped[kept:], 2) | top << (size - kept)
        return str(type(found)(value))

    def text(self, text: str) -> str:
        """A text for people without secrets, and with pseudonyms for names and addresses.

        The home folder becomes "~", so that commands can still be pasted.
        """
        if self._home and self._home != "/":
            # Inside quotes a shell does not expand ~, so the quote moves behind it.
            text = re.sub(rf"'{re.escape(self._home)}/", "~/'", text)
        return self._redacted(text, "~")

    def fact(self, text: str) -> str:
        """The same for facts and recordings, whose paths stay full paths."""
        return self._redacted(text, _HOME)

    def _redacted(self, text: str, home: str) -> str:
        if text in self._stay:
            return text
        text = _SECRETS.sub(_hide, text)
        if self._home and self._home != "/":
            text = re.sub(rf"(?<![\w.-]){re.escape(self._home)}(?![\w.-])", home, text)
        text = _OTHER_HOME.sub(lambda one: f"/home/user-{self._digest(one['user'])}", text)
        text = self._known.sub(lambda one: self._names[one[0]], text)
        text = _PRIVATE.sub(lambda one: self._private(one[0]), text)
        return _MAC.sub("00:00:00:00:00:00", text)

    def _private(self, text: str) -> str:
        return text if text in self._stay else self.address(text)

    def apply(self, value: T) -> T:
        """The same struct with every text redacted; mapping keys stay, for they are names."""
        clean = self.fact if isinstance(value, Snapshot) else self.text
        return msgspec.convert(_walk(msgspec.to_builtins(value), clean), type(value))


def _walk(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _walk(one, clean) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(one, clean) for one in value]
    return value


def _is_mask(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    bits = f"{int(found):032b}"
    return found.version == 4 and bits.startswith("11111111") and "01" not in bits  # noqa: PLR2004


def _hide(found: re.Match[str]) -> str:
    kept = found["kept"] or found["bearer"] or found["url"] or ""
    return f"{kept}[redacted]" + ("@" if found["url"] else "")


def redactor(facts: Snapshot, *, home: str, key: bytes | None = None) -> Redactor:
    """A redactor for the names and addresses that these facts contain."""
    found: list[str] = []
    if facts.environment is not None:
        found += [a for one in facts.environment.interfaces or () for a in one.addresses]
        found += [facts.environment.variables.get(name, "") for name in _ADDRESS_VARIABLES]
    if facts.hccn is not None:
        found += (facts.hccn.conf or {}).values()
        found += [
            text
            for one in facts.hccn.devices
            for text in (one.address, one.gateway, one.detect)
            if text
        ]
    if facts.rank_table is not None:
        found += [
            text for one in facts.rank_table.ranks for text in (one.server, one.address) if text
        ]
    addresses = [text for text in found if _is_address(text)]
    host = facts.host.name if facts.host is not None else ""
    others = [name for run in facts.probes for one in run.ranks for name in _hosts(one)]
    return Redactor(host=host, hosts=others, home=home, addresses=addresses, key=key)


def _hosts(result: ProbeResult) -> list[str]:
    """Other nodes that a probe has met."""
    met = result.values.get("hosts")
    return [one for one in met.values() if isinstance(one, str)] if isinstance(met, dict) else []


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
