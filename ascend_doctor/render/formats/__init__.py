"""The formats of a report: each module here is one, with ``render(report) -> str``.

A module is imported when it is asked for.
"""

import os

# pkgutil gives the same, and takes longer to import than all formats.
_MODULES = {os.path.splitext(file) for file in os.listdir(__path__[0])}
_NAMES = {name for name, extension in _MODULES if extension == ".py"}
FORMATS = ("text", *sorted(_NAMES - {"text", "__init__"}))
# Endings of files; those of other formats are called as they are.
_ENDINGS = {"txt": "text", "xml": "junit", "md": "markdown", "prom": "prometheus"}


def format_of(file: str) -> str:
    """What a file's ending says that it is, "" where it says nothing."""
    ending = os.path.splitext(file)[1].removeprefix(".")
    name = _ENDINGS.get(ending, ending)
    return name if name in FORMATS else ""
