"""A redactor for the names and addresses that facts contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ascend_doctor.facts import Snapshot
from ascend_doctor.probe_results import ProbeResult
from ascend_doctor.redact.addresses import parsed
from ascend_doctor.redact.local import hosts, logins
from ascend_doctor.redact.redactor import Redactor

_ADDRESS_VARIABLES = ("HCCL_IF_IP", "MASTER_ADDR", "RAY_ADDRESS")
_NOTHING: Mapping[str, str] = MappingProxyType({})


def redactor(
    facts: Snapshot,
    *,
    home: str,
    env: Mapping[str, str] = _NOTHING,
    key: bytes | None = None,
) -> Redactor:
    """``env`` is the examined environment, which knows more names than the facts hold."""
    told = facts.environment.variables if facts.environment is not None else _NOTHING
    variables = {**told, **env}
    named = [_name(variables.get(one, "")) for one in _ADDRESS_VARIABLES]
    host = facts.host.name if facts.host is not None else ""
    met = [name for run in facts.probes for one in run.ranks for name in _met(one)]
    everything = [*_addresses(facts), *named]
    return Redactor(
        host=host,
        hosts=(one for one in (*hosts(variables), *named, *met) if not parsed(one)),
        home=home,
        logins=logins(variables, home),
        addresses=[one for one in everything if parsed(one)],
        key=key,
    )


def _name(text: str) -> str:
    """A name or an address without its port."""
    return text if text.count(":") != 1 else text.partition(":")[0]


def _addresses(facts: Snapshot) -> Iterator[str]:
    if facts.environment is not None:
        yield from (a for one in facts.environment.interfaces or () for a in one.addresses)
    if facts.hccn is not None:
        yield from (facts.hccn.conf or {}).values()
        for one in facts.hccn.devices:
            yield from _given((one.address, one.gateway, one.detect))
    if facts.rank_table is not None:
        for rank in facts.rank_table.ranks:
            yield from _given((rank.server, rank.address))


def _given(texts: Iterable[str | None]) -> Iterator[str]:
    return (one for one in texts if one)


def _met(result: ProbeResult) -> list[str]:
    """Other nodes that a probe has met."""
    met = result.values.get("hosts")
    return [one for one in met.values() if isinstance(one, str)] if isinstance(met, dict) else []
