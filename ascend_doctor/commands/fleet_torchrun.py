"""``ascend-doctor fleet torchrun``: the line for every node, where nothing starts things."""

from __future__ import annotations

import shlex

import click

from ascend_doctor.commands.options.input_file import InputFile
from ascend_doctor.commands.options.merged_output import read_hosts
from ascend_doctor.commands.options.node_check import OnNodes, on_nodes_options
from ascend_doctor.fleet.torchrun_lines import lines
from ascend_doctor.render.plain import one_line


@click.command("torchrun")
@click.option(
    "--hosts", required=True, metavar="FILE", type=InputFile(), help="The nodes, one a line."
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=29511,
    show_default=True,
    help="A free port of the first node, where the ranks meet.",
)
@on_nodes_options
def command(*, hosts: str, port: int, on_nodes: OnNodes) -> None:
    """Print the line to type on each node, all of them within a minute or so.

    Probes of level 3 then run over all nodes together. The first node is where they meet, so its
    name has to resolve on the others.
    """
    nodes = read_hosts(hosts)
    for node, line in lines(nodes, ("ascend-doctor",), on_nodes.words, port=port):
        click.echo(f"# on {one_line(node)}\n{one_line(line)}")
    click.echo("# then, with the reports of all nodes in one folder")
    click.echo(f"ascend-doctor merge reports --expect {shlex.quote(hosts)} --by-file")
