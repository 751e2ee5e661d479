"""A redactor for the names and addresses that facts contain."""

from collections.abc import Iterator, Mapping
from itertools import filterfalse
from types import MappingProxyType

from ascend_doctor.facts import Snapshot
from ascend_doctor.probe_records.common import ProbeRecord
from ascend_doctor.redact.addresses import parse_address
from ascend_doctor.redact.local import hosts, logins
from ascend_doctor.redact.redactor import Redactor

_ADDRESS_VARIABLES = ("HCCL_IF_IP", "MASTER_ADDR", "RAY_ADDRESS")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_NOTHING: Mapping[str, str] = MappingProxyType({})


def redactor(
    facts: Snapshot, *, home: str, env: Mapping[str, str] = _NOTHING, key: bytes | None = None
) -> Redactor:
    """``env`` is the examined environment, which has more names than the facts."""
    known = facts.environment.variables if facts.environment is not None else _NOTHING
    variables = {**known, **env}
    names = (*_ADDRESS_VARIABLES, *_PROXIES, *map(str.upper, _PROXIES))
    urls = [variables.get(variable, "") for variable in names]
    addressed = [url.rpartition("//")[2].rpartition("@")[2].partition("/")[0] for url in urls]
    named = [text.partition(":")[0] if text.count(":") == 1 else text for text in addressed]
    host = facts.host.name if facts.host is not None else ""
    lines = facts.host.odd_lines if facts.host is not None else ()
    words = " ".join(odd.text for odd in lines if odd.path == "/etc/hosts").split()
    records = (rank.record_or_none(ProbeRecord) for run in facts.probes for rank in run.ranks)
    met = [name for record in records if record for name in record.hosts.values()]
    everything = [*_addresses(facts), *named]
    return Redactor(
        host=host,
        hosts=filterfalse(parse_address, (*hosts(variables), *named, *met, *words)),
        home=home,
        logins=logins(variables, home),
        addresses=[name for name in everything if parse_address(name)],
        key=key,
    )


def _addresses(facts: Snapshot) -> Iterator[str]:
    if facts.environment is not None:
        yield from (
            a for interface in facts.environment.interfaces or () for a in interface.addresses
        )
    if facts.hccn is not None:
        yield from (facts.hccn.conf or {}).values()
        for device in facts.hccn.devices:
            yield from filter(None, (device.address, device.gateway, device.detect))
    if facts.rank_table is not None:
        for rank in facts.rank_table.ranks:
            yield from filter(None, (rank.server, rank.address))
