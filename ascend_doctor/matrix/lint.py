"""The checks of `matrix lint`: every file loads strictly, and every reference leads somewhere."""

import functools
import graphlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import yaml

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.parsing import YAML_BYTES, check_yaml
from ascend_doctor.matrix.catalog import SINGLE_FILES, Catalog
from ascend_doctor.matrix.evidence import StackEvidence
from ascend_doctor.matrix.models import every
from ascend_doctor.matrix.schema import Component, Family, Need, Release, Stack
from ascend_doctor.matrix.sets import PinnedSet
from ascend_doctor.matrix.versions import (
    Scheme,
    VersionError,
    check_range,
    normalised,
    parse,
    satisfies,
)


class RowProblem(msgspec.Struct, frozen=True, kw_only=True):
    """``file``, and ``key_path`` in it (releases[2.7.1].requires[cann])."""

    file: str
    key_path: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key_path, self.what) if part)


Found = Iterator[tuple[str, str]]
_Loader = Callable[[str], Component | Stack | Family | StackEvidence]


def lint(catalog: Catalog) -> tuple[RowProblem, ...]:
    """All problems of the matrix; references are followed once all files load."""
    problems = [*_files_that_do_not_load(catalog)]
    if problems:
        return tuple(problems)
    for component in catalog.components:
        problems += _at(catalog, "components", component.id, _component(catalog, component))
    problems += _at(catalog, "components", "", _cycles(catalog))
    for stack in catalog.stacks:
        problems += _at(catalog, "stacks", stack.id, _stack(catalog, stack))
    for family in catalog.families:
        problems += _at(catalog, "hardware", family.id, _family(catalog, family))
    for row in catalog.sets:
        problems += (
            RowProblem(file="sets", key_path=f"{row.id}.{key}", what=what)
            for key, what in _set(catalog, row)
        )
    for name in catalog.files("evidence"):
        if name not in catalog.files("stacks"):
            problems += _at(catalog, "evidence", name, iter([("id", "no stack is called so")]))
    return tuple(problems)


def _at(catalog: Catalog, kind: str, identity: str, faults: Found) -> Iterator[RowProblem]:
    paths = catalog.files(kind).get(identity, (Path(kind),))
    file = ", ".join(str(path) for path in paths)
    return (RowProblem(file=file, key_path=key, what=what) for key, what in faults)


def _files_that_do_not_load(catalog: Catalog) -> Iterator[RowProblem]:
    loaders: dict[str, _Loader] = {
        "components": catalog.component,
        "stacks": catalog.stack,
        "hardware": catalog.family,
        "evidence": catalog.evidence,
    }
    for kind, loader in loaders.items():
        for paths in catalog.files(kind).values():
            for path in paths:
                yield from _duplicate_keys(path)
            yield from _try(functools.partial(_load, loader, paths[-1]))
    for kind in ("failures", "models", "sets", "checks"):
        for paths in catalog.files(kind).values():
            for path in paths:
                yield from _duplicate_keys(path)
    for file, load in SINGLE_FILES.items():
        for path in catalog.single(file):
            yield from _duplicate_keys(path)
        yield from _try(functools.partial(load, catalog))
    yield from _try(lambda: catalog.failures)
    yield from _try(lambda: catalog.sets)
    yield from _try(lambda: every(catalog))


def _load(loader: _Loader, path: Path) -> None:
    loaded = loader(path.stem).id
    if loaded != path.stem:
        raise DataError(f"{path}: id {loaded} is not the file's name - at `$.id`")


def _try(step: Callable[[], object]) -> Iterator[RowProblem]:
    try:
        step()
    except DataError as error:
        file, _, what = str(error).partition(": ")
        what, _, path = what.partition(" - at `$")
        yield RowProblem(file=file, key_path=path.strip("`."), what=what)


def _duplicate_keys(path: Path) -> Iterator[RowProblem]:
    """YAML silently takes the last of equal keys."""
    try:
        text = read_bytes(path, YAML_BYTES).decode()
        check_yaml(text, str(path))
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, DataError):
        return  # loading the file says it
    todo = [root] if root else []
    while todo:
        node = todo.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for key in sorted({key for key in keys if keys.count(key) > 1}):
                line = f"line {node.start_mark.line + 1}"
                yield RowProblem(
                    file=str(path), key_path=line, what=f"the key {key} is there twice"
                )
            todo += [child for _, child in node.value]
        elif isinstance(node, yaml.SequenceNode):
            todo += node.value


def _component(catalog: Catalog, component: Component) -> Found:
    yield from _versions(component)
    for release in component.releases:
        path = f"releases[{release.version}]"
        yield from _release(catalog, component, release, path)
    for behaviour in component.behaviours:
        yield from _range(component.scheme, behaviour.versions, f"behaviours[{behaviour.id}]")
    known = {release.version for release in component.releases}
    for ref in component.refs:
        if not ref.exists and ref.ref in known:
            yield f"refs[{ref.ref}]", "is said not to exist, and is a release"
        if ref.use and ref.use not in known:
            yield f"refs[{ref.ref}].use", f"{ref.use} is no release"
    for name in component.after:
        if name not in catalog.component_ids:
            yield "after", f"no component is called {name}"
    distribution = component.obtain.distribution
    if distribution and normalised(distribution) not in catalog.distributions:
        yield "obtain", f"write distribution: {distribution} in one line or in indented lines"


def _versions(component: Component) -> Found:
    seen: list[object] = []
    for release in component.releases:
        path = f"releases[{release.version}]"
        try:
            parsed = parse(component.scheme, release.version)
        except VersionError as error:
            yield path, str(error)
            continue
        if parsed in seen:
            yield path, "this version is there twice"
        seen.append(parsed)
        yield from _range(component.scheme, release.covers, f"{path}.covers")


def _release(catalog: Catalog, component: Component, release: Release, path: str) -> Found:
    for name, version in release.provides.items():
        if name not in catalog.component_ids:
            yield f"{path}.provides", f"no component is called {name}"
            continue
        try:
            row = catalog.component(name).release(version)
        except VersionError as error:
            yield f"{path}.provides", str(error)
            continue
        if row is None:
            yield f"{path}.provides", f"{name} has no row for {version}"
    for kind, needs in (("requires", release.requires), ("conflicts", release.conflicts)):
        for need in needs:
            if need.component == component.id:
                yield f"{path}.{kind}", "a component cannot need itself"
            yield from _need(catalog, need, f"{path}.{kind}[{need.component}]")


def _need(catalog: Catalog, need: Need, path: str) -> Found:
    if need.component not in catalog.component_ids:
        yield path, f"no component is called {need.component}"
        return
    target = catalog.component(need.component)
    for version_range in (need.versions, need.also):
        yield from _reachable(target, version_range, path)
    families = {family.id for family in catalog.families}
    for value in need.when.get("family", "").lstrip("!").split("|"):
        if value and value not in families:
            yield f"{path}.when", f"no hardware file is called {value}"


def _range(scheme: Scheme, version_range: str, path: str) -> Found:
    try:
        check_range(scheme, version_range)
    except VersionError as error:
        yield path, str(error)


def _reachable(target: Component, version_range: str, path: str) -> Found:
    """Every alternative of a range parses and names a row, if the component has rows."""
    problems = [*_range(target.scheme, version_range, path)]
    yield from problems
    if problems or not target.releases:
        return
    for alternative in version_range.split("||"):
        if not any(satisfies(target.scheme, row.version, alternative) for row in target.releases):
            yield path, f"{target.id} has no row within {alternative.strip()}"


def _cycles(catalog: Catalog) -> Found:
    after = {component.id: component.after for component in catalog.components}
    try:
        graphlib.TopologicalSorter(after).prepare()
    except graphlib.CycleError as error:
        _, circle = error.args
        yield "after", f"install order runs in a circle: {' -> '.join(reversed(circle))}"


def _stack(catalog: Catalog, stack: Stack) -> Found:
    rows: dict[str, list[Release]] = {}
    for name, component in stack.components.items():
        path = f"components.{name}"
        if name not in catalog.component_ids:
            yield path, f"no component is called {name}"
            continue
        target = catalog.component(name)
        problems = [*_reachable(target, component, path)]
        yield from problems
        if not problems:
            rows[name] = [
                row for row in target.releases if satisfies(target.scheme, row.version, component)
            ]
    for name in stack.frameworks:
        if name not in catalog.component_ids:
            yield "frameworks", f"no component is called {name}"
    for name in stack.environment:
        if catalog.variables.find(name) is None:
            yield f"environment.{name}", "no row of environment.yaml describes this variable"
    if stack.status == "verified" and not catalog.evidence(stack.id).verified:
        yield "status", "is verified without evidence of a run on an NPU; see CONTRIBUTING.md"
    yield from _contradictions(catalog, rows)


def _contradictions(catalog: Catalog, rows: dict[str, list[Release]]) -> Found:
    for name, releases in rows.items():
        broken = [_broken(catalog, release, rows) for release in releases]
        if broken and all(broken):
            yield f"components.{name}", str(broken[0])


def _broken(catalog: Catalog, release: Release, rows: dict[str, list[Release]]) -> str:
    for kind, needs in (("requires", release.requires), ("conflicts", release.conflicts)):
        for need in needs:
            others = rows.get(need.component)
            # A need of some machines contradicts no stack.
            if not others or not need.hard or need.when:
                continue
            scheme = catalog.component(need.component).scheme
            hits = [satisfies(scheme, other.version, need.versions) for other in others]
            if not any(hits) if kind == "requires" else all(hits):
                return f"{release.version} {kind} {need.component} {need.versions or 'any'}"
    return ""


def _family(catalog: Catalog, family: Family) -> Found:
    for soc in family.socs:
        if not any(fnmatchcase(soc.soc, pattern) for pattern in family.names):
            yield f"socs[{soc.soc}]", "is not among the names"
    for name, train in family.first_torch_npu.items():
        if name not in family.names:
            yield f"first_torch_npu[{name}]", "is not among the names"
        yield from _range("ascend", f">={train}", f"first_torch_npu[{name}]")
    mine = {*family.names, *family.npu_smi_names}
    for other in catalog.families:
        if other.id > family.id:
            for name in sorted(mine & {*other.names, *other.npu_smi_names}):
                yield "names", f"{name} is also a name of {other.id}"


def _set(catalog: Catalog, row: PinnedSet) -> Found:
    for name in row.pins.keys() - set(catalog.component_ids):
        yield f"pins.{name}", f"no component is called {name}"
    if row.framework in catalog.component_ids and row.framework not in row.pins:
        yield "pins", f"a set of {row.framework} pins {row.framework} itself"
    for family in row.families:
        if family not in catalog.files("hardware"):
            yield "families", f"no chip family is called {family}"
