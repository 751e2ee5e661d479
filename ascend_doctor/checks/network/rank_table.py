"""RANK_TABLE_FILE: whether it should be there, and whether it describes this machine."""

from collections.abc import Iterator
from itertools import groupby

from ascend_doctor.checks.network.network import VERIFY
from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Environment, RankEntry, RankTable
from ascend_doctor.judging import Case, Finding, Findings, Texts, spans
from ascend_doctor.judging.chip import family_or_none
from ascend_doctor.judging.env_values import unset
from ascend_doctor.judging.packages import npu_only

TEXTS = Texts("rank-table")

_NAME = "RANK_TABLE_FILE"
_LOAD = "hicann/hccl@09300b70:docs/zh/user_guide/fault_diagnosis/rank_table_load_fail.md"
_A3_POD = "1.2"
_ONCE = {"address": "device_ip", "super_device": "super_device_id"}


@TEXTS.check("rank-table")
def rank_table(case: Case) -> Findings:
    npu_only(case)
    environment, table = case.need(Environment), case.facts.rank_table
    if _NAME not in {*environment.withheld, *environment.variables}:
        return
    hccn = case.facts.hccn if table and table.ranks else None
    known = hccn and any(device.address for device in hccn.devices)
    if not known or not table or [*_faults(case, table), *_stale(case, table)]:
        yield TEXTS.finding("table-set")


@TEXTS.check("rank-table-content")
def _rank_table_content(case: Case) -> Findings:
    npu_only(case)
    table = case.need(RankTable)
    if not table.path:
        raise NotApplicable(f"{_NAME} is not set")
    if table.problem is not None:
        yield _refusal("cannot be used", f"{table.path} {table.problem}", "a rank table")
        return
    for observed, required in _faults(case, table):
        yield _refusal("is refused by HCCL", observed, required)
    stale = _stale(case, table)
    if stale:
        yield TEXTS.finding("other-addresses", remedy=unset(_NAME), refs=(VERIFY,), stale=stale)


def _refusal(what: str, observed: str, required: str) -> Finding:
    return TEXTS.finding(
        "rank-table",
        observed=observed,
        required=required,
        remedy=unset(_NAME),
        refs=(_LOAD,),
        what=what,
    )


def _faults(case: Case, table: RankTable) -> Iterator[tuple[str, str]]:
    """(found, wanted) for every rule that the table breaks."""
    family = family_or_none(case)
    allowed = family.rank_tables if family else ()
    if allowed and family and table.version not in allowed:
        yield f"version {table.version!r} on {family.title}", f"version {' or '.join(allowed)}"
    if table.version and table.status != "completed":
        yield f"status {table.status!r}", "status completed"
    ranks = [rank.rank for rank in table.ranks]
    if table.version and sorted(rank or 0 for rank in ranks) != list(range(len(ranks))):
        yield f"{len(ranks)} ranks: {_list(ranks)}", "rank ids from 0 on, each once"
    for field, what in _ONCE.items():
        named = [getattr(rank, field) for rank in table.ranks]
        twice = sorted({str(value) for value in named if value and named.count(value) > 1})
        if twice:
            yield f"{what} more than once: {', '.join(twice)}", f"every {what} once"
    in_order = [rank.server for rank in sorted(table.ranks, key=lambda rank: rank.rank or 0)]
    if len([*groupby(in_order)]) > len({*in_order}):
        yield "ranks of several servers alternate", "ranks of a server together, in order"
    servers = {rank.server for rank in table.ranks}
    if table.version in {"1.0", _A3_POD} and table.counted not in {None, len(servers)}:
        yield f"server_count {table.counted}, {len(servers)} servers", "the same number"
    if table.version == _A3_POD and any(rank.super_device is None for rank in table.ranks):
        yield "a device without super_device_id", "super_device_id of every device"
    if (
        len(servers) > 1
        and table.version == "1.0"
        and any(not rank.address for rank in table.ranks)
    ):
        yield "a device without device_ip, and several servers", "device_ip of every device"


def _list(ranks: list[int | None]) -> str:
    text = spans(rank for rank in ranks if rank is not None)
    return f"{text or 'no ids'}" + (", some without id" if None in ranks else "")


def _stale(case: Case, table: RankTable) -> str:
    """Addresses of this machine's server (most in common) that its devices lack; "" if none."""
    devices = case.facts.hccn.devices if case.facts.hccn else ()
    active = {device.device: device.address for device in devices if device.address}
    by_server: dict[str, list[RankEntry]] = {}
    for rank in table.ranks:
        if rank.address and rank.device in active:
            by_server.setdefault(rank.server, []).append(rank)
    if not by_server or table.version == "2.0":
        return ""

    def right(entries: list[RankEntry]) -> int:
        return sum(active.get(entry.device or 0) == entry.address for entry in entries)

    name, here = max(by_server.items(), key=lambda item: right(item[1]))
    if not right(here):
        return f"none of the addresses of device {spans(active)} is in the table"
    wrong = [entry for entry in here if active.get(entry.device or 0) != entry.address]
    return "; ".join(
        f"{name} device {entry.device}: {entry.address} in the table, "
        f"{active[entry.device or 0]} here"
        for entry in wrong
    )
