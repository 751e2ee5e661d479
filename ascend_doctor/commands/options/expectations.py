"""``--expect``: what a gate expects of the machine, over its preset and the site's file."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TypeVar

import click
import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.judging.expectations import SOC, Expectation, over, parse_expectations
from ascend_doctor.matrix.catalog import Catalog

F = TypeVar("F", bound=Callable[..., object])

_PRESET = "ascend_doctor.expected"


def _parse(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> object:
    try:
        return parse_expectations(texts, "--expect")
    except DataError as error:
        raise click.UsageError(str(error)) from error


def expect_option(command: F) -> F:
    """Add ``--expect``; the command receives ``expect`` and passes it to ``expected``."""
    return click.option(
        "--expect",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_parse,
        help="What has to be here: npus=8, soc=910B3, 'cann>=8.5.0', 'driver>=25.2', links=up ...;"
        " repeatable.",
    )(command)


def preset(context: click.Context, texts: tuple[str, ...]) -> None:
    """What a preset expects, where nothing else says more of the same key."""
    context.meta[_PRESET] = parse_expectations(texts, "preset")


def choose_expectations(
    site: tuple[Expectation, ...], expectations: tuple[Expectation, ...], catalog: Catalog
) -> tuple[Expectation, ...]:
    """The command line over the site's file over the preset. Raises DataError."""
    context = click.get_current_context(silent=True)
    chosen = over(context.meta.get(_PRESET, ()) if context else (), site, expectations)
    return tuple(
        _with_chip(expectation, catalog) if expectation.check == SOC else expectation
        for expectation in chosen
    )


def _with_chip(expectation: Expectation, catalog: Catalog) -> Expectation:
    """With the id of a family, where it is called as people do: A2, 910C."""
    family = catalog.family_called(expectation.value)
    if family and family != catalog.family_of(expectation.value):
        return msgspec.structs.replace(expectation, value=family.id)
    value = "ascend" + expectation.value.lower().removeprefix("ascend")
    names = [name for family in catalog.families for name in family.names]
    families = [family.id for family in catalog.families]
    if value not in families and not any(fnmatchcase(value, name.lower()) for name in names):
        raise DataError(
            f"--expect {expectation.text}: no such chip; families are {', '.join(families)}, "
            f"chips {', '.join(names)}"
        )
    return expectation
