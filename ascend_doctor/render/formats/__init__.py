"""The formats of a report: each module here is one, with ``render(report) -> str``.

A module is imported when it is asked for.
"""

import os

# As pkgutil, which is slower to import than all formats.
_MODULES = {os.path.splitext(file) for file in os.listdir(__path__[0])}
_NAMES = {name for name, extension in _MODULES if extension == ".py"}
FORMATS = ("text", *sorted(_NAMES - {"text", "__init__"}))
# Other formats' file endings are their names.
_ENDINGS = {"txt": "text", "xml": "junit", "md": "markdown", "prom": "prometheus"}


def format_of(file: str) -> str:
    """The format by a file's ending, "" if unknown."""
    ending = os.path.splitext(file)[1].removeprefix(".")
    name = _ENDINGS.get(ending, ending)
    return name if name in FORMATS else ""
