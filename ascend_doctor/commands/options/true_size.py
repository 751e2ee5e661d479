"""The options of a launch that is rehearsed at its true size."""

import functools
from collections.abc import Callable
from typing import Any

import click
import msgspec
from click.core import ParameterSource

_MAX_WORLD = 1024
# Of a 910B's class; the launches of docs/records/true-size.md ran on it.
_CHIP_GIB = 64.0


class TrueSize(msgspec.Struct, frozen=True, kw_only=True):
    """A launch at its true size. ``world`` in place of its own ranks; ``real`` have a process."""

    world: int | None = None
    real: tuple[int, ...] = ()


def true_size_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The function gets ``size``, None if unused; else an NPU's memory defaults to the chip's."""

    @functools.wraps(command)
    def gather(
        *, true_size: bool, world: int | None, real: tuple[int, ...], memory: float, **options: Any
    ) -> Any:
        if (world or real) and not true_size:
            raise click.UsageError("--world and --real need --true-size")
        if true_size and (options["shrink"] or options["nodes"] > 1):
            raise click.UsageError("--true-size keeps a launch as it is: no --shrink, no --nodes")
        source = click.get_current_context().get_parameter_source("memory")
        if true_size and source is ParameterSource.DEFAULT:
            memory = _CHIP_GIB
        size = TrueSize(world=world, real=real) if true_size else None
        return command(size=size, memory=memory, **options)

    for option in _OPTIONS:
        option(gather)
    return gather


def _read_ranks(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[int, ...]:
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() for word in words):
        raise click.BadParameter(f"{text!r} is no list of ranks, as 0,4")
    return tuple(sorted({int(word) for word in words}))


# The help lists the last first.
_OPTIONS = (
    click.option(
        "--real",
        callback=_read_ranks,
        metavar="RANKS",
        help="With --true-size: ranks that have a process, as 0,4.  [default: all of at most 8, "
        "else the first of each pipeline stage]",
    ),
    click.option(
        "--world",
        type=click.IntRange(1, _MAX_WORLD),
        metavar="N",
        help="With --true-size: so many ranks.  [default: the launch's own]",
    ),
    click.option(
        "--true-size",
        is_flag=True,
        help="Keep every size: memory is counted, and what is large is not computed.",
    ),
)
