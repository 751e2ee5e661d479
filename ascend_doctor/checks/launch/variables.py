"""Environment variables: values within their bounds, names spelt right, nothing left behind."""

import shlex
from collections.abc import Iterator

from ascend_doctor.facts import Environment
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.chip import family_or_none
from ascend_doctor.judging.env_values import unset
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.judging.packages import family, npu_only
from ascend_doctor.judging.spelling import variable_meant
from ascend_doctor.judging.value_bounds import clean, describe_bounds, unknown_keys
from ascend_doctor.matrix.schema import NearMiss, Variable, urls

# Variables of shells and launchers, without a row in the matrix.
COMMON = ("PYTHONPATH", "LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT")
# The check visible-devices reads this one, with rules beyond a range.
_OWN_CHECK = frozenset({"ASCEND_RT_VISIBLE_DEVICES"})
_CONSEQUENCES = {
    "error": "The value is refused: the job stops when the variable is read.",
    "ignored": "The value is ignored without a message.",
    "default": "The default is taken instead.",
}


def _set(case: Case) -> Iterator[tuple[Variable, str]]:
    """An empty value counts as unset."""
    npu_only(case)
    values = case.need(Environment).variables
    for variable in case.catalog.variables.variables:
        value = values.get(variable.name, "")
        if value and variable.name not in _OWN_CHECK:
            yield variable, value


def _default(variable: Variable) -> str:
    return variable.default or "unset"


@check("variables-valid", "Environment variables have allowed values", scope="launch")
def variables_valid(case: Case) -> Iterator[Finding]:
    """HCCL, CANN and torch_npu read about a hundred environment variables as plain text.

    A quote, a blank, a unit ("200M") or a carriage return from a file written on Windows makes a
    value invalid. Some values stop the job with EI0001 or at the first allocation, others fall
    back to the default without a word. The check compares every known variable with its
    documented type and range, where they depend on it for the chip of this machine. An unset
    variable, or one that is set to its default, is no finding.
    """
    chip = family_or_none(case)
    for variable, value in _set(case):
        should = describe_bounds(variable, value, chip)
        keys = unknown_keys(variable, value)
        if should:
            yield _invalid(
                variable, value, should, tidy=not describe_bounds(variable, clean(value), chip)
            )
        elif keys:
            yield warning(
                f"{variable.name} has keys that are not known: {', '.join(keys)}",
                observed=f"{variable.name}={value!r}",
                required=f"keys of: {', '.join(variable.keys)}",
                because="A key that the installed release does not know may stop the job.",
                refs=urls(variable.sources),
            )


def _invalid(variable: Variable, value: str, should: str, *, tidy: bool) -> Finding:
    remedy = unset(variable.name)
    if tidy:
        remedy = Remedy(
            summary="Set it again without what surrounds the value",
            commands=(f"export {variable.name}={shlex.quote(clean(value))}",),
        )
    documented = "What happens with another value is not documented."
    return (error if variable.invalid == "error" else warning)(
        f"{variable.name} has a value that is not allowed",
        observed=f"{variable.name}={value!r}",
        required=f"{should} (default: {_default(variable)})",
        because=_CONSEQUENCES.get(variable.invalid, documented),
        remedy=remedy,
        refs=urls(variable.sources),
    )


@check("variables-harmful", "No leftover setting harms training", scope="launch")
def variables_harmful(case: Case) -> Iterator[Finding]:
    """Some values are allowed and still do not belong into a training job.

    Most are debug settings that somebody exported while hunting a fault and that stayed in a
    profile or an image: ASCEND_LAUNCH_BLOCKING=1, debug logging, an allocator without caching.
    Others belong to inference or to another kind of server. Unset them unless you mean them.
    """
    for variable, value in _set(case):
        reason = next(
            (
                why
                for harmful, why in variable.hurts.items()
                if value == harmful or (variable.any_case and value.lower() == harmful.lower())
            ),
            None,
        )
        if reason is not None:
            yield warning(
                f"{variable.name}={value}: {reason}",
                observed=f"{variable.name}={value!r}",
                required=variable.recommend or _default(variable),
                because=variable.meaning,
                remedy=unset(variable.name),
                refs=urls(variable.sources),
            )


@check("variables-effective", "Environment variables have an effect on this chip", scope="launch")
def variables_effective(case: Case) -> Iterator[Finding]:
    """Many HCCL variables are read on one product line only.

    A guide for another server may have you set variables that do nothing here. That does no harm;
    the check names them so that you do not look for their effect.
    """
    npu_only(case)
    chip = family(case)
    for variable, value in _set(case):
        if variable.products and chip.id not in variable.products and value != variable.default:
            yield note(
                f"{variable.name} has no effect on {chip.title}",
                observed=f"{variable.name}={value!r}; it is read on {', '.join(variable.products)}",
                refs=urls(variable.sources),
            )


@check("variables-misspelt", "Environment variables are spelled correctly", scope="launch")
def variables_misspelt(case: Case) -> Iterator[Finding]:
    """A misspelt environment variable is silent: nothing reads it, and nothing says so.

    The check knows the usual near misses, names of other vendors that have no effect on NPUs
    (CUDA_VISIBLE_DEVICES, NCCL_SOCKET_IFNAME), and names that differ from a known one by a letter.
    Of HCCL, CANN and torch_npu it also knows shortened and lengthened names, such as
    HCCL_CONNECT_TIMEOUT_SECONDS.
    """
    npu_only(case)
    environment = case.need(Environment)
    present = {*environment.variables, *environment.withheld}
    for miss in case.catalog.variables.near_misses:
        known = case.catalog.variables.find(miss.wrong) is not None
        if miss.wrong in environment.misspelt and not known:
            rights = miss.right.split(" and ")
            absent = [right for right in rights if right not in present]
            yield _misspelt(miss, absent, _sources(case, rights))
    listed = {near_miss.wrong for near_miss in case.catalog.variables.near_misses}
    names = {*COMMON, *(variable.name for variable in case.catalog.variables.variables)}
    for name in sorted(present - listed - names):
        close = variable_meant(name, names)
        if close and "NCCL" not in name:
            absent = [close] if close not in present else []
            yield _misspelt(NearMiss(wrong=name, right=close), absent, _sources(case, [close]))


def _sources(case: Case, names: list[str]) -> tuple[str, ...]:
    rows = map(case.catalog.variables.find, names)
    return tuple(url for row in rows if row is not None for url in urls(row.sources)[:1])


def _misspelt(miss: NearMiss, absent: list[str], refs: tuple[str, ...]) -> Finding:
    if not absent:
        return note(
            f"{miss.wrong} does nothing; {miss.right} is set and counts",
            observed=f"{miss.wrong} is set",
            because=miss.note,
            refs=refs,
        )
    return warning(
        f"{miss.wrong} is set, which nothing on an NPU reads",
        observed=f"{miss.wrong} is set, {', '.join(absent)} is not",
        required=" and ".join(absent),
        because=miss.note or "A name that nobody reads has no effect.",
        remedy=Remedy(
            summary=f"If you meant {' and '.join(absent)}, set that instead",
            commands=(
                *(f'export {name}="${miss.wrong}"' for name in absent),
                *(() if miss.note else (f"unset {miss.wrong}",)),
            ),
        ),
        refs=refs,
    )
