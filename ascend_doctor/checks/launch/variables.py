"""Environment variables: values within their bounds, names spelt right, nothing left behind."""

import shlex
from collections.abc import Iterator

from ascend_doctor.facts import Environment
from ascend_doctor.judging import Case, Finding, Findings, Remedy, Texts, error, note, warning
from ascend_doctor.judging.chip import family_or_none
from ascend_doctor.judging.env_values import unset
from ascend_doctor.judging.packages import family, npu_only
from ascend_doctor.judging.spelling import variable_meant
from ascend_doctor.judging.value_bounds import clean, describe_bounds, unknown_keys
from ascend_doctor.matrix.schema import NearMiss, Variable, urls

TEXTS = Texts("variables")

# Variables of shells and launchers, without a row in the matrix.
COMMON = ("PYTHONPATH", "LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT")
# rank-table, megatron-path and cann-stale look for these.
_OWN_CHECK = {"RANK_TABLE_FILE", "MEGATRON_LM_PATH", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"} | {
    *("ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "ATB_HOME_PATH")
}
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
        # The check visible-devices has rules beyond a range.
        if value and variable.name != "ASCEND_RT_VISIBLE_DEVICES":
            yield variable, value


def _default(variable: Variable) -> str:
    return variable.default or "unset"


@TEXTS.check("variables-valid")
def variables_valid(case: Case) -> Findings:
    chip = family_or_none(case)
    environment, storage = case.need(Environment), case.facts.storage
    there = {spot.path for spot in storage.places} if storage else set()
    for name, odd in environment.odd_paths.items():
        value = environment.variables.get(name, "")
        if name not in _OWN_CHECK and value.rstrip("/") not in there - {""}:
            refs, shown = _sources(case, [name]), f"={value!r}" if value else " is set"
            yield TEXTS.finding(
                "no-path", remedy=unset(name), refs=refs, name=name, odd=odd, shown=shown
            )
    for variable, value in _set(case):
        should = describe_bounds(variable, value, chip)
        keys = unknown_keys(variable, value)
        if variable.type == "locale" and not should:
            should = _not_installed(value, environment.locales)
        if should:
            yield _invalid(
                variable, value, should, tidy=not describe_bounds(variable, clean(value), chip)
            )
        elif keys:
            refs, odd, known = urls(variable.sources), ", ".join(keys), ", ".join(variable.keys)
            name = variable.name
            yield TEXTS.finding("odd-keys", refs=refs, name=name, value=value, odd=odd, known=known)


def _not_installed(value: str, locales: tuple[str, ...] | None) -> str:
    """Other locales, if this is not among them; charsets lose their hyphens in names of folders."""
    name, dot, charset = value.partition(".")
    plain = f"{name}{dot}{charset.lower().replace('-', '')}"
    if locales is None or name in {"C", "POSIX"} or plain in locales:
        return ""
    return f"an installed locale: {', '.join(('C.UTF-8', *locales[:8]))}"


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


@TEXTS.check("variables-harmful")
def variables_harmful(case: Case) -> Findings:
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
            yield TEXTS.finding(
                "odd-value",
                required=variable.recommend or _default(variable),
                because=variable.meaning,
                remedy=unset(variable.name),
                refs=urls(variable.sources),
                reason=reason,
                value=value,
                variable=variable,
            )


@TEXTS.check("variables-effective")
def variables_effective(case: Case) -> Findings:
    npu_only(case)
    chip = family(case)
    for variable, value in _set(case):
        if variable.products and chip.id not in variable.products and value != variable.default:
            yield note(
                f"{variable.name} has no effect on {chip.title}",
                observed=f"{variable.name}={value!r}; it is read on {', '.join(variable.products)}",
                refs=urls(variable.sources),
            )


@TEXTS.check("variables-misspelt")
def variables_misspelt(case: Case) -> Findings:
    npu_only(case)
    environment = case.need(Environment)
    present = {*environment.variables, *environment.withheld}
    for miss in case.catalog.variables.near_misses:
        known = case.catalog.variables.find(miss.wrong) is not None
        if miss.wrong in present and not known:
            rights = miss.right.split(" and ")
            absent = [right for right in rights if right not in present]
            yield _misspelt(miss, absent, _sources(case, rights))
    listed = {near_miss.wrong for near_miss in case.catalog.variables.near_misses}
    names = {*COMMON, *case.catalog.variables.list_names()}
    for name in sorted(present - listed - names):
        close = variable_meant(name, names)
        if close and name.isidentifier() and "NCCL" not in name:
            absent = [close] if close not in present else []
            yield _misspelt(NearMiss(wrong=name, right=close), absent, _sources(case, [close]))


def _sources(case: Case, names: list[str]) -> tuple[str, ...]:
    rows = map(case.catalog.variables.find, names)
    return tuple(url for row in rows if row is not None for url in urls(row.sources)[:1])


def _misspelt(miss: NearMiss, absent: list[str], refs: tuple[str, ...]) -> Finding:
    if not absent:
        return TEXTS.finding("does-nothing", because=miss.note, refs=refs, miss=miss)
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
