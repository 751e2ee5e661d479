"""A group that knows the names and help lines of its commands without importing them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """``table`` has name and line of help; ``modules`` is where the module of NAME is."""

    def __init__(self, *, table: Mapping[str, str], modules: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.table = table
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in self.table:
            return None
        command: click.Command = importlib.import_module(f"{self.modules}{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))
