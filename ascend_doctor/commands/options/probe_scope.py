"""The options that say how far probes go: layouts, nodes, minutes."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from ascend_doctor.probing.schedule import Extent

_SIZES = {
    "tp": "Tensor parallel size of the layout to try.",
    "pp": "Pipeline parallel size.",
    "cp": "Context parallel size.",
    "ep": "Expert parallel size.",
    "etp": "Expert tensor parallel size; Megatron takes that of --tp where it is left out.",
}
_ENDPOINT = re.compile(r"\S+:[0-9]{1,5}")
_NODES = ("nnodes", "node_rank", "rdzv_endpoint")


class ProbeScope(msgspec.Struct, frozen=True, kw_only=True):
    """``sizes`` has what was given; ``small``: for a simulation."""

    sizes: dict[str, int]
    minutes: float = 1.0
    nnodes: int = 1
    node_rank: int = 0
    rdzv_endpoint: str = ""
    small: bool = False

    def extent(self, nproc: int) -> Extent:
        """The same for the launch of ``nproc`` ranks on this node. Raises click.UsageError."""
        from ascend_doctor.probing.request import LaunchNodes  # noqa: PLC0415
        from ascend_doctor.probing.schedule import Extent  # noqa: PLC0415 - level 0 needs none of it

        unit = ranks_of(self.sizes)
        if nproc * self.nnodes % unit:
            text = " ".join(f"--{name} {size}" for name, size in self.sizes.items())
            raise click.UsageError(
                f"{text} needs a multiple of {unit} ranks, and there are {nproc * self.nnodes}"
            )
        nodes = LaunchNodes(count=self.nnodes, rank=self.node_rank, endpoint=self.rdzv_endpoint)
        return Extent(
            nodes=nodes, sizes=tuple(self.sizes.items()), minutes=self.minutes, small=self.small
        )


def ranks_of(sizes: dict[str, int]) -> int:
    """The fewest ranks that fit a layout's dense and expert layers."""
    tp, pp, cp, ep = (sizes.get(size, 1) for size in ("tp", "pp", "cp", "ep"))
    # The same ranks hold both: both products divide their number.
    return math.lcm(tp * pp * cp, sizes.get("etp", tp) * ep * pp)


NOTHING_ASKED = ProbeScope(sizes={})


def layout_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The layout and the minutes; the function gets them as ``asked``."""

    @functools.wraps(command)
    def gather(*, soak: float, **options: Any) -> Any:
        sizes = {name: size for name in _SIZES if (size := options.pop(name)) is not None}
        nodes = {node: value for node in _NODES if (value := options.pop(node, None)) is not None}
        return command(asked=ProbeScope(sizes=sizes, minutes=soak, **nodes), **options)

    decorated: Callable[..., Any] = click.option(
        "--soak",
        type=click.FloatRange(min=0.05),
        default=1.0,
        show_default=True,
        metavar="MINUTES",
        help="How long level 4 keeps all devices busy.",
    )(gather)
    for name, text in reversed(_SIZES.items()):
        decorated = click.option(f"--{name}", type=click.IntRange(1, 4096), metavar="N", help=text)(
            decorated
        )
    return decorated


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The nodes of a launch over several; above ``layout_options``."""

    @functools.wraps(command)
    def check_nodes(
        *, nnodes: int, node_rank: int, rdzv_endpoint: str, gang: bool, **options: Any
    ) -> Any:
        if gang:
            nnodes, node_rank, rdzv_endpoint = _gang(nnodes, node_rank, rdzv_endpoint)
        if node_rank >= nnodes:
            raise click.UsageError(f"--node-rank {node_rank} is not below --nnodes {nnodes}")
        if nnodes > 1 and not _ENDPOINT.fullmatch(rdzv_endpoint):
            raise click.UsageError("--nnodes needs --rdzv-endpoint HOST:PORT, the same on all")
        return command(nnodes=nnodes, node_rank=node_rank, rdzv_endpoint=rdzv_endpoint, **options)

    decorated: Callable[..., Any] = check_nodes
    for option in (
        click.option(
            "--gang",
            is_flag=True,
            help="Take these three from the variables of torchrun, Slurm, Volcano, AscendJob, Ray.",
        ),
        click.option("--rdzv-endpoint", default="", metavar="HOST:PORT", help="Where nodes meet."),
        click.option(
            "--node-rank",
            type=click.IntRange(0, 4095),
            default=0,
            metavar="R",
            help="Number of this node.",
        ),
        click.option(
            "--nnodes",
            type=click.IntRange(1, 4096),
            default=1,
            metavar="N",
            help="Nodes; run the same command on each.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def _gang(nnodes: int, node_rank: int, rdzv_endpoint: str) -> tuple[int, int, str]:
    """The same by the launcher's variables. Raises DataError, and UsageError for both at once."""
    if (nnodes, node_rank, rdzv_endpoint) != (1, 0, ""):
        raise click.UsageError(
            "--gang and --nnodes, --node-rank, --rdzv-endpoint exclude each other"
        )
    from ascend_doctor.fleet.launchers import gang  # noqa: PLC0415 - only where it is asked for

    gang_ = gang(os.environ)
    return gang_.count, gang_.rank, gang_.endpoint
