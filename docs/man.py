"""Writes a manual page for ascend-doctor and each of its commands, from their own help.

usage: python docs/man.py FOLDER
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ascend_doctor import __version__
from ascend_doctor.cli import doctor


def escape(text: str) -> str:
    """The text as roff has it: no escapes, no lines that read like requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def page(command: click.Command, ctx: click.Context) -> str:
    """The manual page of a command."""
    return "\n".join(_rows(command, ctx)) + "\n"


def _rows(command: click.Command, ctx: click.Context) -> Iterator[str]:
    path = ctx.command_path
    usage = " ".join(command.collect_usage_pieces(ctx))
    yield f'.TH "{path.replace(" ", "-").upper()}" 1 "" "ascend-doctor {__version__}"'
    what = escape(command.get_short_help_str(200))
    yield f".SH NAME\n{escape(path.replace(' ', '-'))} \\- {what}"
    yield f".SH SYNOPSIS\n.B {escape(path)}\n{escape(usage)}\n.SH DESCRIPTION"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield f".PP\n.nf\n{escape(paragraph.removeprefix(chr(8)).strip())}\n.fi"
        else:
            yield f".PP\n{escape(' '.join(paragraph.split()))}"
    yield ".SH OPTIONS"
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            yield f".TP\n.B {escape(record[0])}\n{escape(' '.join(record[1].split()))}"
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for name, inner in commands(command, ctx):
            also = escape(f"{path.replace(' ', '-')}-{name}")
            yield f".TP\n.BR {also} (1)\n{escape(inner.get_short_help_str(200))}"


def commands(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group by name."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None:
            yield name, command


def pages(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Names and texts of all pages."""
    yield f"{ctx.command_path.replace(' ', '-')}.1", page(command, ctx)
    if isinstance(command, click.Group):
        for name, inner in commands(command, ctx):
            yield from pages(inner, click.Context(inner, parent=ctx, info_name=name))


def main(folder: Path) -> None:
    """Write every page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(doctor, click.Context(doctor, info_name="ascend-doctor")):
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
