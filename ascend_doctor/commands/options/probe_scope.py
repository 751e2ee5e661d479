"""The options that say how far probes go: layouts, nodes, minutes."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import click
import msgspec

from ascend_doctor.commands.options import defaulted, flag
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.patterns import defer

if TYPE_CHECKING:
    from ascend_doctor.probing.schedule import Extent

_SIZES = {
    "tp": "Tensor parallel size of the layout to try.",
    "pp": "Pipeline parallel size.",
    "cp": "Context parallel size.",
    "ep": "Expert parallel size.",
    "etp": "Expert tensor parallel size; Megatron takes that of --tp where it is left out.",
}
_ENDPOINT = defer(r"\S+:[0-9]{1,5}")


class ProbeScope(msgspec.Struct, frozen=True, kw_only=True):
    """``nodes``: count, number of this one, where they meet; ``small``: for a simulation."""

    sizes: dict[str, int]
    minutes: float = 1.0
    nodes: tuple[int, int, str] = (1, 0, "")
    small: bool = False

    def extent(self, nproc: int) -> Extent:
        """The same for the launch of ``nproc`` ranks on this node. Raises click.UsageError."""
        from ascend_doctor.probing.request import LaunchNodes
        from ascend_doctor.probing.schedule import Extent

        unit, (count, rank, endpoint) = ranks_of(self.sizes), self.nodes
        if nproc * count % unit:
            text = " ".join(f"--{name} {size}" for name, size in self.sizes.items())
            raise click.UsageError(
                f"{text} needs a multiple of {unit} ranks, and there are {nproc * count}"
            )
        return Extent(
            nodes=LaunchNodes(count=count, rank=rank, endpoint=endpoint),
            sizes=tuple(self.sizes.items()),
            minutes=self.minutes,
            small=self.small,
        )


def ranks_of(sizes: dict[str, int]) -> int:
    """The fewest ranks that fit a layout's dense and expert layers."""
    tp, pp, cp, ep = (sizes.get(size, 1) for size in ("tp", "pp", "cp", "ep"))
    # The same ranks hold both: both products divide their number.
    return math.lcm(tp * pp * cp, sizes.get("etp", tp) * ep * pp)


NOTHING_ASKED = ProbeScope(sizes={})


def _gather(
    *, soak: float, tp: int | None, pp: int | None, cp: int | None, ep: int | None, etp: int | None
) -> ProbeScope:
    sizes = {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "etp": etp}
    return ProbeScope(sizes={name: size for name, size in sizes.items() if size}, minutes=soak)


layout_options = gather_options(
    "scope",
    _gather,
    *(
        click.option(f"--{name}", type=click.IntRange(1, 4096), metavar="N", help=text)
        for name, text in _SIZES.items()
    ),
    defaulted(
        "--soak",
        type=click.FloatRange(min=0.05),
        default=1.0,
        metavar="MINUTES",
        help="How long level 4 keeps all devices busy.",
    ),
)


def _gather_nodes(
    *, nnodes: int, node_rank: int, rdzv_endpoint: str, gang: bool
) -> tuple[int, int, str]:
    """Raises DataError, and UsageError for nodes that are named twice or wrongly."""
    if gang:
        if (nnodes, node_rank, rdzv_endpoint) != (1, 0, ""):
            raise click.UsageError(
                "--gang and --nnodes, --node-rank, --rdzv-endpoint exclude each other"
            )
        from ascend_doctor.fleet import launchers

        gang_ = launchers.gang(os.environ)
        nnodes, node_rank, rdzv_endpoint = gang_.count, gang_.rank, gang_.endpoint
    if node_rank >= nnodes:
        raise click.UsageError(f"--node-rank {node_rank} is not below --nnodes {nnodes}")
    if nnodes > 1 and not _ENDPOINT.fullmatch(rdzv_endpoint):
        raise click.UsageError("--nnodes needs --rdzv-endpoint HOST:PORT, the same on all")
    return nnodes, node_rank, rdzv_endpoint


node_options = gather_options(
    "nodes",
    _gather_nodes,
    click.option(
        "--nnodes",
        type=click.IntRange(1, 4096),
        default=1,
        metavar="N",
        help="Nodes; run the same command on each.",
    ),
    click.option(
        "--node-rank",
        type=click.IntRange(0, 4095),
        default=0,
        metavar="R",
        help="Number of this node.",
    ),
    click.option("--rdzv-endpoint", default="", metavar="HOST:PORT", help="Where nodes meet."),
    flag(
        "--gang",
        help="Take these three from the variables of torchrun, Slurm, Volcano, AscendJob, Ray.",
    ),
)
