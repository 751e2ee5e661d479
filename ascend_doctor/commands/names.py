"""The names that shells complete: ids, faults, models, chips, versions, codes."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from ascend_doctor.checks import all_checks
from ascend_doctor.commands.habits import HABITS
from ascend_doctor.fleet.explain import TOPICS
from ascend_doctor.judging.expectations import KEYS
from ascend_doctor.machine.processes import process_ids
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.models import names_by_spelling
from ascend_doctor.provision.request_ranges import frameworks_of
from ascend_doctor.simulator.faults import FAULTS

Names = Callable[[Catalog], Iterable[str]]


def list_manuals(rows: Catalog) -> list[str]:
    """What ``explain`` takes: checks, failures, variables and codes as CANN reports them."""
    variables = (variable.name for variable in rows.variables.variables)
    return [*_list_checks(rows), *rows.failures, *TOPICS, *variables, *rows.error_codes.reported]


def _list_checks(_: Catalog) -> Iterable[str]:
    return (check.id for check in all_checks())


def _list_explained(rows: Catalog) -> Iterable[str]:
    codes = map(str, (*rows.error_codes.acl, *rows.error_codes.hccl))
    return (*list_manuals(rows), *rows.component_ids, *codes)


_NAMES: dict[str, Names] = {
    "ID|CODE|VARIABLE|PACKAGE|LINE": _list_explained,
    "KEY=VALUE": lambda _: (f"{key}=" for key in KEYS),
    "--framework": frameworks_of,
    "--pid": lambda _: map(str, process_ids()),
    "--inject": lambda _: (fault.id for fault in FAULTS),
    "--megatron": lambda rows: (
        row.version.removeprefix("core_v") for row in rows.component("megatron-lm").releases
    ),
    "--model": lambda rows: names_by_spelling(rows).values(),
    "--only": _list_checks,
    "--skip": _list_checks,
    "--soc": lambda rows: (soc.soc for family in rows.families for soc in family.socs),
}


def find_taker(word: str, ctx: click.Context) -> str:
    """What to type for a word for which a command has no place; empty if unknown."""
    rows, path = Catalog(), ctx.command_path
    for each in ctx.command.params:
        names = _names_of(each)
        known = each.type.choices if isinstance(each.type, click.Choice) else names and names(rows)
        if each.opts[0].startswith("--") and word in (known or ()):
            return f"{path} {each.opts[0]} {word}"
    if word in _NAMES["--model"](rows):
        return f"ascend-doctor plan --model {word}"
    if {word, word.replace("_", "-")} & {*_list_explained(rows)}:
        return f"ascend-doctor explain {word}"
    form = HABITS.get(f"{path.removeprefix('ascend-doctor ')} {{}}", "")
    return f"ascend-doctor {HABITS[word]}" if word in HABITS else form.format(word)


def _names_of(parameter: click.Parameter) -> Names | None:
    return _NAMES.get(parameter.metavar or "") or _NAMES.get(parameter.opts[0])


def complete(command: click.Command) -> None:
    """Give the options and arguments of a command their names."""
    for each in command.params:
        names = _names_of(each)
        if names and not isinstance(each.type, click.Choice):
            vars(each)["shell_complete"] = functools.partial(_find_names, names, each.type)


def _find_names(names: Names, kind: Any, ctx: click.Context, begun: str) -> list[CompletionItem]:
    """Ours, else files where a file may be named, too."""
    fitting = [CompletionItem(name) for name in names(Catalog()) if name.startswith(begun)]
    return fitting or list(kind.shell_complete(ctx, None, begun))
