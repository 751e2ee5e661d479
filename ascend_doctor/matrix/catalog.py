"""Finds and reads the shipped data: matrices/ and probes/."""

import functools
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.parsing import YAML_BYTES, read_yaml
from ascend_doctor.matrix.evidence import StackEvidence
from ascend_doctor.matrix.images import BaseImages
from ascend_doctor.matrix.loading import convert, load
from ascend_doctor.matrix.schema import (
    CodeGuide,
    Component,
    ErrorCodes,
    ErrorGuides,
    Failures,
    Family,
    Flags,
    Hazards,
    ImportNames,
    KnownFailure,
    KnownWarning,
    KnownWarnings,
    LaunchRules,
    Options,
    Rows,
    Stack,
    Variables,
)
from ascend_doctor.matrix.versions import normalised

T = TypeVar("T")

# In one line, or in the indented lines after it.
_DISTRIBUTION = re.compile(
    r"^obtain:.*(?:\n(?=[ \t]).*)*?[\s{,\"']distribution[\"']?: *[\"']?([\w.-]+)", re.MULTILINE
)


def folder(name: str) -> Path:
    """The shipped folder ``matrices`` or ``probes``: inside the package in a wheel, else beside."""
    here = Path(__file__).resolve().parent.parent
    for path in (here / name, here.parent / name):
        if path.is_dir():
            return path
    raise DataError(f"{name}/ is missing from this installation; reinstall ascend-doctor")


class Catalog:
    """The matrix. Files are read on demand.

    ``overlays`` are a site's folders, laid out like matrices/. Files for stacks, evidence and
    hardware add or replace whole files; those for components, hazards, variables, warnings,
    failures and error codes add rows, or replace those of the same version, ref, id, name or code.
    """

    def __init__(self, overlays: Sequence[Path] = ()) -> None:
        missing = [overlay for overlay in overlays if not overlay.is_dir()]
        if missing:
            raise DataError(f"{missing[0]}: the matrix folder is missing")
        self._folders = (folder("matrices"), *overlays)

    def files(self, kind: str) -> dict[str, tuple[Path, ...]]:
        """Files of components, stacks, evidence or hardware by id, overlays last."""
        files: dict[str, tuple[Path, ...]] = {}
        for folder in self._folders:
            for path in sorted((folder / kind).glob("*.yaml")):
                files[path.stem] = (*files.get(path.stem, ()), path)
        return files

    def digest(self, *kinds: str) -> bytes:
        """Of all files of these kinds: equal digests give equal results."""
        content = hashlib.blake2b()
        for kind in kinds:
            for identity, paths in self.files(kind).items():
                for path in paths:
                    data = read_bytes(path, YAML_BYTES)
                    # The length separates a file's bytes from the next name.
                    content.update(f"{kind}/{identity} {len(data)}\n".encode() + data)
        return content.digest()

    def single(self, name: str) -> tuple[Path, ...]:
        """Files called ``name`` (hazards.yaml, environment.yaml), overlays last."""
        places = [path / name for path in self._folders if (path / name).is_file()]
        if not places:
            raise DataError(f"{name} is missing from the matrix")
        return tuple(places)

    @functools.cached_property
    def component_ids(self) -> tuple[str, ...]:
        return tuple(self.files("components"))

    @functools.cached_property
    def distributions(self) -> frozenset[str]:
        """Normalised names of the distributions that bring components.

        Read from the heads of the files: parsing all rows takes longer than a whole level 0 may.
        """
        heads = (
            read_bytes(path, YAML_BYTES).decode("utf-8", "replace")
            for paths in self.files("components").values()
            for path in paths
        )
        named = (_DISTRIBUTION.search(head) for head in heads)
        return frozenset(normalised(match[1]) for match in named if match)

    @functools.cache  # noqa: B019 - a catalog lives as long as the process
    def component(self, identity: str) -> Component:
        """Raises DataError for an unknown id."""
        paths = self.files("components").get(identity)
        if paths is None:
            raise DataError(f"no component is called {identity}")
        whole = load(paths[0], Component)
        for path in paths[1:]:
            whole = _overlaid(path, whole)
        return whole

    @functools.cached_property
    def components(self) -> tuple[Component, ...]:
        return tuple(self.component(identity) for identity in self.component_ids)

    @functools.cache  # noqa: B019 - as above
    def stack(self, identity: str) -> Stack:
        """Raises DataError for an unknown id."""
        return load(self._last("stacks", identity), Stack)

    @functools.cached_property
    def stacks(self) -> tuple[Stack, ...]:
        return tuple(self.stack(identity) for identity in self.files("stacks"))

    @functools.cache  # noqa: B019 - as above
    def evidence(self, identity: str) -> StackEvidence:
        """Evidence of a stack; empty if it was never run."""
        if identity not in self.files("evidence"):
            return StackEvidence(schema=1, id=identity)
        return load(self._last("evidence", identity), StackEvidence)

    @functools.cache  # noqa: B019 - as above
    def family(self, identity: str) -> Family:
        """A chip family. Raises DataError for an unknown id."""
        return load(self._last("hardware", identity), Family)

    @functools.cached_property
    def families(self) -> tuple[Family, ...]:
        return tuple(self.family(identity) for identity in self.files("hardware"))

    def _last(self, kind: str, identity: str) -> Path:
        paths = self.files(kind).get(identity)
        if paths is None:
            known = ", ".join(self.files(kind))
            raise DataError(f"{identity}: there is no such row in {kind}; there are {known}")
        return paths[-1]

    @functools.cached_property
    def variables(self) -> Variables:
        whole, *more = (load(path, Variables) for path in self.single("environment.yaml"))
        for variables in more:
            whole = msgspec.structs.replace(
                whole,
                variables=_merge_rows(whole.variables, variables.variables, lambda row: row.name),
                near_misses=_merge_rows(
                    whole.near_misses, variables.near_misses, lambda row: row.wrong
                ),
            )
        return whole

    @functools.cached_property
    def flags(self) -> Flags:
        return load(self.single("flags.yaml")[-1], Flags)

    @functools.cached_property
    def options(self) -> Options:
        return load(self.single("options.yaml")[-1], Options)

    @functools.cached_property
    def megatron_options(self) -> frozenset[str]:
        """Names of all options of Megatron-LM's and MindSpeed's scripts."""
        own = self.options.of("MindSpeed", "MindSpeed-LLM", "MindSpeed-MM") | self.flags.mindspeed
        return own.union(self.flags.every, *self.flags.some.values())

    @functools.cached_property
    def option_kinds(self) -> dict[str, str]:
        """The values that options of Megatron-LM's and MindSpeed's scripts take."""
        own = (self.flags.every, *self.flags.some.values())
        return _merge_kinds(*own) | self._kinds_of("MindSpeed", "MindSpeed-LLM", "MindSpeed-MM")

    @functools.cached_property
    def swift_kinds(self) -> dict[str, str]:
        """The values that ms-swift's arguments take."""
        return self._kinds_of("transformers", "ms-swift")

    def _kinds_of(self, *names: str) -> dict[str, str]:
        return _merge_kinds(*(self.options.table(name).options for name in names))

    @functools.cached_property
    def override_keys(self) -> dict[str, str]:
        """The kinds of verl's and MindSpeed-RL's dotted keys."""
        return dict(_walk_keys(self.options.overrides, ()))

    @functools.cached_property
    def rules(self) -> LaunchRules:
        """The rules for the options of launches."""
        return load(self.single("launch-rules.yaml")[-1], LaunchRules)

    @functools.cached_property
    def rule_names(self) -> frozenset[str]:
        return self.rules.names()

    @functools.cached_property
    def images(self) -> BaseImages:
        return load(self.single("images.yaml")[-1], BaseImages)

    @functools.cached_property
    def hazards(self) -> Hazards:
        whole, *more = (load(path, Hazards) for path in self.single("hazards.yaml"))
        for hazards in more:
            rows = _merge_rows(whole.hazards, hazards.hazards, lambda row: row.name)
            whole = msgspec.structs.replace(whole, hazards=rows)
        return whole

    @functools.cached_property
    def known_warnings(self) -> tuple[KnownWarning, ...]:
        rows: tuple[KnownWarning, ...] = ()
        for path in self.single("warnings.yaml"):
            rows = _merge_rows(rows, load(path, KnownWarnings).warnings, lambda row: row.id)
        return rows

    @functools.cached_property
    def failures(self) -> dict[str, KnownFailure]:
        """The known failures by id. Raises DataError for an id twice in one folder."""
        failures: dict[str, KnownFailure] = {}
        for folder in self._folders:
            own: dict[str, KnownFailure] = {}
            for path in sorted((folder / "failures").glob("*.yaml")):
                for failure in load(path, Failures).failures:
                    if failure.id in own:
                        raise DataError(f"{path}: two failures are called {failure.id}")
                    own[failure.id] = failure
            failures.update(own)
        return failures

    @functools.cached_property
    def import_names(self) -> ImportNames:
        return load(self.single("imports.yaml")[-1], ImportNames)

    @functools.cached_property
    def error_codes(self) -> ErrorCodes:
        whole, *more = (load(path, ErrorCodes) for path in self.single("error-codes.yaml"))
        for codes in more:
            whole = msgspec.structs.replace(
                whole,
                reported={**whole.reported, **codes.reported},
                acl={**whole.acl, **codes.acl},
                hccl={**whole.hccl, **codes.hccl},
            )
        return whole

    @functools.cached_property
    def error_guides(self) -> dict[str, CodeGuide]:
        """By code; of several folders the last one counts."""
        return {
            code: guide
            for path in self.single("error-guides.yaml")
            for guide in load(path, ErrorGuides).guides
            for code in guide.codes
        }

    def family_of(self, name: str) -> Family | None:
        """The family of a SoC name (Ascend910B3) or npu-smi's name (910B3)."""
        for family in self.families:
            if name in family.npu_smi_names or any(
                fnmatchcase(name, known) for known in family.names
            ):
                return family
        return None


def _overlaid(path: Path, whole: Component) -> Component:
    """With an overlay's file: a whole component replaces the head too."""
    read = read_yaml(path)
    if isinstance(read, dict) and "title" in read:
        head: Component = convert(path, read, Component)
        rows: Component | Rows = head
    else:
        head, rows = whole, convert(path, read, Rows)
    return msgspec.structs.replace(
        head,
        releases=_merge_rows(whole.releases, rows.releases, lambda row: row.version),
        refs=_merge_rows(whole.refs, rows.refs, lambda row: row.ref),
        behaviours=_merge_rows(
            whole.behaviours, rows.behaviours, lambda row: (row.id, row.versions)
        ),
    )


def _merge_rows(
    old: tuple[T, ...], new: tuple[T, ...], name: Callable[[T], object]
) -> tuple[T, ...]:
    replaced = {name(row) for row in new}
    return (*new, *(row for row in old if name(row) not in replaced))


def _merge_kinds(*tables: Mapping[str, str | None]) -> dict[str, str]:
    return {name: kind for table in tables for name, kind in table.items() if kind}


def _walk_keys(node: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for word, value in node.items():
        if isinstance(value, dict):
            yield from _walk_keys(value, (*above, word))
        else:
            yield ".".join((*above, word)), value
