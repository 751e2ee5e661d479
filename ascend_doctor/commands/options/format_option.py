"""``--format`` with its short form ``--json``."""

from typing import Any

import click


class FormatOption(click.Option):
    """``--format NAME``; if the command knows ``json``, ``--json`` is the same."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        # A separate parameter would have another value and line of help.
        action = "append_const" if self.multiple else "store_const"
        parser.add_option(self, opts=["--json"], dest=self.name, action=action, const="json")

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (record[0], f"{record[1]}  [--json: --format json]".strip())


shape_option = click.option(
    "--format",
    "shape",
    cls=FormatOption,
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
)
