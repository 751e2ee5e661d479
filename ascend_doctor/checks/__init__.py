"""The checks: a folder a subject. They see a Case and nothing else."""

from __future__ import annotations

import importlib
import pkgutil

from ascend_doctor.judging.judge import Check, list_registered


def all_checks() -> tuple[Check, ...]:
    """All checks, sorted by level, then in the order of their files and lines."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return tuple(
        sorted(
            list_registered(),
            key=lambda check: (check.level, check.run.__module__.rpartition(".")[2]),
        )
    )
