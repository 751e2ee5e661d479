"""The options of a launch that is rehearsed at its true size."""

import functools
from collections.abc import Callable
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from ascend_doctor.commands.options.kinds import flag
from ascend_doctor.shrinking.true_size import TrueSize

_MAX_WORLD = 1024
# Of a 910B's class; the launches of docs/records/true-size.md ran on it.
_CHIP_GIB = 64.0


def true_size_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The function gets ``size``, None if unused; else an NPU's memory defaults to the chip's."""

    @functools.wraps(command)
    def gather(
        *,
        true_size: bool,
        world: int | None,
        real: TrueSize | None,
        trace: str | None,
        memory: float,
        **options: Any,
    ) -> Any:
        if (world or real or trace) and not true_size:
            raise click.UsageError("--world, --real and --trace need --true-size")
        if true_size and (options["shrink"] or options["nodes"] > 1):
            raise click.UsageError("--true-size keeps a launch as it is: no --shrink, no --nodes")
        source = click.get_current_context().get_parameter_source("memory")
        if true_size and source is ParameterSource.DEFAULT:
            memory = _CHIP_GIB
        asked = msgspec.structs.replace(real or TrueSize(), world=world, trace=trace)
        return command(size=asked if true_size else None, memory=memory, **options)

    for option in _OPTIONS:
        option(gather)
    return gather


def _read_ranks(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> TrueSize | None:
    if text is None:
        return None
    words = text.removesuffix(",").split(",")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise click.BadParameter(f"{text!r} is neither a number nor a list of ranks, as 0,4")
    if "," in text:
        return TrueSize(real=tuple(sorted({int(word) for word in words})))
    if not int(text):
        raise click.BadParameter("0 ranks of a stage: rank 0 alone is --real 0,")
    return TrueSize(each=int(text))


# The help lists the last first.
_OPTIONS = (
    click.option(
        "--trace",
        metavar="FILE",
        help="With --true-size: the time line of each rank, for ui.perfetto.dev.",
    ),
    click.option(
        "--real",
        callback=_read_ranks,
        metavar="N|RANKS",
        help="With --true-size: N ranks of each pipeline stage have a process, or those named, as "
        "0,4.  [default: all of at most 8, else 1 of each stage]",
    ),
    click.option(
        "--world",
        type=click.IntRange(1, _MAX_WORLD),
        metavar="N",
        help="With --true-size: so many ranks.  [default: the launch's own]",
    ),
    flag(
        "--true-size", help="Keep every size: memory is counted, and what is large is not computed."
    ),
)
