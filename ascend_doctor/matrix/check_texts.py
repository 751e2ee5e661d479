"""The texts of checks and of their findings: ``matrices/checks``."""

import functools

import msgspec
from msgspec.structs import replace

from ascend_doctor.findings import Level
from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.matrix.catalog import folder, list_rows
from ascend_doctor.matrix.loading import CacheEntry, convert
from ascend_doctor.matrix.schema import Row


class FindingText(Row, frozen=True, kw_only=True):
    """What a finding says; ``{name}`` stands for a value of its check or of the file's names.

    ``when`` is its condition (checks/launch/settings.py). Braces then hold expressions, ``{shown}``
    is the values of its variables, and ``unset`` are those that the remedy unsets.
    """

    when: str = ""
    unset: tuple[str, ...] = ()
    level: Level = Level.ERROR
    title: str = ""
    observed: str = ""
    required: str = ""
    because: str = ""
    remedy: str = ""
    commands: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


class CheckText(Row, frozen=True, kw_only=True):
    """A check, and what it may find; ``because`` holds for all of it.

    Findings have names that are unique in the file; a text may have several, with blanks between.
    """

    title: str
    explain: str
    scope: str | None = None
    because: str = ""
    findings: dict[str, FindingText] = msgspec.field(default_factory=dict)

    @property
    def by_name(self) -> dict[str, FindingText]:
        return {
            name: replace(text, because=text.because or self.because)
            for names, text in self.findings.items()
            for name in names.split()
        }


class CheckTexts(Row, frozen=True, kw_only=True):
    """The checks of a module. ``names`` are values that all of their texts may have.

    ``scope`` is that of all checks without their own.
    """

    schema: int
    scope: str = ""
    names: dict[str, str] = msgspec.field(default_factory=dict)
    checks: dict[str, CheckText]


@functools.cache
def read_all() -> dict[str, object]:
    """The content of all files, kept as one: 46 by themselves take level 0 longer."""
    files = list_rows(folder("matrices") / "checks")
    return CacheEntry.recall("texts", files, lambda: {path.stem: read_yaml(path) for path in files})


@functools.cache
def read_texts(name: str) -> CheckTexts:
    """The texts of a module. Raises DataError."""
    return convert(folder("matrices") / "checks" / f"{name}.yaml", read_all()[name], CheckTexts)
