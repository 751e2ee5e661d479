"""How many ranks a launch starts, on which devices, and where they meet."""

import contextlib
import math
import re
from collections.abc import Iterator

from ascend_doctor.checks.launch.options import (
    NODE_SIZES,
    at,
    megatron_options,
    nodes,
    number,
    options,
    part_sizes,
    unseen,
    variables,
    world,
)
from ascend_doctor.checks.launch.rules import judge_rules
from ascend_doctor.errors import NotApplicable, Unknown, Unresolved
from ascend_doctor.facts import LOOPBACK, Launch
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.judge import Case, check, error, warning
from ascend_doctor.judging.layout_rules import splits_ranks

_STATE = "NVIDIA/Megatron-LM@core_v0.15.3:megatron/core/parallel_state.py"
# Devices of a node, if there are several nodes.
_NODE = 8


@check("run-world-size", "The parallel sizes divide the number of ranks", scope="launch")
def run_world_size(case: Case) -> Iterator[Finding]:
    """Megatron spreads the ranks over TP·PP·CP, and those of the experts over ETP·EP·PP.

    Both products must divide the number of ranks, which is nproc_per_node times nnodes of torchrun,
    NPROC_PER_NODE times NNODES of ms-swift, or trainer.n_gpus_per_node times trainer.nnodes of
    verl. Unset, the expert tensor parallel size is the tensor parallel size.
    """
    megatron_options(case)
    ranks = world(case)
    yield from _too_many_parts(case, ranks)
    size = part_sizes(case)
    tensor = size["TP"]
    if ranks % (tensor * size["PP"] * size["CP"]):
        return
    # ms-swift's default is 1; Megatron-LM's is the tensor parallel size.
    unset = 1 if case.need(Launch).program == "megatron-swift" else tensor
    split = number(case, "expert_tensor_parallel_size", unset)
    if not splits_ranks(ranks, split, size["EP"], size["PP"]):
        yield error(
            f"ETP·EP·PP is {split * size['EP'] * size['PP']}, which does not divide {ranks} ranks",
            observed=f"EP {size['EP']}, PP {size['PP']}, ETP {split}",
            required="sizes whose product divides the number of ranks",
            because="Unset, the expert tensor parallel size is the tensor parallel size.",
            remedy=Remedy(summary="`ascend-doctor plan` lists layouts that fit"),
            refs=(_STATE,),
            location=at(case, "expert_model_parallel_size", "expert_tensor_parallel_size"),
        )


def _too_many_parts(case: Case, ranks: int) -> Iterator[Finding]:
    names = {"TP": "tensor_model", "PP": "pipeline_model", "CP": "context"}
    size: dict[str, int] = {}
    for short, name in names.items():
        with contextlib.suppress(Unknown):
            size[short] = number(case, f"{name}_parallel_size", 1)
    product = math.prod(size.values())
    if ranks % product:
        # First the size that alone does not divide the ranks, then the largest.
        order = sorted(size, key=lambda short: (ranks % size[short] == 0, -size[short]))
        devices = ("nproc_per_node", "trainer.n_gpus_per_node")
        # No node has three devices: this number is the slip.
        values = case.need(Launch).options
        odd = [name for name in devices if values.get(name, "1") not in map(str, NODE_SIZES)]
        if ranks not in NODE_SIZES and ranks % _NODE:
            odd.append("worker_num")
        yield error(
            f"{'·'.join(size)} is {product}, which does not divide {ranks} ranks",
            observed=", ".join(f"{name} {dimension}" for name, dimension in size.items()),
            required="sizes whose product divides the number of ranks",
            because="Megatron stops when it builds its groups.",
            remedy=Remedy(summary="`ascend-doctor plan` lists layouts that fit"),
            refs=(_STATE,),
            location=at(
                case, *odd, *(f"{names[short]}_parallel_size" for short in order), *devices
            ),
        )


@check("run-node-rank", "The node rank is below the number of nodes", scope="launch")
def run_node_rank(case: Case) -> Iterator[Finding]:
    """Torchrun counts nodes from 0, so that the last one has the rank nnodes - 1.

    With another rank the rendezvous waits for a node that never comes.
    """
    yield from judge_rules(case, "run-node-rank")


@check("run-master-port", "The rendezvous port is valid", scope="launch")
def run_master_port(case: Case) -> Iterator[Finding]:
    """Ports go from 1 to 65535. Rank 0 can listen on no other, so the ranks cannot meet."""
    yield from judge_rules(case, "run-master-port")


@check("run-master-address", "Several nodes meet at an address of one of them", scope="launch")
def run_master_address(case: Case) -> Iterator[Finding]:
    """With several nodes master_addr is an address of the first that the others reach.

    At localhost each node waits for itself, until the rendezvous times out. ms-swift takes it from
    MASTER_ADDR, and the number of nodes from NNODES; its first node alone may use localhost, as its
    example colocate_multi_node1.sh does.
    """
    launch_options, nodes, first = options(case), number(case, "nnodes", 1), False
    address = launch_options.get("master_addr", "")
    if case.need(Launch).program.endswith("swift") and case.facts.environment is not None:
        values = case.facts.environment.variables
        master = values.get("MASTER_ADDR", "")
        address, nodes = master if master in LOOPBACK else "", _nodes(values.get("NNODES", ""))
        first = values.get("NODE_RANK") == "0"
    if nodes > 1 and address:
        yield (warning if first else error)(
            f"{nodes} nodes meet at {address}",
            observed=f"master_addr {address}, nnodes {nodes}",
            required="an address of the first node that the others reach",
            because="Each node waits for itself, until the rendezvous times out.",
            remedy=Remedy(summary="Give every node the address of the first"),
            refs=("https://pytorch.org/docs/stable/elastic/run.html",),
            location=at(case, "master_addr", "MASTER_ADDR"),
        )


def _nodes(text: str) -> int:
    return int(text[:6]) if text.isdecimal() else 1


@check("run-visible-devices", "Every rank of a node has a visible device", scope="launch")
def run_visible_devices(case: Case) -> Iterator[Finding]:
    """ASCEND_RT_VISIBLE_DEVICES lists at least as many devices as a node starts ranks.

    A rank without a device stops at set_device (107001).
    """
    options(case)
    listed = variables(case).get("ASCEND_RT_VISIBLE_DEVICES", "")
    if "ASCEND_RT_VISIBLE_DEVICES" in unseen(case):
        raise Unresolved("ASCEND_RT_VISIBLE_DEVICES is known when the launch runs")
    if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", listed):
        raise NotApplicable("the launch lists no visible devices")
    count = len(set(listed.split(",")))
    each = number(case, "nproc_per_node", 0) or world(case) // nodes(case)
    if each > count and count == len(listed.split(",")):
        yield error(
            f"{each} ranks on a node, and {count} visible devices",
            observed=f"ASCEND_RT_VISIBLE_DEVICES={listed}",
            required=f"at least {each} devices, or fewer ranks",
            because="A rank without a device stops at set_device (107001).",
            location=at(case, "ASCEND_RT_VISIBLE_DEVICES", "nproc_per_node"),
        )
