"""What an upgrade of a stack changes: its pins, and what goes, comes and breaks with them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import MACHINE_FACTS
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.provision.lock import Lock
from ascend_doctor.provision.request_ranges import FRAMEWORKS, StackRequest
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.solve import Doubt, Solution, SolveQuery, solve
from ascend_doctor.provision.sources import Mirrors
from ascend_doctor.upkeep.changes import (
    ReleaseChange,
    import_changes,
    matrix_changes,
    operator_changes,
    variable_changes,
)
from ascend_doctor.upkeep.source_tree import SourceTree, read_release, read_wheel

# The top module of each component with compared Python files, in a tag.
_TOPS = {name: name.replace("-", "_") for name in ("mindspeed", "megatron-adaptor", "torch-npu")}
_TOPS |= {"megatron-lm": "megatron", "mcore-bridge": "src/mcore_bridge", "ms-swift": "swift"}
_TOPS |= {"verl": "verl", "twinkle": "src/twinkle", "mindspeed-llm": "mindspeed_llm"}
_KEPT_FIRST = (*FRAMEWORKS, "mindspeed", "torch", "torch-npu", "mcore-bridge", "triton-ascend")


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """``pins`` are old and new version by component; "" is absent.

    ``blanks``: what is unknown, and why.
    """

    pins: Mapping[str, tuple[str, str]]
    changes: tuple[ReleaseChange, ...]
    doubts: tuple[Doubt, ...]
    blanks: tuple[str, ...]

    @property
    def breaks(self) -> bool:
        return any(change.kind == "breaks" for change in self.changes)

    @property
    def uncertain(self) -> bool:
        return bool(self.blanks) or any(not doubt.named for doubt in self.doubts)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Releases at hand: folders of clones, and folders of wheel files."""

    mirrors: Mirrors
    wheels: tuple[Path, ...] = ()
    trees: dict[tuple[str, str], SourceTree | None] = field(default_factory=dict)

    def tree(self, catalog: Catalog, name: str, version: str) -> SourceTree | None:
        if (name, version) not in self.trees:
            wheel = self.wheel(catalog, name, version)
            if wheel is not None:
                self.trees[name, version] = read_wheel(wheel)
            else:
                self.trees[name, version] = self._clone(catalog, name, version)
        return self.trees[name, version]

    def wheel(self, catalog: Catalog, name: str, version: str) -> Path | None:
        distribution = normalised(catalog.component(name).obtain.distribution)
        start = f"{distribution.replace('-', '_')}-{version}-" if distribution else ""
        for folder in self.wheels if start else ():
            for file in sorted(folder.rglob("*.whl")):
                if file.name.lower().startswith(start):
                    return file
        return None

    def _clone(self, catalog: Catalog, name: str, version: str) -> SourceTree | None:
        component = catalog.component(name)
        row = component.release(version)
        folder = _TOPS[name]
        url = component.obtain.url or f"{name}.git"
        source = self.mirrors.source(name, url)
        if not Path(source.url).is_dir():
            return None
        refs = [row.commit, row.ref] if row else []
        # The commit of a row first: a branch may have moved, and a clone may have tags only.
        for ref in (*refs, version, f"v{version}"):
            if ref:
                try:
                    return read_release(source, ref, (folder,))
                except CommandError:
                    continue
        return None


def target_query(catalog: Catalog, lock: Lock, changes: Mapping[str, str]) -> SolveQuery:
    """The query of the stack after the upgrade, without pins of the old one."""
    rest = dict(changes)
    megatron = rest.pop("megatron", "") or lock.wish.get("megatron", "")
    framework = lock.wish.get("framework", "").partition("==")[0] or None
    if framework in rest:
        framework = f"{framework}=={rest.pop(framework)}"
    machine = {name: rest.pop(name) for name in MACHINE_FACTS if name in rest}
    python = ".".join(lock.python.version.split(".")[:2])
    known = {"python": python, "arch": lock.python.arch}
    ranges = StackRequest(megatron=megatron, framework=framework).ranges(catalog)
    ranges |= {name: f"=={version}" for name, version in rest.items()}
    return SolveQuery(wishes=ranges, machine={**known, **machine})


def nearest_target(catalog: Catalog, lock: Lock, query: SolveQuery) -> Solution | None:
    """The solution with most of the old pins, or None.

    A solution that no document names has doubts.
    """
    best = solve(catalog, query)
    if best is None:
        query = replace(query, doubts=True)
        best = solve(catalog, query)
    if best is None:
        return None
    for name in _KEPT_FIRST:
        old = lock.rows.get(name)
        asked = query.wishes.get(name, "")
        if old is None or asked.startswith("==") or best.versions.get(name) == old:
            continue
        pinned = replace(query, wishes={**query.wishes, name: f"=={old}"})
        solution = solve(catalog, pinned)
        # An old version is kept only if no more pairs become unnamed by it.
        if solution is not None and _doubts(solution) <= _doubts(best):
            best, query = solution, pinned
    return best


def _doubts(solution: Solution) -> int:
    return sum(not doubt.named for doubt in solution.doubts)


def upgrade(catalog: Catalog, lock: Lock, target: Solution, sources: Sources) -> Upgrade:
    old = {**lock.system, **lock.rows}
    names = sorted({*old, *target.versions} & set(catalog.component_ids))
    pins = {
        name: (old.get(name, ""), target.versions[name])
        for name in names
        if name in target.versions
        and old.get(name, "") != target.versions[name]
        and (name in old or name not in MACHINE_FACTS)
    }
    changes: list[ReleaseChange] = []
    blanks: list[str] = []
    for name, (before, after) in pins.items():
        if before and after:
            changes += matrix_changes(catalog, name, before, after)
    comparison = _Comparison(catalog, old, target.versions, sources)
    changes += comparison.changes(pins, blanks)
    return Upgrade(
        pins=pins,
        changes=tuple(dict.fromkeys(changes)),
        doubts=target.doubts,
        blanks=tuple(dict.fromkeys(blanks)),
    )


@dataclass(frozen=True)
class _Comparison:
    catalog: Catalog
    old: Mapping[str, str]
    new: Mapping[str, str]
    sources: Sources

    def changes(
        self, pins: Mapping[str, tuple[str, str]], blanks: list[str]
    ) -> Iterator[ReleaseChange]:
        users = {
            name: tree
            for name in _TOPS
            if name in self.new and (tree := self._tree(name, self.new[name])) is not None
        }
        blanks += [
            f"what {name} {self.new[name]} uses: no source of it is at hand"
            for name in _TOPS
            if name in self.new and name not in users and name != "torch-npu"
        ]
        for name, (before, after) in pins.items():
            if name not in _TOPS or not before or not after:
                continue
            others = [tree for user, tree in users.items() if user != name]
            old, new = self._tree(name, before), self._tree(name, after)
            if old is not None and new is not None:
                yield from import_changes(others, name, old, new, Path(_TOPS[name]).name)
                yield from variable_changes(name, old, new)
            else:
                lacking = [v for v in (before, after) if self._tree(name, v) is None]
                blanks.append(
                    f"which names and variables of {name} go and come: no source of "
                    f"{' and '.join(lacking)} is at hand"
                )
            if name == "torch-npu":
                yield from self._operators(before, after, others, blanks)

    def _operators(
        self, before: str, after: str, users: list[SourceTree], blanks: list[str]
    ) -> Iterator[ReleaseChange]:
        old, new = (
            self.sources.wheel(self.catalog, "torch-npu", version) for version in (before, after)
        )
        if old and new:
            yield from operator_changes(users, old, new)
        else:
            lacking = [v for v, wheel in ((before, old), (after, new)) if wheel is None]
            blanks.append(
                f"which operators go and come: no wheel of torch-npu {' and '.join(lacking)}"
            )

    def _tree(self, name: str, version: str) -> SourceTree | None:
        return self.sources.tree(self.catalog, name, version)
