"""Ray's driver, a process of its own: an Order on standard input, lines of Told on standard output.

When standard input closes it lets go of the cluster, and Ray ends its actors.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import ray
from ray.exceptions import RayError
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.engine import Job, Silent
from ascend_doctor.fleet.gang import endpoint
from ascend_doctor.fleet.ray_cluster import NPU, RayNode, choose_nodes
from ascend_doctor.fleet.ray_engine import NodeOrder, Told
from ascend_doctor.fleet.ray_node import OnNode
from ascend_doctor.fleet.supervised import Ending

_POLL = 0.5
# How long others may hold a node's NPUs before it is called busy.
_PLACING, _PLACING_SHARE = 30.0, 0.25
# The time for an answer, and before it for the end of what was started on the node.
_ANSWER, _ANSWER_SHARE = 10.0, 0.2
# For ray.shutdown, before a driver that Ray keeps is ended anyway.
_LET_GO = 4.0
_LONGEST_REASON = 400


@dataclass(kw_only=True)
class NodeCheck:
    """A node's check: reservation, actor, check. ``port`` is free on the node."""

    node: RayNode
    group: Any
    actor: Any
    began: bool = False
    port: int = 0

    @property
    def is_placed(self) -> bool:
        return bool(placement_group_table(self.group)["state"] == "CREATED")

    def end(self) -> None:
        ray.kill(self.actor)
        remove_placement_group(self.group)


class RayDriver:
    """Follows the checks of all nodes until their end, the deadline, or the life line."""

    def __init__(self, job: Job, tell: Callable[[Told], None], cut: threading.Event) -> None:
        self._job = job
        self._tell = tell
        self._cut = cut
        self._begin = time.monotonic()
        self._waiting: dict[Any, NodeCheck] = {}
        self._lost: dict[RayNode, str] = {}
        self._together = "--gang" in job.check
        self._standing: list[NodeCheck] = []

    @property
    def _time_left(self) -> float:
        return self._begin + self._job.deadline - time.monotonic()

    def run(self) -> None:
        """Raises DataError where the cluster has no such nodes."""
        nodes, absent = choose_nodes(ray.nodes(), self._job)
        self._tell(Told(nodes=(*(node.name for node in nodes), *absent)))
        for name in absent:
            self._silent(name, "no node of this name is alive in the Ray cluster")
        for node in nodes:
            self._start(node)
        placing = self._time_left - min(_PLACING, self._job.deadline * _PLACING_SHARE)
        while (self._waiting or self._standing) and self._time_left > 0 and not self._cut.is_set():
            if self._standing and all(check.began for check in self._waiting.values()):
                self._begin_together()
            ready, _ = ray.wait(
                list(self._waiting), num_returns=1, timeout=min(_POLL, self._time_left)
            )
            for ref in ready:
                self._take(self._waiting.pop(ref), ref)
            if self._time_left < placing:
                self._give_up_on_late_ones()
                placing = 0.0
        self._tell_lost()
        for check in (*self._waiting.values(), *self._standing):
            began = "its check began" if check.began else "its actor did not start"
            self._silent(check.node.name, f"no answer within {self._job.deadline:g} s; {began}")
            check.end()

    def _start(self, node: RayNode) -> None:
        """An actor with all NPUs of its node, and no CPU, which others may use up."""
        npus = {NPU: node.npus} if node.npus else {}
        # Ray has a resource per node, named by its address: a bit of it places the actor there.
        group = placement_group([{f"node:{node.address}": 0.001, **npus}])
        actor = (
            ray.remote(OnNode)
            .options(
                num_cpus=0,
                resources=npus,
                # A failed node is reported, not retried silently.
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group),
            )
            .remote()
        )
        self._waiting[actor.locate.remote()] = NodeCheck(node=node, group=group, actor=actor)

    def _take(self, check: NodeCheck, ref: Any) -> None:
        try:
            value = ray.get(ref)
        except RayError as error:
            self._lost[check.node] = _why(error)
            check.end()
            return
        if check.began:
            self._deliver(check.node.name, value)
            check.end()
            return
        node_id, check.port = value
        # Two raylets behind one address, as in containers that share a network.
        if node_id != check.node.id:
            self._silent(check.node.name, f"another Ray node has its address {check.node.address}")
            check.end()
        elif self._together:
            self._standing.append(check)
        else:
            self._begin_check(check, {})

    def _begin_check(self, check: NodeCheck, env: dict[str, str]) -> None:
        check.began = True
        seconds = self._time_left - min(_ANSWER, self._job.deadline * _ANSWER_SHARE)
        self._waiting[check.actor.check.remote(self._job.check, seconds, env)] = check

    def _begin_together(self) -> None:
        """Ray has no variables for a launch over nodes, so these are torchrun's."""
        first = self._standing[0]
        for rank, check in enumerate(self._standing):
            env = {
                "PET_NNODES": str(len(self._standing)),
                "PET_NODE_RANK": str(rank),
                "PET_RDZV_ENDPOINT": endpoint(first.node.address, first.port),
            }
            self._begin_check(check, env)
        self._standing.clear()

    def _deliver(self, name: str, answer: bytes) -> None:
        if not answer:
            self._silent(name, "the check and what watched it were killed")
            return
        ending = msgspec.msgpack.decode(answer, type=Ending)
        if ending.output:
            path = os.path.join(self._job.folder, f"{name}.json")
            with open(f"{path}.part", "wb") as file:
                file.write(ending.output)
            # Merging and progress read the folder meanwhile.
            os.replace(f"{path}.part", path)
            return
        last = ending.errors.strip().rpartition("\n")[2][:_LONGEST_REASON]
        how = (
            f"the check hung and was ended after {ending.seconds:g} s"
            if ending.code is None
            else f"the check wrote no report (exit code {ending.code})"
        )
        self._silent(name, f"{how}: {last}" if last else how)

    def _give_up_on_late_ones(self) -> None:
        for ref, check in list(self._waiting.items()):
            if check.began or (check.is_placed and not self._together):
                continue
            del self._waiting[ref]
            busy = "busy: other work in the Ray cluster holds its NPUs"
            self._silent(check.node.name, "its actor did not start" if check.is_placed else busy)
            check.end()

    def _tell_lost(self) -> None:
        """Late, as Ray needs some seconds to see that more than the actor is gone."""
        alive = {row["NodeID"] for row in ray.nodes() if row["Alive"]} if self._lost else set()
        for node, why in self._lost.items():
            left = "the node left the Ray cluster during the check"
            self._silent(node.name, why if node.id in alive else left)

    def _silent(self, name: str, reason: str) -> None:
        self._tell(Told(silent=Silent(name, reason)))


def _why(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith(("File ", "Traceback")))
    return f"its actor was lost: {text[:_LONGEST_REASON]}"


def main() -> None:
    """The caller reads Ray's output on standard error only."""
    # Ray prints to standard output, which is for our lines only.
    out = os.dup(1)
    os.dup2(2, 1)

    def tell(line: Told) -> None:
        os.write(out, msgspec.json.encode(line) + b"\n")

    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=NodeOrder)
    cut = threading.Event()
    threading.Thread(target=_watch, args=(cut,), daemon=True).start()
    try:
        ray.init(address=order.address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        tell(Told(refused=" ".join(str(error).split())[:_LONGEST_REASON]))
        return
    try:
        RayDriver(order.job, tell, cut).run()
    except DataError as error:
        tell(Told(refused=str(error)))
    finally:
        ray.shutdown()


def _watch(cut: threading.Event) -> None:
    """Set once standard input closes; this also ends a driver that Ray keeps waiting."""
    sys.stdin.buffer.read()
    cut.set()
    time.sleep(_LET_GO)
    os._exit(1)


if __name__ == "__main__":
    main()
