"""Finds and reads the shipped data: matrices/ and probes/."""

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.parsing import YAML_BYTES, read_yaml
from ascend_doctor.matrix.evidence import StackEvidence
from ascend_doctor.matrix.images import BaseImages
from ascend_doctor.matrix.loading import CacheEntry, convert, load
from ascend_doctor.matrix.schema import (
    Component,
    ErrorCodes,
    ErrorGuides,
    Failures,
    Family,
    Fields,
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
    Validation,
    Validations,
    Variables,
)
from ascend_doctor.matrix.sets import PinnedSet, PinnedSets
from ascend_doctor.matrix.versions import normalised
from ascend_doctor.patterns import defer

Read = TypeVar("Read")
T = TypeVar("T", bound=msgspec.Struct)
Named = TypeVar("Named", PinnedSet, KnownFailure)

# In one line, or in the indented lines after it.
_DISTRIBUTION = defer(
    r"^obtain:.*(?:\n(?=[ \t]).*)*?[\s{,\"']distribution[\"']?: *[\"']?([\w.-]+)", re.MULTILINE
)

# Not warnings of compilers, nor inner errors.
_FAILURE = defer(r"E[A-Z\d](?!99)|W[A-Z]|\d")

# Names of servers and chips in a family's title.
_PHRASES = defer(r"[,():]")


@functools.cache
def folder(name: str) -> Path:
    """The shipped folder ``matrices`` or ``probes``: inside the package in a wheel, else beside."""
    here = Path(__file__).resolve().parent.parent
    for path in (here / name, here.parent / name):
        if path.is_dir():
            return path
    raise DataError(f"{name}/ is missing from this installation; reinstall ascend-doctor")


def list_rows(folder: Path) -> list[Path]:
    """The YAML files of a folder of the matrix, by name."""
    names = os.listdir(folder) if folder.is_dir() else ()
    return [folder / name for name in sorted(names) if name.endswith(".yaml")]


# How each file that is alone of its kind is read.
SINGLE_FILES: dict[str, Callable[["Catalog"], object]] = {}


def _read_single(name: str, read: Callable[["Catalog"], Read]) -> functools.cached_property[Read]:
    SINGLE_FILES[name] = read
    return functools.cached_property(read)


def _read_last(name: str, kind: type[T]) -> functools.cached_property[T]:
    """A file of the matrix; of several folders the last one counts."""
    return _read_single(name, lambda catalog: load(catalog.single(name)[-1], kind))


def _read_merged(name: str, kind: type[T], **keys: str) -> functools.cached_property[T]:
    """A file of the matrix; other folders add to its fields ``keys``, or replace rows of them."""
    return _read_single(
        name,
        lambda catalog: functools.reduce(
            lambda whole, more: _merge(whole, more, keys),
            (load(path, kind) for path in catalog.single(name)),
        ),
    )


class Catalog:
    """The matrix. Files are read on demand.

    ``overlays`` are a site's folders, laid out like matrices/. Files for stacks, evidence and
    hardware add or replace whole files; those for components, sets, hazards, variables, warnings,
    failures and error codes add rows, or replace those of the same version, ref, id, name or code.
    """

    def __init__(self, overlays: Sequence[Path] = ()) -> None:
        missing = [overlay for overlay in overlays if not overlay.is_dir()]
        if missing:
            raise DataError(f"{missing[0]}: the matrix folder is missing")
        self._folders = (folder("matrices"), *overlays)

    flags = _read_last("flags.yaml", Flags)
    options = _read_last("options.yaml", Options)
    fields = _read_last("fields.yaml", Fields)
    rules = _read_last("launch-rules.yaml", LaunchRules)
    images = _read_last("images.yaml", BaseImages)
    import_names = _read_last("imports.yaml", ImportNames)
    # Of several folders the last one counts.
    error_guides = _read_single(
        "error-guides.yaml",
        lambda catalog: {
            code: guide
            for path in catalog.single("error-guides.yaml")
            for guide in load(path, ErrorGuides).guides
            for code in guide.codes
        },
    )
    _validations = _read_last("validations.yaml", Validations)
    variables = _read_merged("environment.yaml", Variables, variables="name", near_misses="wrong")
    hazards = _read_merged("hazards.yaml", Hazards, hazards="name")
    error_codes = _read_merged("error-codes.yaml", ErrorCodes, reported="", acl="", hccl="")
    _warnings = _read_merged("warnings.yaml", KnownWarnings, warnings="id")

    def files(self, kind: str) -> dict[str, tuple[Path, ...]]:
        """Files of components, stacks, evidence or hardware by id, overlays last."""
        files: dict[str, tuple[Path, ...]] = {}
        for folder in self._folders:
            for path in list_rows(folder / kind):
                files[path.stem] = (*files.get(path.stem, ()), path)
        return files

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
        files = [path for paths in self.files("components").values() for path in paths]
        names = CacheEntry.recall("distributions", files, lambda: _list_distributions(files))
        return frozenset(names)

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

    @functools.cached_property
    def sets(self) -> tuple[PinnedSet, ...]:
        """Sets that somebody ran. Raises DataError for an id twice in one folder."""
        rows = self._rows("sets", lambda path: load(path, PinnedSets).sets)
        return tuple(rows.values())

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
    def launchers(self) -> dict[str, dict[str, str]]:
        """The options of each launcher with hyphens, and the values that they take."""
        launchers: dict[str, Mapping[str, str | None]] = {"torchrun": self.flags.launcher}
        for launcher in ("accelerate", "deepspeed"):
            launchers[launcher] = self.options.table(launcher).options
        return {
            launcher: {name.replace("_", "-"): kind or "" for name, kind in options.items()}
            for launcher, options in launchers.items()
        }

    @functools.cached_property
    def swift_kinds(self) -> dict[str, str]:
        """The values that ms-swift's arguments take."""
        return self._kinds_of("transformers", "ms-swift")

    @functools.cached_property
    def trainer_kinds(self) -> dict[str, str]:
        """The values that Transformers' trainer takes."""
        names = self.options.of("transformers")
        return {name: kind for name, kind in self.swift_kinds.items() if name in names}

    def _kinds_of(self, *names: str) -> dict[str, str]:
        return _merge_kinds(*(self.options.table(name).options for name in names))

    @functools.cached_property
    def override_keys(self) -> dict[str, str]:
        """The kinds of verl's and MindSpeed-RL's dotted keys."""
        return dict(_walk_keys(self.options.overrides, ()))

    @property
    def validations(self) -> tuple[Validation, ...]:
        return self._validations.tables

    @functools.cached_property
    def rule_names(self) -> frozenset[str]:
        (trainer,) = (table for table in self.validations if table.name == "Transformers")
        texts = (condition for _, condition in trainer.rules())
        return self.rules.names().union(*(re.findall(r"[a-z]\w+", text) for text in texts))

    @property
    def known_warnings(self) -> tuple[KnownWarning, ...]:
        return self._warnings.warnings

    @functools.cached_property
    def failures(self) -> dict[str, KnownFailure]:
        """The known failures by id. Raises DataError for an id twice in one folder."""
        return self._rows("failures", lambda path: load(path, Failures).failures)

    @functools.cached_property
    def recognized_failures(self) -> dict[str, KnownFailure]:
        """The known failures, and CANN's error codes with a guide."""
        codes = self.error_codes
        meanings = codes.reported | {str(code): text for code, text in codes.acl.items()}
        return {
            code.lower(): guide.as_failure(code, meanings.get(code, ""))
            for code, guide in self.error_guides.items()
            if _FAILURE.match(code)
        } | self.failures

    def _rows(self, kind: str, read: Callable[[Path], Iterable[Named]]) -> dict[str, Named]:
        rows: dict[str, Named] = {}
        for folder in self._folders:
            own: dict[str, Named] = {}
            for path in list_rows(folder / kind):
                for row in read(path):
                    if row.id in own:
                        raise DataError(f"{path}: two {kind} are called {row.id}")
                    own[row.id] = row
            rows.update(own)
        return rows

    @functools.cached_property
    def usual_family(self) -> Family:
        """What an answer for an unknown chip is for."""
        return next(row for row in self.families if row.title.startswith("Atlas A2"))

    def family_called(self, text: str) -> Family | None:
        """The family that people mean by ``text``: A2, 910B, 910C, Atlas 800T A3, Ascend910B3.

        910B is Atlas A2, although the first generation has a chip of this name.
        """
        asked, phrases = _plain(text), [(row, _PHRASES.split(row.title)) for row in self.families]
        names = {_plain(name): row for row, named in phrases for name in named if name.strip()}
        begun = (names[name] for name in names if re.match(rf"{re.escape(name)}(?!\d)", asked))
        exact = {**names, **{_plain(row.id): row for row in self.families}}.get(asked)
        return exact or self.family_of(text) or next(begun, None)

    def chip_called(self, text: str) -> str:
        """The chip that people mean: of a family (A3, 910C) its first, else ``text`` itself."""
        family = self.family_called(text)
        if family is None or family == self.family_of(text) or not family.socs:
            return text
        return family.socs[0].soc

    def family_of(self, name: str) -> Family | None:
        """The family of a SoC name (Ascend910B3) or npu-smi's name (910B3)."""
        for family in self.families:
            if name in family.npu_smi_names or any(
                fnmatchcase(name, known) for known in family.names
            ):
                return family
        return None


def _list_distributions(files: Iterable[Path]) -> list[str]:
    heads = (read_bytes(path, YAML_BYTES).decode("utf-8", "replace") for path in files)
    named = (_DISTRIBUTION.search(head) for head in heads)
    return [normalised(match[1]) for match in named if match]


def _plain(text: str) -> str:
    return re.sub(r"atlas|ascend|[\s_-]", "", text.lower())


def _overlaid(path: Path, whole: Component) -> Component:
    """With an overlay's file: a whole component replaces the head too."""
    read = read_yaml(path)
    if isinstance(read, dict) and "title" in read:
        head: Component = convert(path, read, Component)
        rows: Component | Rows = head
    else:
        head, rows = whole, convert(path, read, Rows)
    whole = _merge(whole, rows, {"releases": "version", "refs": "ref", "behaviours": "id versions"})
    return msgspec.structs.replace(
        head, releases=whole.releases, refs=whole.refs, behaviours=whole.behaviours
    )


def _merge(whole: T, more: Any, keys: Mapping[str, str]) -> T:
    """``keys``: the attributes that tell the rows of a field apart; none for a mapping."""
    fields = {}
    for field, key in keys.items():
        old, new = getattr(whole, field), getattr(more, field)
        if key:
            name = attrgetter(*key.split())
            replaced = {name(row) for row in new}
            fields[field] = (*new, *(row for row in old if name(row) not in replaced))
        else:
            fields[field] = old | new
    return msgspec.structs.replace(whole, **fields)


def _merge_kinds(*tables: Mapping[str, str | None]) -> dict[str, str]:
    return {name: kind for table in tables for name, kind in table.items() if kind}


def _walk_keys(node: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for word, value in node.items():
        if isinstance(value, dict):
            yield from _walk_keys(value, (*above, word))
        else:
            yield ".".join((*above, word)), value
