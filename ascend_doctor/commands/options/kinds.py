"""Options by kind: a switch, one that may be repeated, one whose help shows its default."""

import functools

import click

flag = functools.partial(click.option, is_flag=True)
repeated = functools.partial(click.option, multiple=True)
defaulted = functools.partial(click.option, show_default=True)
