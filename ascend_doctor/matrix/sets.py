"""Sets of versions that somebody ran together: ``matrices/sets/<framework>.yaml``."""

from typing import Literal

from ascend_doctor.matrix.schema import Row, Sources

Kind = Literal["image", "dockerfile", "compose", "recipe", "guide"]


class PinnedSet(Row, frozen=True, kw_only=True):
    """What one Dockerfile, image, script or guide installs of a framework's ``version``.

    ``pins`` are versions by component, ``others`` those of packages without a component.
    ``families`` and ``arch`` are what it is for, empty for any; ``patches`` change code.
    """

    id: str
    title: str
    framework: str
    version: str = ""
    kind: Kind
    families: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    pins: dict[str, str]
    others: dict[str, str] = {}
    patches: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    note: str = ""
    sources: Sources


class PinnedSets(Row, frozen=True, kw_only=True):
    schema: int
    sets: tuple[PinnedSet, ...]
