"""The formats of a report, one module a format; a module is imported when it is asked for."""

from __future__ import annotations

FORMATS = ("text", "json")
SUFFIXES = {".txt": "text", ".json": "json"}
