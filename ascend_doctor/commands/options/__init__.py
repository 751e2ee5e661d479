"""Options that several commands share, and what they say."""

import functools

import click

flag = functools.partial(click.option, is_flag=True)
repeated = functools.partial(click.option, multiple=True)
defaulted = functools.partial(click.option, show_default=True)
