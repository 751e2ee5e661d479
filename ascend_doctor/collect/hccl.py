"""The rank table of a job: versions 1.0, 1.2 and 2.0, and the old form with group_list.

Source: hicann/hccl@09300b70:docs/zh/user_guide.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from ascend_doctor.collect.vendor_text import whole
from ascend_doctor.facts import RankEntry, RankTable
from ascend_doctor.machine.live import Machine


def rank_table(machine: Machine) -> RankTable:
    """The rank table that the environment names."""
    path = machine.env.get("RANK_TABLE_FILE", "")
    if not path:
        return RankTable()
    try:
        text = machine.read(path)
    except OSError as error:
        return RankTable(path=path, problem=f"cannot be read: {error.strerror or error}")
    return msgspec.structs.replace(parse_rank_table(text), path=path, source=path)


def parse_rank_table(text: str) -> RankTable:
    """A rank table of any version. Never raises; ``problem`` says what is wrong with the form."""
    try:
        loaded: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return RankTable(problem=f"is not JSON: {error}")
    if not isinstance(loaded, dict):
        return RankTable(problem="is not a JSON object")
    ranks = tuple(_entries(loaded))
    return RankTable(
        version=_text(loaded.get("version")),
        status=_text(loaded.get("status")),
        counted=_int(loaded.get("rank_count", loaded.get("server_count"))),
        ranks=ranks,
        problem=None if ranks else "has no server_list, rank_list or group_list with devices",
    )


def _entries(table: dict[str, Any]) -> Iterator[RankEntry]:
    """Entries in file order; the old form has no rank ids."""
    for server in _tables(table.get("server_list")):
        for device in _tables(server.get("device")):
            yield _entry(device, _text(server.get("server_id")), device.get("device_ip"))
    for device in _tables(table.get("rank_list")):
        levels = _tables(device.get("level_list"))
        lowest = min(levels, key=lambda level: _int(level.get("net_layer")) or 0, default={})
        addresses = _tables(lowest.get("rank_addr_list"))
        address = addresses[0].get("addr") if addresses else None
        yield _entry(device, _text(lowest.get("net_instance_id")), address)
    for group in _tables(table.get("group_list")):
        for instance in _tables(group.get("instance_list")):
            for device in _tables(instance.get("devices")):
                yield _entry(device, _text(instance.get("server_id")), device.get("device_ip"))


def _entry(device: dict[str, Any], server: str, address: Any) -> RankEntry:
    return RankEntry(
        rank=_int(device.get("rank_id")),
        server=server,
        device=_int(device.get("device_id")),
        address=_text(address) or None,
        super_device=_int(device.get("super_device_id")),
    )


def _tables(value: Any) -> list[dict[str, Any]]:
    return [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return whole(value) if isinstance(value, str) else None
