"""The checks: a folder a subject. They see a Case and nothing else."""

from __future__ import annotations

import functools
import importlib
import os

from ascend_doctor.judging.judge import Check, list_registered

# The subject whose checks are all of level 1 and above.
PROBES = "probes"


def all_checks() -> tuple[Check, ...]:
    """All checks, sorted by level, then in the order of their files and lines."""
    _load()
    return _sorted()


def static_checks() -> tuple[Check, ...]:
    """The same of level 0, without importing those that read probes."""
    _load(without=PROBES)
    return tuple(check for check in _sorted() if not check.level)


def _sorted() -> tuple[Check, ...]:
    return tuple(
        sorted(
            list_registered(),
            key=lambda check: (check.level, check.run.__module__.rpartition(".")[2]),
        )
    )


@functools.cache
def _load(without: str = "") -> None:
    # pkgutil takes a third of level 0's imports to find the same.
    here = os.path.dirname(__file__)
    for subject in sorted(os.listdir(here)):
        folder = os.path.join(here, subject)
        if subject in {without, "__pycache__"} or not os.path.isdir(folder):
            continue
        for file in sorted(os.listdir(folder)):
            name, extension = os.path.splitext(file)
            if extension == ".py" and name != "__init__":
                importlib.import_module(f"{__name__}.{subject}.{name}")
