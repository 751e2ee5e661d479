"""Options that several commands have: how far to look, on what, with how many ranks, how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ascend_doctor.report import LEVELS

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def level_option(text: str) -> Option:
    """Up to which level to check."""
    return click.option(
        "-l",
        "--level",
        type=click.IntRange(0, len(LEVELS) - 1),
        default=3,
        show_default=True,
        help=text,
    )


def device_option(text: str) -> Option:
    """Where probes run."""
    return click.option(
        "--device",
        type=click.Choice(["auto", "npu", "cuda", "cpu"]),
        default="auto",
        show_default=True,
        help=text,
    )


def nproc_option(text: str, *, most: int = 4096, default: int | None = None) -> Option:
    """Ranks of level 3 on a node."""
    return click.option(
        "--nproc",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        metavar="N",
        help=text,
    )


def timeout_option(text: str, *, default: int = 900, least: int = 1) -> Option:
    """Seconds for all that a command does, or for what ``text`` names."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=least),
        metavar="S",
        default=default,
        show_default=True,
        help=text,
    )
