"""The formats of a report: each module here is one, with ``render(report) -> str``.

A module is imported when it is asked for.
"""

from __future__ import annotations

import os
import pkgutil

FORMATS = ("text", *sorted({module.name for module in pkgutil.iter_modules(__path__)} - {"text"}))
# Endings of files; those of other formats are called as they are.
_ENDINGS = {"txt": "text", "xml": "junit", "md": "markdown", "prom": "prometheus"}


def format_of(file: str) -> str:
    """What a file's ending says that it is, "" where it says nothing."""
    ending = os.path.splitext(file)[1].removeprefix(".")
    name = _ENDINGS.get(ending, ending)
    return name if name in FORMATS else ""
