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
from ascend_doctor.facts import LOOPBACK, Launch
from ascend_doctor.judging import Case, Finding, Level, NotApplicable, Texts, Unknown, Unresolved
from ascend_doctor.judging.layout_rules import splits_ranks
from ascend_doctor.patterns import defer

TEXTS = Texts("rank-counts")

_NODE_RANKS = frozenset({"node_rank", "machine_rank", "NODE_RANK"})
# They start the ranks of all nodes themselves.
_OWN_RANKS = frozenset({"verl", "swift", "megatron-swift"})
_OF_TASK = defer(r"\$\{?SLURM_(?:PROCID|NODEID|LOCALID)\}?")
# Devices of a node, if there are several nodes.
_NODE = 8


@TEXTS.check("run-world-size")
def _run_world_size(case: Case) -> Iterator[Finding]:
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
        where = at(case, "expert_model_parallel_size", "expert_tensor_parallel_size")
        product = split * size["EP"] * size["PP"]
        yield TEXTS.finding(
            "experts-do-not-divide", where, product=product, ranks=ranks, size=size, split=split
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
            odd += ["worker_num", "actor_resource.num_npus"]
        where = at(case, *odd, *(f"{names[short]}_parallel_size" for short in order), *devices)
        sizes, shown = "·".join(size), ", ".join(f"{name} {part}" for name, part in size.items())
        yield TEXTS.finding(
            "parts-do-not-divide", where, sizes=sizes, product=product, ranks=ranks, shown=shown
        )


@TEXTS.check("run-master-address")
def _run_master_address(case: Case) -> Iterator[Finding]:
    launch_options, nodes, first = options(case), number(case, "nnodes", 1), False
    address = launch_options.get("master_addr", "")
    if case.need(Launch).program.endswith("swift") and case.facts.environment is not None:
        values = case.facts.environment.variables
        master = values.get("MASTER_ADDR", "")
        address, text = master if master in LOOPBACK else "", values.get("NNODES", "")
        nodes = int(text[:6]) if text.isdecimal() else 1
        first = values.get("NODE_RANK") == "0"
    if nodes > 1 and address:
        level, where = Level.WARNING if first else None, at(case, "master_addr", "MASTER_ADDR")
        yield TEXTS.finding("loopback", where, level=level, nodes=nodes, address=address)


@TEXTS.check("run-allocation")
def _run_allocation(case: Case) -> Iterator[Finding]:
    options(case)
    launch = case.need(Launch)
    has = launch.allocation
    if has is None:
        raise NotApplicable("no allocation is beside the launch")
    for spot in launch.unresolved if has.whole and has.nodes > 1 else ():
        if spot.argument in _NODE_RANKS and _OF_TASK.fullmatch(spot.name):
            yield TEXTS.finding("batch-shell", spot.location, spot=spot, has=has)
    by_accelerate = "num_processes" in launch.options
    each = count = 0
    with contextlib.suppress(Unknown, NotApplicable):
        each = number(case, "nproc_per_node", 0) or world(case) // nodes(case)
    by_torchrun = launch.launcher == "torchrun"
    if by_torchrun or launch.program in _OWN_RANKS or "num_machines" in launch.options:
        with contextlib.suppress(Unknown, NotApplicable):
            count = nodes(case)
    if has.tasks > 1 and each > 1 and (by_torchrun or by_accelerate):
        yield TEXTS.finding("each-task", has.places.get("tasks"), has=has, each=each)
    elif 0 < has.devices < each:
        yield TEXTS.finding("few-npus", has.places.get("devices"), has=has, each=each)
    if count and has.nodes and (count > has.nodes or (has.whole and count < has.nodes)):
        where = at(case, "nnodes", "trainer.nnodes", "num_machines", "NNODES")
        yield TEXTS.finding("other-nodes", where or has.places.get("nodes"), has=has, count=count)


@TEXTS.check("run-visible-devices")
def _run_visible_devices(case: Case) -> Iterator[Finding]:
    options(case)
    listed = variables(case).get("ASCEND_RT_VISIBLE_DEVICES", "")
    if "ASCEND_RT_VISIBLE_DEVICES" in unseen(case):
        raise Unresolved("ASCEND_RT_VISIBLE_DEVICES is known when the launch runs")
    if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", listed):
        raise NotApplicable("the launch lists no visible devices")
    count = len(set(listed.split(",")))
    each = number(case, "nproc_per_node", 0) or world(case) // nodes(case)
    if each > count and count == len(listed.split(",")):
        where = at(case, "ASCEND_RT_VISIBLE_DEVICES", "nproc_per_node")
        yield TEXTS.finding("few-devices", where, each=each, count=count, listed=listed)
