"""The checks, one module a subject. They see a Case and nothing else."""

from __future__ import annotations

import importlib
import pkgutil

from ascend_doctor.judge import Check, registered


def every() -> tuple[Check, ...]:
    """All checks, sorted by level, then in the order of their files and lines."""
    for module in sorted(iter_module.name for iter_module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return tuple(sorted(registered(), key=lambda check: (check.level, check.run.__module__)))
