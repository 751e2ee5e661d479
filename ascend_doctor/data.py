"""Finds and reads the shipped data: matrices/ and probes/."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from ascend_doctor.errors import DataError
from ascend_doctor.stacks import Component, Family, Hazards, Stack, Variables

T = TypeVar("T")


def folder(name: str) -> Path:
    """The shipped folder ``matrices`` or ``probes``: inside the package, or beside it.

    A wheel carries the folders inside the package; a checkout has them beside it.
    """
    here = Path(__file__).resolve().parent
    for place in (here / name, here.parent / name):
        if place.is_dir():
            return place
    raise DataError(f"{name}/ is missing from this installation; reinstall ascend-doctor")


def load(path: Path, shape: type[T]) -> T:
    """A YAML file as a strict struct. Raises DataError that names file and place."""
    try:
        loaded = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
        return msgspec.convert(loaded, shape)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{path}: {error}") from error


class Catalog:
    """The matrix. Files are read when they are asked for; later folders win over earlier ones."""

    def __init__(self, overlays: Sequence[Path] = ()) -> None:
        self._folders = (folder("matrices"), *overlays)

    def _files(self, kind: str) -> dict[str, Path]:
        return {
            path.stem: path
            for place in self._folders
            for path in sorted((place / kind).glob("*.yaml"))
        }

    def _one(self, name: str) -> Path:
        places = [place / name for place in self._folders if (place / name).is_file()]
        if not places:
            raise DataError(f"{name} is missing from the matrix")
        return places[-1]

    @functools.cache  # noqa: B019 - a catalog lives as long as the process
    def component(self, identity: str) -> Component:
        """A component by id. Raises DataError where there is none."""
        path = self._files("components").get(identity)
        if path is None:
            raise DataError(f"no component is called {identity}")
        return load(path, Component)

    @functools.cached_property
    def components(self) -> tuple[Component, ...]:
        return tuple(self.component(identity) for identity in self._files("components"))

    @functools.cached_property
    def stacks(self) -> tuple[Stack, ...]:
        return tuple(load(path, Stack) for path in self._files("stacks").values())

    @functools.cached_property
    def families(self) -> tuple[Family, ...]:
        return tuple(load(path, Family) for path in self._files("hardware").values())

    @functools.cached_property
    def variables(self) -> Variables:
        return load(self._one("environment.yaml"), Variables)

    @functools.cached_property
    def hazards(self) -> Hazards:
        return load(self._one("hazards.yaml"), Hazards)

    def family_of(self, name: str) -> Family | None:
        """The family of a SoC name (Ascend910B3) or of a name that npu-smi prints (910B3)."""
        for one in self.families:
            if name in one.names or name in one.npu_smi_names:
                return one
        return None
