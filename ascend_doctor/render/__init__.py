"""The formats of a report, one module a format; a module is imported when it is asked for."""

from __future__ import annotations

FORMATS = (
    *("text", "json", "jsonl", "junit", "sarif"),
    *("github", "markdown", "html", "prometheus"),
)
SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "jsonl",
    ".xml": "junit",
    ".sarif": "sarif",
    ".md": "markdown",
    ".html": "html",
    ".prom": "prometheus",
}
