"""A command with many options: ``--help`` shows the usual ones, ``--help-all`` the rest."""

from typing import Any

import click

_WHOLE = "ascend_doctor.whole_help"


def _show_whole(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _is_short(parameter: click.Parameter) -> bool:
    return parameter.is_eager and parameter.name != "lang"


class ShortHelpCommand(click.Command):
    """``usual`` names the parameters that ``--help`` shows, split by blanks."""

    def __init__(self, *args: Any, usual: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.usual = frozenset(usual.split())
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_whole,
                help="Show all options and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [
            record
            for parameter in self.get_params(ctx)
            if ctx.meta.get(_WHOLE) or _is_short(parameter) or parameter.name in self.usual
            if (record := parameter.get_help_record(ctx)) is not None
        ]
        with formatter.section("Options"):
            formatter.write_dl(shown)
