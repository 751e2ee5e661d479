"""A command with many options: ``--help`` shows the usual ones by task, ``--help-all`` the rest."""

from typing import Any

import click

WHOLE = "ascend_doctor.whole_help"
# Of options that are gathered into one argument.
_SECTIONS = {
    "output": "Report",
    "examination": "Machine",
    "scope": "Probes",
    "nodes": "Several nodes",
    "asked": "Verdict",
    "on_nodes": "Each node",
    "exact": "Installed frameworks",
}


def _show_whole(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


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

    def make_parser(self, ctx: click.Context) -> Any:
        """Click compares what is not among long ones with each."""
        parser = super().make_parser(ctx)
        parser._long_opt.update(parser._short_opt)  # noqa: SLF001
        return parser

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown: dict[str, list[tuple[str, str]]] = {"Options": []}
        for each in self.get_params(ctx):
            short = each.is_eager and each.name != "lang"
            if short or each.name in self.usual or ctx.meta.get(WHOLE):
                title = _SECTIONS.get(vars(each).get("section", ""), "Options")
                shown.setdefault(title, []).extend(filter(None, [each.get_help_record(ctx)]))
        for title, rows in shown.items():
            with formatter.section(title):
                formatter.write_dl(rows)
