"""Which nodes of a Ray cluster are checked, and what they are called."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.engine import Job
from ascend_doctor.fleet.hostlist import plain

# Ray's name of the resource: ray-project/ray, python/ray/_private/accelerators/npu.py.
NPU = "NPU"


class RayNode(NamedTuple):
    """``id`` is Ray's, ``npus`` how many it offers, free or not."""

    name: str
    id: str
    address: str
    host: str
    npus: float


def choose_nodes(
    listed: Sequence[Mapping[str, Any]], job: Job
) -> tuple[list[RayNode], tuple[str, ...]]:
    """The nodes to check, of what ``ray.nodes()`` lists, and the missing wanted ones.

    The default is all with NPUs, or all if none has any. Raises DataError for too few nodes.
    """
    alive = _name_nodes([row for row in listed if row["Alive"]])
    if job.nodes:
        by_name = {name: node for node in alive for name in (node.address, node.host, node.name)}
        there = {node: by_name[node]._replace(name=node) for node in job.nodes if node in by_name}
        return list(there.values()), tuple(node for node in job.nodes if node not in there)
    offered = [node for node in alive if node.npus] or alive
    if not offered or len(offered) < (job.count or 0):
        raise DataError(f"{len(offered)} nodes can be checked, and {job.count or 1} are wanted")
    return offered[: job.count], ()


def _name_nodes(listed: Sequence[Mapping[str, Any]]) -> list[RayNode]:
    """By the name of ``ray start --node-name``, else the host's, else both."""
    hosts = Counter(row["NodeManagerHostname"] for row in listed)
    nodes = []
    for row in listed:
        host, address = row["NodeManagerHostname"], row["NodeManagerAddress"]
        own_name = row.get("NodeName") or address
        name = own_name if own_name != address else host if hosts[host] == 1 else address
        npus = float(row["Resources"].get(NPU, 0))
        nodes.append(RayNode(name, row["NodeID"], address, host, npus))
    names = Counter(_file_name(node.name) for node in nodes)
    return sorted(
        node._replace(name=name if names[name] == 1 else f"{name}-{node.id[:8]}")
        for node in nodes
        for name in (_file_name(node.name),)
    )


def _file_name(name: str) -> str:
    return plain(name).lstrip(".") or "_"
