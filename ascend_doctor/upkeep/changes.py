"""What a release of a component has and another has not: by the matrix, by sources, by wheels."""

import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Component, Need, urls
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.upkeep.imports import find_losses
from ascend_doctor.upkeep.source_tree import SourceTree

Kind = Literal["breaks", "goes", "comes"]
# A schema as torch's dispatcher registers it, which the library has as text: name(arguments) ->
# results.
_SCHEMA = re.compile(
    rb"(?<![A-Za-z0-9_:.])(_?npu_[a-z0-9_]+(?:\.[A-Za-z0-9_]+)?)(\([^\0\n]*?\) -> [^\0\n]*)"
)
# Read by os.environ or os.getenv, or by get_env_args of ms-swift.
_VARIABLE = re.compile(
    r"""(?:environ(?:\.get|\.setdefault)?[\[(]|getenv\(|get_env_args\()\s*["']([A-Z][A-Z0-9_]+)["']"""
)


class ReleaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """``subject`` is the component; ``sources`` are those of the text."""

    kind: Kind
    subject: str
    text: str
    sources: tuple[str, ...]


def matrix_changes(catalog: Catalog, name: str, old: str, new: str) -> Iterator[ReleaseChange]:
    """Rows and facts of the matrix on two versions of a component."""
    component = catalog.component(name)
    yield from _behaviours(component, old, new)
    yield from _functions(component, old, new)
    yield from _needs(component, old, new)
    if name == "megatron-core":
        yield from _options(catalog, old, new)


def _behaviours(component: Component, old: str, new: str) -> Iterator[ReleaseChange]:
    for behaviour in component.behaviours:
        before, after = (
            satisfies(component.scheme, version, behaviour.versions) for version in (old, new)
        )
        if before is not after:
            yield ReleaseChange(
                kind="comes" if after else "goes",
                subject=component.id,
                text=behaviour.text,
                sources=urls(behaviour.sources),
            )


def _functions(component: Component, old: str, new: str) -> Iterator[ReleaseChange]:
    for function in component.functions:
        before, after = (
            {
                parameter
                for versions, parameters in function.takes.items()
                if satisfies(component.scheme, version, versions)
                for parameter in parameters
            }
            for version in (old, new)
        )
        if before and after:
            sources = _row_urls(component, old, new)
            lost, fresh = f"{function.name} no longer takes", f"{function.name} also takes"
            yield from _lists("breaks", lost, component.id, before - after, sources)
            yield from _lists("comes", fresh, component.id, after - before, sources)


def _lists(
    kind: Kind, what: str, subject: str, names: Iterable[str], sources: tuple[str, ...]
) -> Iterator[ReleaseChange]:
    if listed := ", ".join(sorted(names)):
        yield ReleaseChange(kind=kind, subject=subject, text=f"{what} {listed}", sources=sources)


def _needs(component: Component, old: str, new: str) -> Iterator[ReleaseChange]:
    rows = [component.release(version) for version in (old, new)]
    before, after = (
        {_need_key(need) for need in row.requires if need.hard} if row else set() for row in rows
    )
    row = rows[1]
    for need in row.requires if row else ():
        if need.hard and _need_key(need) in after - before:
            was = ", ".join(text for name, text in sorted(before) if name == need.component)
            yield ReleaseChange(
                kind="comes",
                subject=component.id,
                text=f"needs {need.component} {need.versions or 'of any version'}"
                + (f", before {was}" if was else ""),
                sources=urls(need.sources or row.sources) if row else (),
            )


def _need_key(need: Need) -> tuple[str, str]:
    return need.component, need.versions


def _options(catalog: Catalog, old: str, new: str) -> Iterator[ReleaseChange]:
    flags = catalog.flags
    before, after = flags.listed(old), flags.listed(new)
    if not before or not after:
        return
    sources = (*flags.read_in(before), *flags.read_in(after))
    had, has = ({f"--{option}" for option in flags.of(listed)} for listed in (before, after))
    lost = "the training scripts no longer have"
    yield from _lists("breaks", lost, "megatron-lm", had - has, sources)
    yield from _lists("comes", "the training scripts have", "megatron-lm", has - had, sources)


def _row_urls(component: Component, *versions: str) -> tuple[str, ...]:
    rows = (component.release(version) for version in versions)
    return tuple(dict.fromkeys(url for row in rows if row for url in urls(row.sources)))


def import_changes(
    users: Iterable[SourceTree], name: str, old: SourceTree, new: SourceTree, top: str
) -> Iterator[ReleaseChange]:
    """The names that users import and that a component loses.

    What only a guarded import asks for goes: its file can still be imported.
    """
    for user in users:
        for lost in find_losses(user, old, new, top):
            yield ReleaseChange(
                kind="goes" if lost.guarded else "breaks",
                subject=name,
                text=f"{lost.dotted}, which {lost.path}:{lost.line} imports"
                + (" where it is used" if lost.guarded else ""),
                sources=(user.name, old.name, new.name),
            )


def variable_changes(name: str, old: SourceTree, new: SourceTree) -> Iterator[ReleaseChange]:
    before, after = (
        {match for text in tree.files.values() for match in _VARIABLE.findall(text)}
        for tree in (old, new)
    )
    sources = (old.name, new.name)
    yield from _lists("goes", "no longer reads", name, before - after, sources)
    yield from _lists("comes", "reads", name, after - before, sources)


def read_operators(wheel: Path) -> dict[str, str]:
    """The operators of a wheel of torch_npu, with their arguments and results.

    Raises DataError for an invalid archive.
    """
    operators: dict[str, str] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith("torch_npu/lib/lib") and name.endswith(".so"):
                    for operator, schema in _SCHEMA.findall(archive.read(name)):
                        operators[operator.decode()] = schema.decode("ascii", "replace")
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{wheel}: {error}") from error
    return operators


def operator_changes(users: Iterable[SourceTree], old: Path, new: Path) -> Iterator[ReleaseChange]:
    """Operators of torch_npu that go, come, or lose parameters, and who calls those that go."""
    before, after = read_operators(old), read_operators(new)
    sources = (old.name, new.name)
    trees = tuple(users)
    for operator in sorted(before.keys() - after.keys()):
        caller = _caller(trees, operator.partition(".")[0])
        yield ReleaseChange(
            kind="breaks" if caller else "goes",
            subject="torch-npu",
            text=f"the operator npu::{operator}" + (f", which {caller} calls" if caller else ""),
            sources=sources,
        )
    for operator in sorted(before.keys() & after.keys()):
        lost = _parameters(before[operator]) - _parameters(after[operator])
        text = f"npu::{operator} no longer takes"
        yield from _lists("breaks", text, "torch-npu", lost, sources)
    fresh = after.keys() - before.keys()
    yield from _lists("comes", f"{len(fresh)} operators:", "torch-npu", fresh, sources)


def _parameters(schema: str) -> set[str]:
    """The names in ``(Tensor self, int dim=-1, *, bool x=True) -> Tensor``."""
    inside = schema[1 : schema.index(") -> ")]
    # Commas inside lists do not separate parameters; aliases, as in Tensor(a!), are removed.
    parts = re.split(r",(?![^\[(]*[\])])", re.sub(r"\([a-z!]*\)", "", inside))
    names = (part.strip().rpartition("=")[0] or part.strip() for part in parts)
    return {name.split()[-1] for name in names if name and name != "*"}


def _caller(trees: Iterable[SourceTree], operator: str) -> str:
    call = re.compile(rf"\b(?:torch_npu|torch\.ops\.npu)\.{re.escape(operator)}\b")
    for tree in trees:
        for path, text in tree.files.items():
            if operator in text and call.search(text):
                return f"{path} of {tree.name}"
    return ""
