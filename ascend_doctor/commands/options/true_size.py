"""The options of a launch that is rehearsed at its true size."""

import click
import msgspec

from ascend_doctor.commands.options import flag
from ascend_doctor.commands.options.gather import gather_options
from ascend_doctor.shrinking.true_size import TrueSize

_MAX_WORLD = 1024


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


def _gather(
    *, true_size: bool, world: int | None, real: TrueSize | None, trace: str | None
) -> TrueSize | None:
    context = click.get_current_context()
    if (world or real or trace) and not true_size:
        raise click.UsageError("--world, --real and --trace need --true-size")
    if true_size and (context.params["shrink"] or context.params["nodes"] > 1):
        raise click.UsageError("--true-size keeps a launch as it is: no --shrink, no --nodes")
    asked = msgspec.structs.replace(real or TrueSize(), world=world, trace=trace)
    return asked if true_size else None


true_size_options = gather_options(
    "size",
    _gather,
    flag(
        "--true-size", help="Keep every size: memory is counted, and what is large is not computed."
    ),
    click.option(
        "--world",
        type=click.IntRange(1, _MAX_WORLD),
        metavar="N",
        help="With --true-size: so many ranks.  [default: the launch's own]",
    ),
    click.option(
        "--real",
        callback=_read_ranks,
        metavar="N|RANKS",
        help="With --true-size: N ranks of each pipeline stage have a process, or those named, as "
        "0,4.  [default: all of at most 8, else 1 of each stage]",
    ),
    click.option(
        "--trace",
        metavar="FILE",
        help="With --true-size: the time line of each rank, for ui.perfetto.dev.",
    ),
)
