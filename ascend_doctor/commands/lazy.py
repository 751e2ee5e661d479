"""A group that knows the names and help lines of its commands without importing them."""

import importlib
import os
from collections.abc import Mapping
from typing import Any

import click

from ascend_doctor.commands.habits import COMPLETION, HABITS
from ascend_doctor.commands.help_pages import speak
from ascend_doctor.commands.options.launch import limit_command

Table = Mapping[str, str]
_FIRST = (
    "`check`, `diagnose LOG`, `hang`, `lint SCRIPT`, `matrix solve`, `setup`, `plan MODEL`, "
    "`report` or `explain ERROR`"
)


def _equip(command: click.Command) -> click.Command:
    if COMPLETION in os.environ:
        from ascend_doctor.commands.names import complete

        complete(command)
    return speak(limit_command(command))


class SuggestingGroup(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError for an unknown command."""
        name = args[0]
        if not name.startswith("-") and name not in (names := self.list_commands(ctx)):
            import difflib

            from ascend_doctor.commands.names import find_taker

            habits = {word: to for word, to in HABITS.items() if to.partition(" ")[0] in names}
            habits |= {word: word for word in names}
            words = [name.lower(), *name.lower().replace("_", "-").split("-")]
            close = [habits[word] for word in words if word in habits]
            if not close and (taker := find_taker(name, ctx)):
                close = [taker if ctx.parent else taker.removeprefix("ascend-doctor ")]
            matched = (difflib.get_close_matches(word, habits, 1, 0.75) for word in words)
            close += [habits[match[0]] for match in matched if match]
            others = ", ".join(names) if ctx.parent else _FIRST
            hint = f"did you mean `{close[0]}`?" if close else f"try {others}"
            ctx.fail(f"no such command: {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command = super().get_command(ctx, name)
        return _equip(command) if command else None


class LazyGroup(SuggestingGroup):
    """``sections``: titles with commands and their help; ``modules``: where NAME's module is."""

    def __init__(self, *, sections: Mapping[str, Table], modules: str, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.sections = sections
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [name for table in self.sections.values() for name in table]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        return _equip(importlib.import_module(f"{self.modules}{name}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for title, table in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in table.items()])
